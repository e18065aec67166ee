# Fails when a layer includes one above it, or a room of a layer one behind it, naming file and line.
#
#   cmake -DROOT=<repository> -P layering.cmake

cmake_minimum_required(VERSION 3.25)

set(layers fusion_ir scheduler codegen runtime)
set(users tests benchmarks examples tools sinter)

# The rooms of each layer: each includes only those before it.
set(rooms_fusion_ir . passes)
set(rooms_scheduler analysis schedule program budgets cost families plan segmentation planning report)
set(rooms_codegen kernel protocol lower passes device cuda)
set(rooms_runtime . driver cublaslt cache compile json execute interpreter oracle check tuning c_api)

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

# Layers whose rooms are ordered; the passes of fusion_ir and what runs them are one.
set(divided scheduler codegen runtime)

set(above ${layers})
foreach(layer IN LISTS layers)
  list(REMOVE_ITEM above ${layer})
  set(rooms "${rooms_${layer}}")
  file(GLOB_RECURSE files RELATIVE "${ROOT}" "${ROOT}/${layer}/*.h" "${ROOT}/${layer}/*.cpp"
       "${ROOT}/${layer}/*.cuh" "${ROOT}/${layer}/*.def")
  foreach(file IN LISTS files)
    string(REGEX REPLACE "^${layer}/" "" room "${file}")
    if(room MATCHES "/")
      string(REGEX REPLACE "/.*" "" room "${room}")
    else()
      set(room .)
    endif()
    list(FIND rooms "${room}" place)
    if(place EQUAL -1)
      set(violations "${violations}${file}:1: ${layer} has no room ${room}; its rooms: ${rooms}\n")
    endif()
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
      elseif(folder STREQUAL layer AND layer IN_LIST divided)
        string(REGEX REPLACE "^${layer}/" "" other "${included}")
        if(other MATCHES "/")
          string(REGEX REPLACE "/.*" "" other "${other}")
        else()
          set(other .)
        endif()
        list(FIND rooms "${other}" other_place)
        if(other_place GREATER place)
          report("${file}" "${line}" "${layer}/${room} may not use ${layer}/${other}, which is behind it")
        endif()
      endif()
    endforeach()
  endforeach()
endforeach()

if(violations)
  message(NOTICE "${violations}")
  message(FATAL_ERROR "Includes go one way: fusion_ir <- scheduler <- codegen <- runtime, and from room to "
                      "room as listed in tests/layering.cmake")
endif()
