# Installs BUILD_DIR into SCRATCH/prefix, then configures, builds and runs CONSUMER against it.

cmake_minimum_required(VERSION 3.25)

set(prefix "${SCRATCH}/prefix")
set(build "${SCRATCH}/build")
file(REMOVE_RECURSE "${prefix}" "${build}")

function(run_step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
endfunction()

set(flags "")
if(SANITIZERS)
  set(flags "-fsanitize=${SANITIZERS}")
endif()

run_step("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}")
run_step("${CMAKE_COMMAND}" -S "${CONSUMER}" -B "${build}" -G "${GENERATOR}"
         "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX}"
         "-DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}" "-DCMAKE_CXX_FLAGS=${flags}"
         "-DCMAKE_C_FLAGS=${flags}"
         "-DSINTER_VERSION=${VERSION}")
run_step("${CMAKE_COMMAND}" --build "${build}")
run_step("${build}/consumer")
run_step("${build}/testing_consumer")
if(EXISTS "${build}/c_consumer")
  run_step("${build}/c_consumer")
endif()
