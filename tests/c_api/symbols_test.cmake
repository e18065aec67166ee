# Fails when LIBRARY exports other symbols than SYMBOLS lists, or needs other libraries than those
# of every Linux with glibc.
#
#   cmake -DLIBRARY=... -DSYMBOLS=... -DNM=... -DREADELF=... -DALONE=<bool> -P symbols_test.cmake

cmake_minimum_required(VERSION 3.25)

function(output_of out)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

output_of(exported "${NM}" --dynamic --defined-only --format=posix "${LIBRARY}")
string(REGEX MATCHALL "[^\n]+\n" lines "${exported}")
set(found "")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^([^ ]+) ([^ ]+).*$" "\\1 \\2" symbol "${line}")
  string(STRIP "${symbol}" symbol)
  list(APPEND found "${symbol}")
endforeach()
list(SORT found)
list(JOIN found "\n" found)
file(READ "${SYMBOLS}" expected)
string(STRIP "${expected}" expected)
if(NOT found STREQUAL expected)
  message(FATAL_ERROR "${LIBRARY} exports\n${found}\nexpected is what ${SYMBOLS} says:\n${expected}")
endif()

output_of(dynamic "${READELF}" --dynamic --wide "${LIBRARY}")
if(ALONE)
  string(REGEX MATCHALL "NEEDED[^\n]*\\[[^]]+\\]" needed "${dynamic}")
  foreach(line IN LISTS needed)
    if(NOT line MATCHES "\\[(libc|libm|libdl|libpthread|librt|ld-linux[^.]*)\\.so")
      message(FATAL_ERROR "${LIBRARY} needs another library: ${line}")
    endif()
  endforeach()
endif()
