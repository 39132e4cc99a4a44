# Installed files: one header (and the experimental one, if there is one), both libraries, the
# program, the emulated driver in lib/sluice/, package files for CMake and pkg-config, the
# licence.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/sluice")

install(FILES ${public_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(TARGETS sluice_shared EXPORT sluice_targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
if(NOT SLUICE_SANITIZE AND NOT WIN32)
  install(TARGETS sluice_static EXPORT sluice_targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
endif()
install(EXPORT sluice_targets NAMESPACE sluice:: FILE sluiceTargets.cmake
  DESTINATION "${package_dir}" COMPONENT development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/tools/build/sluiceConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/generated/sluiceConfig.cmake" INSTALL_DESTINATION "${package_dir}")
# Nothing is promised before 1.0: a minor release may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/sluiceConfigVersion.cmake"
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/sluiceConfig.cmake"
  "${PROJECT_BINARY_DIR}/generated/sluiceConfigVersion.cmake" DESTINATION "${package_dir}"
  COMPONENT development)

# pkg-config: paths relative to the file, so that an installed tree can be moved.
cmake_path(APPEND CMAKE_INSTALL_PREFIX "${CMAKE_INSTALL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE pc_dir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${pc_dir}" OUTPUT_VARIABLE pc_prefix)
configure_file("${PROJECT_SOURCE_DIR}/tools/build/sluice.pc.in"
  "${PROJECT_BINARY_DIR}/generated/sluice.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/sluice.pc"
  DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT runtime)
if(TARGET sluice_program)
  install(TARGETS sluice_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT runtime)
endif()
if(TARGET sluice_emulated_driver)
  # On Windows a library is a runtime file, with an archive that nothing links.
  install(TARGETS sluice_emulated_driver
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/sluice" COMPONENT runtime NAMELINK_SKIP
    RUNTIME DESTINATION "${CMAKE_INSTALL_LIBDIR}/sluice" COMPONENT runtime
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}/sluice" COMPONENT development EXCLUDE_FROM_ALL)
endif()
