# Code that README.md takes from examples and tests must stand there, line for line but for the
# indentation: a line "<!-- from FILE -->" before a block of code names the file.
#
#   cmake -DROOT=<repository> -P readme_code.cmake

cmake_minimum_required(VERSION 3.25)

# Lines without the blanks before them.
function(strip_indentation text out)
  string(REGEX REPLACE "\n[ ]+" "\n" stripped "\n${text}\n")
  set(${out} "${stripped}" PARENT_SCOPE)
endfunction()

file(READ "${ROOT}/README.md" rest)
set(blocks 0)
set(fence "```")
string(FIND "${rest}" "<!-- from " at)
while(NOT at EQUAL -1)
  string(SUBSTRING "${rest}" ${at} -1 rest)
  if(NOT rest MATCHES "^<!-- from ([^ \n]+) -->\n${fence}(cpp|c)\n")
    string(SUBSTRING "${rest}" 0 80 head)
    message(FATAL_ERROR "README.md: no block of code behind: ${head}")
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
    message(FATAL_ERROR "README.md: this does not stand in ${source}:\n${code}")
  endif()
  math(EXPR blocks "${blocks} + 1")
  string(FIND "${rest}" "<!-- from " at)
endwhile()
if(blocks EQUAL 0)
  message(FATAL_ERROR "README.md takes no code from the examples")
endif()
