# Builds and runs a project that only knows find_package(Sinter), and holds each component to what
# it may ask for.

include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

set(consumer "${CMAKE_CURRENT_LIST_DIR}/consumer")
set(root "-DSinter_ROOT=${PREFIX}")

configure_fresh("${consumer}" "${SCRATCH}/all" "${root}" "-DSINTER_COMPONENTS=c,testing")
run_step("${CMAKE_COMMAND}" --build "${SCRATCH}/all")
foreach(program IN ITEMS consumer consumer_of_folders c_consumer testing_consumer)
  run_step("${SCRATCH}/all/${program}")
endforeach()

# The program that README.md shows, with its CMakeLists.txt.
configure_fresh("${SOURCE_DIR}/examples/rms_norm" "${SCRATCH}/example" "${root}")
run_step("${CMAKE_COMMAND}" --build "${SCRATCH}/example")
run_step("${SCRATCH}/example/rms_norm")

without(GTest CLI11 benchmark rapidcheck Eigen3 nlohmann_json)
configure_fresh("${consumer}" "${SCRATCH}/library" "${root}" ${without})
expect_configure_error("${consumer}" "${SCRATCH}/error" "GTest" "${root}" ${without}
                       -DSINTER_COMPONENTS=testing)
expect_configure_error("${consumer}" "${SCRATCH}/error" "has no component .fortran." "${root}"
                       -DSINTER_COMPONENTS=fortran)

without(GTest CLI11 benchmark rapidcheck Eigen3 nlohmann_json Boost fmt tl-expected Threads)
configure_fresh("${consumer}" "${SCRATCH}/c" "${root}" ${without} -DSINTER_COMPONENTS=c)
run_step("${CMAKE_COMMAND}" --build "${SCRATCH}/c")
run_step("${SCRATCH}/c/c_consumer")
