# Installs the libraries as a CMake package and for pkg-config: find_package(Sinter), and
# `pkg-config sinter`, work from a prefix, wherever it was moved to.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Sinter")

# An export set for each component, so that who asks for one needs nothing of the others.
install(TARGETS sinter EXPORT SinterTargets
  FILE_SET public DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT SinterTargets NAMESPACE Sinter:: DESTINATION "${package_dir}")
if(SINTER_BUILD_C)
  install(EXPORT SinterCTargets NAMESPACE Sinter:: DESTINATION "${package_dir}")
  get_target_property(SINTER_C_STANDS_ALONE sinter_c SINTER_STANDS_ALONE)
endif()
if(SINTER_BUILD_TESTING_KIT)
  install(EXPORT SinterTestingTargets NAMESPACE Sinter:: DESTINATION "${package_dir}")
endif()
if(TARGET sinter_tool)
  install(TARGETS sinter_tool RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/SinterConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/SinterConfig.cmake"
  INSTALL_DESTINATION "${package_dir}")
# Before 1.0 a minor version may break its callers.
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/SinterConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/SinterConfig.cmake"
  "${PROJECT_BINARY_DIR}/SinterConfigVersion.cmake"
  DESTINATION "${package_dir}")

# sinter_install_pkg_config(<name> DESCRIPTION <text> LIBS <flags> [REQUIRES <modules>])
#
# Installs <name>.pc. Its prefix follows from where the file lies.
function(sinter_install_pkg_config name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESCRIPTION;LIBS;REQUIRES" "")
  set(pkg_config_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(prefix "${CMAKE_INSTALL_PREFIX}")
  else()
    file(RELATIVE_PATH up "/${pkg_config_dir}" "/")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(prefix "\${pcfiledir}/${up}")
  endif()
  set(includedir "${CMAKE_INSTALL_INCLUDEDIR}")
  set(libdir "${CMAKE_INSTALL_LIBDIR}")
  cmake_path(ABSOLUTE_PATH includedir BASE_DIRECTORY "/prefix")
  cmake_path(ABSOLUTE_PATH libdir BASE_DIRECTORY "/prefix")
  string(REGEX REPLACE "^/prefix/" "\${prefix}/" includedir "${includedir}")
  string(REGEX REPLACE "^/prefix/" "\${prefix}/" libdir "${libdir}")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/sinter.pc.in" "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${pkg_config_dir}")
endfunction()

# The libraries are static and their order is that of their dependence. Boost and tl-expected are
# headers, and have no file for pkg-config.
set(system_libraries "${CMAKE_THREAD_LIBS_INIT}" ${CMAKE_DL_LIBS})
list(TRANSFORM system_libraries REPLACE "^([^-].*)$" "-l\\1")
list(JOIN system_libraries " " system_libraries)
sinter_install_pkg_config(sinter
  DESCRIPTION "${PROJECT_DESCRIPTION}"
  LIBS "-lsinter_runtime -lsinter_codegen -lsinter_scheduler -lsinter_fusion_ir ${system_libraries}"
  REQUIRES "fmt >= 9")
if(SINTER_BUILD_C)
  sinter_install_pkg_config(sinter-c
    DESCRIPTION "${PROJECT_DESCRIPTION}: the C interface"
    LIBS -lsinter)
endif()
if(SINTER_BUILD_TESTING_KIT)
  sinter_install_pkg_config(sinter-testing
    DESCRIPTION "Canned fusions, fakes and matchers for what is built on Sinter"
    LIBS -lsinter_testing
    REQUIRES "sinter = ${PROJECT_VERSION}, gmock")
endif()
