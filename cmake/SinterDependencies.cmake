# Finds what Sinter is built on. SinterConfig.cmake.in finds again what an installed Sinter needs.

find_package(Boost 1.74 REQUIRED)
find_package(fmt 9 REQUIRED CONFIG)
find_package(tl-expected REQUIRED CONFIG)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED CONFIG)
find_package(Threads REQUIRED)
find_path(SINTER_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(SINTER_SQLITE_INCLUDE_DIR sqlite3.h REQUIRED)
mark_as_advanced(SINTER_XXHASH_INCLUDE_DIR SINTER_SQLITE_INCLUDE_DIR)

# xxHash has no CMake package on every distribution; it is used header-only.
add_library(sinter_xxhash INTERFACE)
target_include_directories(sinter_xxhash SYSTEM INTERFACE "${SINTER_XXHASH_INCLUDE_DIR}")
target_compile_definitions(sinter_xxhash INTERFACE XXH_INLINE_ALL)

# SQLite is opened at run time, so that only what keeps tunings needs it: its header is enough here.
add_library(sinter_sqlite INTERFACE)
target_include_directories(sinter_sqlite SYSTEM INTERFACE "${SINTER_SQLITE_INCLUDE_DIR}")

# The library alone needs nothing below.
foreach(part IN ITEMS TESTS TOOLS BENCHMARKS)
  if(SINTER_BUILD_${part} AND NOT SINTER_BUILD_TESTING_KIT)
    message(FATAL_ERROR "SINTER_BUILD_${part} needs the canned fusions of Sinter::testing: "
                        "set SINTER_BUILD_TESTING_KIT to ON, or SINTER_BUILD_${part} to OFF")
  endif()
endforeach()
if(SINTER_BUILD_TESTING_KIT)
  find_package(GTest REQUIRED CONFIG)
endif()
if(SINTER_BUILD_TESTS)
  find_package(rapidcheck REQUIRED CONFIG)
endif()
if(SINTER_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED CONFIG)
  find_package(LibLZMA REQUIRED)  # Large result files are compressed.
endif()
if(SINTER_BUILD_TOOLS OR SINTER_BUILD_BENCHMARKS)
  find_package(CLI11 REQUIRED CONFIG)
endif()
