# Helpers that make one kind of target each. All accept an empty SOURCES list.

# Gives a target the language level, warnings and options shared by the whole project.
function(sinter_configure_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:sinter_warnings>)
  # GCC collects the garbage of its own heap less often: a tenth of its time for a third more memory.
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-expand=300 --param ggc-min-heapsize=1048576>")
endfunction()

# What most sources of the libraries include, and so whatever includes the libraries' headers.
set(sinter_library_headers
  <algorithm> <fmt/format.h> <functional> <map> <optional> <set> <span> <string> <tl/expected.hpp>
  <utility> <variant> <vector>)

# sinter_share_precompiled_headers(<target> KIND <kind> [OPTIMISE <flag>] [LINK ...] HEADERS ...)
#
# Gives <target> headers that are parsed once for all targets of its KIND. Only targets that are
# compiled alike can share them: libraries, or executables with the same OPTIMISE flag. Headers of
# the project are never among them, so that a change of one compiles what includes it and no more.
function(sinter_share_precompiled_headers target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND;OPTIMISE" "LINK;HEADERS")
  set(owner sinter_${arg_KIND}_headers)
  if(NOT TARGET ${owner})
    set(source "${PROJECT_BINARY_DIR}/${arg_KIND}_headers.cpp")
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      file(CONFIGURE OUTPUT "${source}" CONTENT "int main() {}\n")
      add_executable(${owner} EXCLUDE_FROM_ALL "${source}")
    else()
      file(CONFIGURE OUTPUT "${source}" CONTENT "\n")
      add_library(${owner} OBJECT EXCLUDE_FROM_ALL "${source}")
    endif()
    sinter_configure_target(${owner})
    target_compile_options(${owner} PRIVATE ${arg_OPTIMISE})
    target_link_libraries(${owner} PRIVATE ${arg_LINK})
    target_precompile_headers(${owner} PRIVATE ${arg_HEADERS})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${owner})
endfunction()

# sinter_compile_headers_alone(<target> HEADERS ... LINK ...)
#
# Target all_private_headers compiles each of them as a source of its own: CMake's
# all_verify_interface_header_sets does so for those that are installed.
function(sinter_compile_headers_alone target)
  if(NOT TARGET all_private_headers)
    add_custom_target(all_private_headers)
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINK")
  if(NOT arg_HEADERS)
    return()
  endif()
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
    OUTPUT_VARIABLE folder)
  set(sources "")
  foreach(header IN LISTS arg_HEADERS)
    set(source "${CMAKE_CURRENT_BINARY_DIR}/${target}_private_headers/${header}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"@folder@/@header@\"\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  add_library(${target}_private_headers OBJECT EXCLUDE_FROM_ALL ${sources})
  sinter_configure_target(${target}_private_headers)
  target_link_libraries(${target}_private_headers PRIVATE ${target} ${arg_LINK})
  add_dependencies(all_private_headers ${target}_private_headers)
endfunction()

# sinter_add_library(<folder>
#   SOURCES ...          compiled
#   ALONE ...            those of them that are never joined with others
#   HEADERS ...          installed, because a header below include/sinter needs them; *.def tables too
#   PRIVATE_HEADERS ...  not installed
#   PUBLIC ...           targets that the headers need
#   PRIVATE ...          header-only targets that only the sources need
#   EXPORT <set>)        export set, default SinterTargets
#
# Makes target sinter_<folder>, which is Sinter::<folder> in the project and in an installed package.
function(sinter_add_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "EXPORT"
    "SOURCES;ALONE;HEADERS;INTERFACE_HEADERS;PRIVATE_HEADERS;PUBLIC;PRIVATE")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "sinter_add_library(${folder}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_EXPORT)
    set(arg_EXPORT SinterTargets)
  endif()

  set(target sinter_${folder})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES} ${arg_PRIVATE_HEADERS})
    set(scope PUBLIC)
    sinter_configure_target(${target})
    sinter_join_library_sources(${target} SOURCES ${arg_SOURCES} ALONE ${arg_ALONE})
    sinter_share_precompiled_headers(${target} KIND library
      LINK fmt::fmt tl::expected
      HEADERS ${sinter_library_headers})
    # BUILD_INTERFACE keeps them out of the export: they are headers only.
    foreach(dependency IN LISTS arg_PRIVATE)
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${dependency}>)
    endforeach()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_compile_features(${target} INTERFACE cxx_std_20)
  endif()
  target_link_libraries(${target} ${scope} ${arg_PUBLIC})
  add_library(Sinter::${folder} ALIAS ${target})

  set(tables ${arg_HEADERS})
  list(FILTER tables INCLUDE REGEX "\\.def$")
  list(FILTER arg_HEADERS EXCLUDE REGEX "\\.def$")
  target_sources(${target} ${scope}
    FILE_SET HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${arg_HEADERS}
    FILE_SET tables TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}" FILES ${tables})
  set(install_public "")
  if(arg_INTERFACE_HEADERS)
    target_sources(${target} ${scope}
      FILE_SET public TYPE HEADERS BASE_DIRS "${PROJECT_SOURCE_DIR}/include"
      FILES ${arg_INTERFACE_HEADERS})
    set(install_public FILE_SET public DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  endif()
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${folder}
    VERIFY_INTERFACE_HEADER_SETS ON
    INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)

  if(PROJECT_IS_TOP_LEVEL)
    sinter_compile_headers_alone(${target} HEADERS ${arg_PRIVATE_HEADERS} LINK ${arg_PRIVATE})
  endif()

  if(SINTER_INSTALL)
    install(TARGETS ${target} EXPORT ${arg_EXPORT}
      ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
      FILE_SET HEADERS DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sinter"
      FILE_SET tables DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/sinter"
      ${install_public})
  endif()
