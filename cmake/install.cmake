# cmake --install: include/gangway, the static libraries, the gangway tool, and a package whose
# target gangway::gangway is everything that a program needs. Included after all rooms are known.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY GW_ROOMS)
add_library(gw_gangway INTERFACE)
set_target_properties(gw_gangway PROPERTIES EXPORT_NAME gangway)
target_link_libraries(gw_gangway INTERFACE ${rooms})
target_sources(gw_gangway PUBLIC FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}
  FILES ${CMAKE_SOURCE_DIR}/gangway.h)
set_target_properties(gw_gangway PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
add_library(gangway::gangway ALIAS gw_gangway)

if(GANGWAY_SANITIZE)
  return()  # Their Boost is not a package that a user could find.
endif()
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/gangway)
install(TARGETS gw_gangway ${rooms} EXPORT gangwayTargets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gangway
  FILE_SET lone_headers DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gangway)
get_property(generated GLOBAL PROPERTY GW_GENERATED_HEADERS)
foreach(header ${generated})
  file(RELATIVE_PATH path ${CMAKE_BINARY_DIR} ${header})
  get_filename_component(folder ${path} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gangway/${folder})
endforeach()
install(EXPORT gangwayTargets NAMESPACE gangway:: DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/gangwayConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
configure_package_config_file(cmake/gangwayConfig.cmake.in ${CMAKE_BINARY_DIR}/gangwayConfig.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_BINDIR)
install(FILES ${CMAKE_BINARY_DIR}/gangwayConfig.cmake ${CMAKE_BINARY_DIR}/gangwayConfigVersion.cmake
  cmake/dependencies.cmake cmake/installed_tool.cc cmake/kj_with_clang.h DESTINATION ${package})
if(TARGET gangway)
  install(TARGETS gangway)
endif()
