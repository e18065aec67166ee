# Interface target with the compiler options every target of the project is built with.

add_library(sinter_warnings INTERFACE)
target_compile_options(sinter_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow
  $<$<BOOL:${SINTER_WARNINGS_AS_ERRORS}>:-Werror>)
if(SINTER_WARNINGS_AS_ERRORS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
   AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees an overlapping copy in "literal" + std::string when it optimises (GCC bug 105651).
  target_compile_options(sinter_warnings INTERFACE -Wno-error=restrict)
endif()

if(SINTER_SANITIZERS)
  # Global, so that the consumer side of every inlined function is instrumented too.
  add_compile_options(-fsanitize=${SINTER_SANITIZERS} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SINTER_SANITIZERS})
endif()
