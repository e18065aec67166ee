# Plants headers in a scratch tree and checks what include_closure.cmake says of them.

cmake_minimum_required(VERSION 3.25)

# expect_closure(<text of a/planted.h> <message> [LONELY]): with LONELY, a/lonely.h is installed too,
# which nothing includes.
function(expect_closure content expected)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${SCRATCH}/a/planted.h" "${content}")
  file(WRITE "${SCRATCH}/a/installed.h" "")
  file(WRITE "${SCRATCH}/a/private.h" "")
  file(WRITE "${SCRATCH}/tests/kit.h" "#include <gmock/gmock.h>\n")
  file(WRITE "${SCRATCH}/include/all.h"
    "#include \"a/planted.h\"\n#include \"a/installed.h\"\n#include \"tests/kit.h\"\n")
  file(WRITE "${SCRATCH}/a/lonely.h" "")
  set(lonely "")
  if(ARGN)
    set(lonely "a/lonely.h\n")
  endif()
  file(WRITE "${SCRATCH}/headers.txt"
    "include/all.h\na/planted.h\na/installed.h\ntests/kit.h\n${lonely}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${SCRATCH}" "-DHEADERS=${SCRATCH}/headers.txt"
            -P "${CMAKE_CURRENT_LIST_DIR}/include_closure.cmake"
    RESULT_VARIABLE result ERROR_VARIABLE output)
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(FATAL_ERROR "unexpected violation in:\n${content}\n${output}")
  endif()
  if(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "expected '${expected}' for:\n${content}\ngot ${result}:\n${output}")
  endif()
endfunction()

expect_closure("#include <vector>\n#include <fmt/format.h>\n#include \"a/installed.h\"\n" "")
expect_closure("// see \"a/private.h\"\n" "")
expect_closure("#pragma once\n\n#include \"a/private.h\"\n" "a/planted.h:3: a/private.h: it is not")
expect_closure("int x;\n #  include \"a/absent.h\"\n" "a/planted.h:2: a/absent.h: it is not")
expect_closure("#include <Eigen/Core>\n" "a/planted.h:1: Eigen/Core: users")
expect_closure("#include <xxhash.h>\n" "a/planted.h:1: xxhash.h: users")
expect_closure("#include <gmock/gmock.h>\n" "a/planted.h:1: gmock/gmock.h: users")
expect_closure("" "a/lonely.h: no public header includes it" LONELY)
