# What Gangway's libraries link: Debian's packages, nothing vendored or downloaded. The installed
# package reads this file too, so that a program that links gangway::gangway finds the same ones.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(CapnProto REQUIRED)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  set_property(TARGET CapnProto::capnp APPEND PROPERTY INTERFACE_COMPILE_OPTIONS
    "SHELL:$<$<COMPILE_LANGUAGE:CXX>:-include ${CMAKE_CURRENT_LIST_DIR}/kj_with_clang.h>")
endif()
if(NOT TARGET Boost::fiber)  # Sanitizer builds bring their own.
  find_package(Boost 1.74 REQUIRED COMPONENTS fiber context)
endif()
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
# Debian's dnnl-config.cmake asks for OpenCL headers that a CPU user does not need: look for the
# library itself.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
if(NOT TARGET gangway_dnnl)
  add_library(gangway_dnnl INTERFACE IMPORTED GLOBAL)
  target_link_libraries(gangway_dnnl INTERFACE ${DNNL_LIBRARY})
  target_include_directories(gangway_dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
endif()