endfunction()

# sinter_add_executable(<target> OPTIMISE <flag> SOURCES ... LINK ...)
#
# Makes an executable that uses the libraries and is itself optimised as <flag> says.
function(sinter_add_executable target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OPTIMISE" "SOURCES;LINK")
  add_executable(${target} ${arg_SOURCES})
  sinter_configure_target(${target})
  target_compile_options(${target} PRIVATE ${arg_OPTIMISE})
  target_link_libraries(${target} PRIVATE Sinter::Sinter ${arg_LINK})
endfunction()

# sinter_add_program(<target> SOURCES ... LINK ... [OUTPUT_NAME <name>] [JOIN])
#
# Makes a program for people to run; does nothing while SOURCES is empty. With JOIN its sources are
# joined (sinter_join_sources).
function(sinter_add_program target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "JOIN" "OUTPUT_NAME" "SOURCES;LINK")
  if(NOT arg_SOURCES)
    return()
  endif()
  # Programs spend their time in the libraries; optimised less, they build a third faster.
  set(optimise $<$<CONFIG:Release>:-O1>)
  sinter_add_executable(${target} OPTIMISE ${optimise} SOURCES ${arg_SOURCES} LINK ${arg_LINK})
  if(arg_JOIN)
    sinter_join_sources(${target})
  endif()
  # Most of what they compile is the headers of their command line and of JSON.
  if("CLI11::CLI11" IN_LIST arg_LINK AND "nlohmann_json::nlohmann_json" IN_LIST arg_LINK)
    sinter_share_precompiled_headers(${target} KIND program OPTIMISE ${optimise}
      LINK fmt::fmt tl::expected CLI11::CLI11 nlohmann_json::nlohmann_json
      HEADERS ${sinter_library_headers} <CLI/CLI.hpp> <nlohmann/json.hpp>)
  endif()
  if(arg_OUTPUT_NAME)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME ${arg_OUTPUT_NAME})
  endif()
endfunction()

# Lets CMake include several sources of a target in one translation unit (SINTER_JOIN_SOURCES): most of
# the time of each goes into the same templates.
function(sinter_join_sources target)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${SINTER_JOIN_SOURCES}
    UNITY_BUILD_BATCH_SIZE 10)
endfunction()

# The same for a library: only sources of one folder are joined, and none of ALONE. A name in an
# unnamed namespace is then that of one source in its folder, or these are in ALONE.
function(sinter_join_library_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ALONE")
  set(batch_size 8)
  foreach(source IN LISTS arg_SOURCES)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "folder_${folder}" folder)
    if(NOT DEFINED ${folder}_count)
      set(${folder}_count 0)
    endif()
    math(EXPR batch "${${folder}_count} / ${batch_size}")
    math(EXPR ${folder}_count "${${folder}_count} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${folder}_${batch})
  endforeach()
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${SINTER_JOIN_SOURCES}
    UNITY_BUILD_MODE GROUP)
  # GCC takes a source that is joined for a header: a class in it has members of unnamed namespaces.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# The same for a target of tests: only sources called *_test.cpp are joined, which have a namespace of
