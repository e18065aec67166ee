# Fails when an installed header includes one that is not installed, or one of a library that users
# of Sinter need not have, naming file and line; and when a header is installed that none of those
# below include/ needs. Compiles nothing.
#
#   cmake -DROOT=<repository> -DHEADERS=<file with a path below ROOT a line> -P include_closure.cmake

cmake_minimum_required(VERSION 3.25)

# What SinterConfig.cmake finds for everybody, and for component testing.
set(library_packages fmt tl boost)
set(testing_packages gmock gtest)
set(c_headers sys/stat.h stddef.h stdint.h)

include("${CMAKE_CURRENT_LIST_DIR}/included_headers.cmake")

file(STRINGS "${HEADERS}" installed)
if(NOT installed)
  message(FATAL_ERROR "${HEADERS} names no header")
endif()
set(violations "")

# What the public headers include, and what that includes.
set(needed "")
foreach(header IN LISTS installed)
  if(header MATCHES "^include/")
    included_headers("${ROOT}" "${header}" included)
    list(APPEND needed "${header}" ${included})
  endif()
endforeach()
foreach(header IN LISTS installed)
  if(NOT header IN_LIST needed AND NOT header MATCHES "\\.def$")
    string(APPEND violations
      "${header}: no public header includes it: move it to PRIVATE_HEADERS of its CMakeLists.txt\n")
  endif()
endforeach()

foreach(header IN LISTS installed)
  file(STRINGS "${ROOT}/${header}" lines)
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(NOT line MATCHES "^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]*)[>\"]")
      continue()
    endif()
    set(bracket "${CMAKE_MATCH_1}")
    set(included "${CMAKE_MATCH_2}")
    string(REGEX REPLACE "/.*" "" package "${included}")
    set(allowed ${library_packages})
    if(header MATCHES "^tests/")
      list(APPEND allowed ${testing_packages})
    endif()
    set(problem "")
    if(bracket STREQUAL "\"" AND NOT included IN_LIST installed
       AND NOT "include/${included}" IN_LIST installed)
      set(problem "it is not installed: add it to HEADERS of its CMakeLists.txt")
    elseif(bracket STREQUAL "<" AND included MATCHES "[/.]"
           AND NOT included IN_LIST c_headers AND NOT package IN_LIST allowed)
      set(problem "users of the package need not have it")
    endif()
    if(problem)
      string(APPEND violations "${header}:${number}: ${included}: ${problem}\n")
    endif()
  endforeach()
endforeach()

if(violations)
  message(NOTICE "${violations}")
  message(FATAL_ERROR "Installed headers are the public ones and what those include")
endif()
