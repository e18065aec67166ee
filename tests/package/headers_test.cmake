# Compiles the installed headers all together, and alone: the public ones, or with ALL_ALONE each.

include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

configure_fresh("${CMAKE_CURRENT_LIST_DIR}/headers" "${SCRATCH}"
                "-DSinter_ROOT=${PREFIX}" "-DINCLUDE_DIR=${INCLUDE_DIR}"
                "-DALL_ALONE=${ALL_ALONE}")
run_step("${CMAKE_COMMAND}" --build "${SCRATCH}")
