# Compiles the installed headers, each alone and all together.

include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

configure_fresh("${CMAKE_CURRENT_LIST_DIR}/headers" "${SCRATCH}"
                "-DSinter_ROOT=${PREFIX}" "-DINCLUDE_DIR=${INCLUDE_DIR}")
run_step("${CMAKE_COMMAND}" --build "${SCRATCH}")
