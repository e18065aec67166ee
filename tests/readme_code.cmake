# Code that documents show must stand in an example or a test, line for line but for the indentation:
# a line "<!-- from FILE -->" before a block of code names the file, which is compiled and run.
#
#   cmake -DROOT=<repository> -P readme_code.cmake

cmake_minimum_required(VERSION 3.25)

# Lines without the blanks before them.
function(strip_indentation text out)
  string(REGEX REPLACE "\n[ ]+" "\n" stripped "\n${text}\n")
  set(${out} "${stripped}" PARENT_SCOPE)
endfunction()

set(fence "```")

# Checks one document, and adds its blocks to those of the caller.
function(check_document path)
  file(READ "${ROOT}/${path}" rest)
  string(REGEX MATCHALL "\n${fence}(cpp|c|cmake)\n" shown "${rest}")
  list(LENGTH shown shown)
  set(blocks 0)
  string(FIND "${rest}" "<!-- from " at)
  while(NOT at EQUAL -1)
    string(SUBSTRING "${rest}" ${at} -1 rest)
    if(NOT rest MATCHES "^<!-- from ([^ \n]+) -->\n${fence}(cpp|c|cmake)\n")
      string(SUBSTRING "${rest}" 0 80 head)
      message(FATAL_ERROR "${path}: no block of code behind: ${head}")
    endif()
    set(source "${CMAKE_MATCH_1}")
    string(LENGTH "${CMAKE_MATCH_0}" start)
    string(SUBSTRING "${rest}" ${start} -1 rest)
    string(FIND "${rest}" "\n${fence}" end)
    string(SUBSTRING "${rest}" 0 ${end} code)
    file(READ "${ROOT}/${source}" text)
    strip_indentation("${code}" code)
    strip_indentation("${text}" text)
    string(FIND "${text}" "${code}" found)
    if(found EQUAL -1)
      message(FATAL_ERROR "${path}: this does not stand in ${source}:\n${code}")
    endif()
    math(EXPR blocks "${blocks} + 1")
    string(FIND "${rest}" "<!-- from " at)
  endwhile()
  if(NOT blocks EQUAL shown)
    message(FATAL_ERROR "${path}: ${shown} blocks of code, ${blocks} of which say where they stand")
  endif()
  math(EXPR all "${all_blocks} + ${blocks}")
  set(all_blocks ${all} PARENT_SCOPE)
endfunction()

file(GLOB documents RELATIVE "${ROOT}" "${ROOT}/*.md" "${ROOT}/*/*.md" "${ROOT}/*/*/*.md")
list(FILTER documents EXCLUDE REGEX "^build/")
set(all_blocks 0)
foreach(document IN LISTS documents)
  check_document("${document}")
endforeach()
if(all_blocks EQUAL 0)
  message(FATAL_ERROR "no document takes code from the examples")
endif()