# their own (CONTRIBUTING.md), and of those not what ALONE names.
function(sinter_join_test_sources target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;ALONE")
  set(alone ${arg_SOURCES})
  list(FILTER alone EXCLUDE REGEX "_test\\.cpp$")
  set_source_files_properties(${alone} ${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  sinter_join_sources(${target})
endfunction()

# sinter_add_test(<folder> SOURCES ... [ALONE ...] [LINK ...] [LABELS ...] [TIMEOUT <seconds>]
#                 [QUICK [SLOW <regex> ...]] [FULL <filter> ...])
#
# Makes executable sinter_<folder>_tests and registers each of its tests with CTest under the label
# <folder>. Sources that define macros are among ALONE: they are never joined with others. A test
# whose full name contains "Gpu" gets the label gpu as well. With QUICK all of them get the label
# quick, but those whose names match a regex of SLOW: tests that take seconds. What FULL names, as
# --gtest_filter does, takes a slice of its cases (tests/support/effort.h); `ctest -C full` runs it
# once more, with all of them.
function(sinter_add_test folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "QUICK" "TIMEOUT" "SOURCES;ALONE;LINK;LABELS;SLOW;FULL")
  if(NOT arg_SOURCES)
    return()
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  set(target sinter_${folder}_tests)
  # Test code is built far more often than it is waited for: unoptimised, and with the frameworks'
  # headers parsed once, it builds in less than half the time.
  sinter_add_executable(${target} OPTIMISE -O0
    SOURCES ${arg_SOURCES}
    LINK Sinter::testing GTest::gmock_main rapidcheck rapidcheck_gtest ${arg_LINK})
  sinter_join_test_sources(${target} SOURCES ${arg_SOURCES} ALONE ${arg_ALONE})
  target_compile_definitions(${target} PRIVATE
    SINTER_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests"
    $<$<CONFIG:Release>:SINTER_OPTIMISED_LIBRARIES>)
  sinter_share_precompiled_headers(${target} KIND test OPTIMISE -O0
    LINK fmt::fmt GTest::gmock tl::expected
    HEADERS ${sinter_library_headers} <gmock/gmock.h> <gtest/gtest.h>)
  gtest_discover_tests(${target}
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${folder}." TEST_FILTER "-*Gpu*"
    PROPERTIES TIMEOUT ${arg_TIMEOUT})
  gtest_discover_tests(${target}
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${folder}." TEST_FILTER "*Gpu*"
    TEST_LIST ${target}_gpu_TESTS
    PROPERTIES TIMEOUT ${arg_TIMEOUT})

  if(arg_FULL)
    list(JOIN arg_FULL ":" filter)
    add_test(NAME ${folder}.all_cases CONFIGURATIONS full
      COMMAND ${target} "--gtest_filter=${filter}")
    set_tests_properties(${folder}.all_cases PROPERTIES
      ENVIRONMENT SINTER_ALL_CASES=1 LABELS "${folder};full" TIMEOUT 3600)
  endif()

  # gtest_discover_tests cannot pass a list as a property, so CTest sets the labels after it.
  list(JOIN arg_SLOW "|" slow)
  if(slow STREQUAL "")
    set(slow "^$")
  endif()
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${target}_labels.cmake")
  file(CONFIGURE OUTPUT "${labels_file}" @ONLY CONTENT [[
if(@target@_TESTS)
  set_tests_properties(${@target@_TESTS} PROPERTIES LABELS "@folder@;@arg_LABELS@")
  if("@arg_QUICK@" STREQUAL "TRUE")
    foreach(test IN LISTS @target@_TESTS)
      if(NOT test MATCHES "@slow@")
        set_tests_properties("${test}" PROPERTIES LABELS "@folder@;@arg_LABELS@;quick")
      endif()
    endforeach()
  endif()
endif()
if(@target@_gpu_TESTS)
  set_tests_properties(${@target@_gpu_TESTS} PROPERTIES LABELS "@folder@;gpu;@arg_LABELS@")
endif()
]])
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
