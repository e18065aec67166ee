# Makes Sinter a part of another project with add_subdirectory: targets have the names that an
# installed Sinter gives them, and the library alone asks for nothing that only its tests, tools and
# benchmarks need. Configures and builds nothing: it would build the whole library again.

include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

set(consumer "${CMAKE_CURRENT_LIST_DIR}/consumer")
set(source "-DSINTER_SOURCE_DIR=${SOURCE_DIR}")

configure_fresh("${consumer}" "${SCRATCH}/all" "${source}" "-DSINTER_COMPONENTS=cxx,c,testing")

without(GTest CLI11 benchmark rapidcheck)
configure_fresh("${consumer}" "${SCRATCH}/library" "${source}" ${without})

# The same of the project on its own.
set(off -DSINTER_BUILD_TESTS=OFF -DSINTER_BUILD_BENCHMARKS=OFF -DSINTER_BUILD_EXAMPLES=OFF)
configure_fresh("${SOURCE_DIR}" "${SCRATCH}/alone" ${without} ${off}
                -DSINTER_BUILD_TOOLS=OFF -DSINTER_BUILD_TESTING_KIT=OFF)
expect_configure_error("${SOURCE_DIR}" "${SCRATCH}/error"
                       "SINTER_BUILD_TOOLS needs .* SINTER_BUILD_TESTING_KIT to ON" ${off}
                       -DSINTER_BUILD_TESTING_KIT=OFF)
expect_configure_error("${SOURCE_DIR}" "${SCRATCH}/error" "GTest" ${without} ${off}
                       -DSINTER_BUILD_TOOLS=OFF)
