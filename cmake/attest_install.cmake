# find_package(attest) gives attest::reference, attest::kernel, attest::corpus, attest::properties, ...
include(CMakePackageConfigHelpers)
get_property(attest_libraries GLOBAL PROPERTY ATTEST_LIBRARIES)
install(TARGETS attest_options ${attest_libraries} EXPORT attestTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT attestTargets NAMESPACE attest:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attest)
foreach(room kernel/abi kernel/runner reference properties corpus)
  install(DIRECTORY ${room}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/attest/${room} FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
          PATTERN mutants EXCLUDE PATTERN tests EXCLUDE)
endforeach()
configure_package_config_file(cmake/attestConfig.cmake.in ${PROJECT_BINARY_DIR}/attestConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attest)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/attestConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/attestConfig.cmake ${PROJECT_BINARY_DIR}/attestConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/attest)
