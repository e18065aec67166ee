# Compiles, links and runs the consumers with nothing but what pkg-config says.

include("${CMAKE_CURRENT_LIST_DIR}/steps.cmake")

file(REMOVE_RECURSE "${SCRATCH}")
file(MAKE_DIRECTORY "${SCRATCH}")
if(DEFINED ENV{PKG_CONFIG_PATH})
  set(ENV{PKG_CONFIG_PATH} "${LIB_DIR}/pkgconfig:$ENV{PKG_CONFIG_PATH}")
else()
  set(ENV{PKG_CONFIG_PATH} "${LIB_DIR}/pkgconfig")
endif()

# pkg_config(<out> <argument> ...): what it prints, as a list of words.
function(pkg_config out)
  execute_process(COMMAND "${PKG_CONFIG}" ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output
                  ERROR_VARIABLE error OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "pkg-config ${ARGN}: ${error}")
  endif()
  separate_arguments(output UNIX_COMMAND "${output}")
  set(${out} "${output}" PARENT_SCOPE)
endfunction()

# compile(<compiler> <source> <program> <module> [<pkg-config option> ...]): links by what
# pkg-config says of a module, and runs the program.
function(compile compiler source program module)
  pkg_config(cflags --cflags ${module})
  pkg_config(libs --libs ${ARGN} ${module})
  separate_arguments(flags UNIX_COMMAND "${FLAGS}")
  run_step(${compiler} ${flags} ${cflags} "${CMAKE_CURRENT_LIST_DIR}/consumer/${source}"
           -o "${SCRATCH}/${program}" ${libs})
  set(ENV{LD_LIBRARY_PATH} "${LIB_DIR}")
  run_step("${SCRATCH}/${program}")
endfunction()

foreach(module IN ITEMS sinter sinter-c sinter-testing)
  pkg_config(version --modversion ${module})
  if(NOT version STREQUAL VERSION)
    message(FATAL_ERROR "${module} has version ${version}, not ${VERSION}")
  endif()
endforeach()
set(cxx "${CXX}" -std=c++20 -O0)
compile("${cxx}" consumer.cpp consumer sinter)
compile("${cxx}" testing_consumer.cpp testing_consumer "sinter-testing;gmock_main")
compile("${CC};-DSINTER_VERSION=\"${VERSION}\"" c_consumer.c c_consumer sinter-c)
pkg_config(libs --static --libs sinter)
if(NOT "-lsinter_fusion_ir" IN_LIST libs OR NOT "-lfmt" IN_LIST libs)
  message(FATAL_ERROR "pkg-config --static --libs sinter: ${libs}")
endif()
