# Fails when a folder includes one above it, naming file and line.
#
#   cmake -DROOT=<repository> -P layering.cmake

cmake_minimum_required(VERSION 3.25)

set(layers fusion_ir scheduler codegen runtime)
set(users tests benchmarks examples tools)

set(violations "")

# Appends "file:line: reason" for an include line of a file.
function(report file line reason)
  file(READ "${ROOT}/${file}" text)
  string(FIND "${text}" "${line}" position)
  string(SUBSTRING "${text}" 0 ${position} before)
  string(REGEX REPLACE "[^\n]" "" newlines "${before}")
  string(LENGTH "${newlines}" number)
  math(EXPR number "${number} + 1")
  string(STRIP "${line}" line)
  set(violations "${violations}${file}:${number}: ${line}: ${reason}\n" PARENT_SCOPE)
endfunction()

set(above ${layers})
foreach(layer IN LISTS layers)
  list(REMOVE_ITEM above ${layer})
  file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/${layer}/*.h" "${ROOT}/${layer}/*.cpp"
       "${ROOT}/${layer}/*.cuh" "${ROOT}/${layer}/*.def")
  foreach(file IN LISTS files)
    file(STRINGS "${ROOT}/${file}" lines REGEX "^[ \t]*#[ \t]*include")
    foreach(line IN LISTS lines)
      if(NOT line MATCHES "include[ \t]*([<\"])([^>\"]*)[>\"]")
        continue()
      endif()
      set(bracket "${CMAKE_MATCH_1}")
      set(included "${CMAKE_MATCH_2}")
      string(REGEX REPLACE "/.*" "" folder "${included}")
      if(folder IN_LIST above)
        report("${file}" "${line}" "${layer} may not use ${folder}, which is above it")
      elseif(folder IN_LIST users)
        report("${file}" "${line}" "nothing in the library may use ${folder}")
      elseif(bracket STREQUAL "\"" AND NOT folder IN_LIST layers
             AND NOT file MATCHES "^codegen/device/")
        report("${file}" "${line}" "includes are rooted at the repository")
      endif()
    endforeach()
  endforeach()
endforeach()

if(violations)
  message(NOTICE "${violations}")
  message(FATAL_ERROR "Includes go one way: fusion_ir <- scheduler <- codegen <- runtime")
endif()
