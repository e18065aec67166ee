# What the scripts of this folder have in common. COMPILERS_FILE holds lines that set the initial
# cache of a configured project: compilers, launcher and flags of the build under test.

cmake_minimum_required(VERSION 3.25)

# run_step(<command> ...): fails with the command's output unless it ends with 0.
function(run_step)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
endfunction()

# configure_fresh(<source> <build> [<argument> ...]): configures a project from nothing.
function(configure_fresh source build)
  file(REMOVE_RECURSE "${build}")
  run_step("${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${GENERATOR}" -C "${COMPILERS_FILE}"
           ${ARGN})
endfunction()

# expect_configure_error(<source> <build> <regex> [<argument> ...]): configuring ends with an error
# whose text matches.
function(expect_configure_error source build expected)
  file(REMOVE_RECURSE "${build}")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -S "${source}" -B "${build}" -G "${GENERATOR}" -C "${COMPILERS_FILE}"
            ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " words "${output}")
  if(result EQUAL 0 OR NOT words MATCHES "${expected}")
    message(FATAL_ERROR "expected an error with '${expected}' for ${ARGN}; got ${result}:\n${output}")
  endif()
endfunction()

# without(<package> ...): sets `without` to the arguments with which CMake finds none of them.
function(without)
  set(found ${ARGN})
  list(TRANSFORM found PREPEND -DCMAKE_DISABLE_FIND_PACKAGE_)
  list(TRANSFORM found APPEND =ON)
  set(without "${found}" PARENT_SCOPE)
endfunction()
