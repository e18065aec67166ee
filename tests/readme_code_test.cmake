# Plants a page and an example in a scratch tree and checks what readme_code.cmake says of them.

cmake_minimum_required(VERSION 3.25)

function(expect_page code expected)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${SCRATCH}/shown.cpp" "int f() {\n  g[0](1);\n  return 2;\n}\n")
  file(WRITE "${SCRATCH}/${PAGE}" "Page\n\n${code}\nMore\n")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${SCRATCH}" -P "${CMAKE_CURRENT_LIST_DIR}/readme_code.cmake"
    RESULT_VARIABLE result ERROR_VARIABLE output)
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(FATAL_ERROR "unexpected complaint about:\n${code}\n${output}")
  endif()
  if(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "expected '${expected}' for:\n${code}\ngot ${result}:\n${output}")
  endif()
endfunction()

set(PAGE "README.md")
set(from "<!-- from shown.cpp -->\n```cpp\n")
expect_page("${from}g[0](1);\nreturn 2;\n```\n" "")
expect_page("${from}g[0](1);\n```\n${from}int f() {\n  g[0](1);\n```\n" "")
expect_page("${from}g[0](1);\nreturn 3;\n```\n" "does not stand in shown.cpp")
expect_page("${from}g[0](1);\n```\n${from}g[1](1);\n```\n" "does not stand in shown.cpp")
expect_page("${from}[0](1);\n```\n" "does not stand in shown.cpp")
expect_page("<!-- from shown.cpp -->\nwords\n" "no block of code")
expect_page("words\n" "takes code")
expect_page("${from}g[0](1);\n```\n```cpp\ng[0](1);\n```\n" "2 blocks of code, 1 of which")

# Every document is looked at.
set(PAGE "part/README.md")
expect_page("${from}return 3;\n```\n" "part/README.md: this does not stand in shown.cpp")
