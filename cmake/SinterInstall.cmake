# Installs the libraries as a CMake package, so that find_package(Sinter) works from a prefix.

include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Sinter")

install(TARGETS sinter EXPORT SinterTargets)
install(EXPORT SinterTargets NAMESPACE Sinter:: DESTINATION "${package_dir}")
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
