# Plants words in a scratch tree and checks what words.cmake says of them.

cmake_minimum_required(VERSION 3.25)

function(expect_words file content expected)
  file(REMOVE_RECURSE "${SCRATCH}")
  file(WRITE "${SCRATCH}/${file}" "${content}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DROOT=${SCRATCH}" -P "${CMAKE_CURRENT_LIST_DIR}/words.cmake"
    RESULT_VARIABLE result ERROR_VARIABLE output)
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(FATAL_ERROR "unexpected word in:\n${content}\n${output}")
  endif()
  if(NOT expected STREQUAL "" AND (result EQUAL 0 OR NOT output MATCHES "${expected}"))
    message(FATAL_ERROR "expected '${expected}' for:\n${content}\ngot ${result}:\n${output}")
  endif()
endfunction()

expect_words(scheduler/a.h "// Loads in flight.\nint ring = 0;\n" "")
expect_words(scheduler/a.h "int x;  // Loads under way.\n" "scheduler/a.h.*say: in flight")
expect_words(docs/a.md "Rows come through a ring.\n" "docs/a.md.*say: pipeline")
expect_words(docs/a.md "See `h200_2026-11-22_tickets.json` and [this](tickets.md).\n" "")
expect_words(docs/glossary.md "The ring of buffers.\n" "")
