# Installs BUILD_DIR into PREFIX, for the tests of what was installed.

include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

file(REMOVE_RECURSE "${PREFIX}")
run_step("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}")
