# find_package(gangway) gives the target gangway::gangway.
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if(NOT "C" IN_LIST languages)
  set(gangway_FOUND FALSE)
  set(gangway_NOT_FOUND_MESSAGE
    "the language C is not enabled, and Cap'n Proto's package needs it: write project(... C CXX)")
  return()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/dependencies.cmake)
include(${CMAKE_CURRENT_LIST_DIR}/gangwayTargets.cmake)
