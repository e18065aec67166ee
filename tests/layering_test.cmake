# Plants includes in a scratch tree and checks what layering.cmake says of them.

cmake_minimum_required(VERSION 3.25)

function(expect_layering content expected)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${SCRATCH}/scheduler/cost/planted.h" "${content}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${SCRATCH}" -P "${CMAKE_CURRENT_LIST_DIR}/layering.cmake"
    RESULT_VARIABLE result ERROR_VARIABLE output)
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(FATAL_ERROR "unexpected violation in:\n${content}\n${output}")
  endif()
  if(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "expected '${expected}' for:\n${content}\ngot ${result}:\n${output}")
  endif()
endfunction()

expect_layering("#include <vector>\n#include \"fusion_ir/id.h\"\n#include \"scheduler/budgets/resources.h\"\n" "")
expect_layering("#pragma once\n\n#include \"runtime/module.h\"\n"
                "scheduler/cost/planted.h:3: .*which is above it")
expect_layering("int x;\n  #  include <codegen/kernel/kernel_ir.h>\n"
                "scheduler/cost/planted.h:2: .*which is above it")
expect_layering("#include \"tests/support/canned_fusions.h\"\n"
                "scheduler/cost/planted.h:1: .*nothing in the library")
expect_layering("#include \"plan.h\"\n" "scheduler/cost/planted.h:1: .*rooted at the repository")
expect_layering("#include \"scheduler/plan/plan.h\"\n"
                "scheduler/cost/planted.h:1: .*may not use scheduler/plan, which is behind it")
