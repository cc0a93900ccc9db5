# gw_room(<name> [DIR <dir>] [DEPENDS <libraries>...] [EXCLUDE <regex>...] [TEST_DEPENDS <libraries>...])
#
# One library from one folder (default: the current one) and its sub-folders. A file's name says what it is:
#   x.h x.cc     the library            x_test.cc    unit tests, one executable per room
#   x_bench.cc   benchmarks, one executable per room; run once as a test
#   main.cc      never part of the library
#   x_avx2.cc, x_avx512.cc   compiled for that instruction set, chosen at run time
# Sub-folders that have a CMakeLists.txt of their own are not descended into.

set(GW_WARNINGS -Wall -Wextra -Wshadow -Wswitch-enum -Wno-missing-field-initializers)
if(GANGWAY_WERROR)
  list(APPEND GW_WARNINGS -Werror)
endif()

# Includes are written from the root of the tree in it, and from include/gangway once installed.
function(gw_library_settings target)
  target_compile_options(${target} PRIVATE ${GW_WARNINGS})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gangway>)
endfunction()

# gw_test(<name> SOURCES ... [DEPENDS ...] [LABELS ...]): a GoogleTest executable, each case one CTest.
function(gw_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_compile_options(${name} PRIVATE ${GW_WARNINGS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${T_DEPENDS} GTest::gmock GTest::gtest GTest::gtest_main)
  set(properties TIMEOUT 300)
  if(T_LABELS)
    list(APPEND properties LABELS "${T_LABELS}")
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${name}:" PROPERTIES ${properties})
endfunction()

# gw_bench(<name> SOURCES ... [DEPENDS ...]): a Google Benchmark executable, run once as a test.
function(gw_bench name)
  cmake_parse_arguments(B "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${B_SOURCES})
  target_compile_options(${name} PRIVATE ${GW_WARNINGS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${B_DEPENDS} benchmark::benchmark benchmark::benchmark_main)
  add_test(NAME ${name} COMMAND ${name} --benchmark_min_time=0.001)
  set_tests_properties(${name} PROPERTIES LABELS bench TIMEOUT 300)
endfunction()

include(GoogleTest)
function(gw_room name)
  cmake_parse_arguments(R "" "DIR" "DEPENDS;EXCLUDE;TEST_DEPENDS;SOURCES" ${ARGN})
  if(NOT R_DIR)
    set(R_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${R_DIR}/*.cc)
  file(GLOB_RECURSE nested ${R_DIR}/*/CMakeLists.txt)
  foreach(list_file ${nested})
    get_filename_component(folder ${list_file} DIRECTORY)
    list(FILTER all EXCLUDE REGEX "^${folder}/")
  endforeach()
  list(FILTER all EXCLUDE REGEX "/main\\.cc$")
  list(FILTER all EXCLUDE REGEX "_fuzz\\.cc$")
  foreach(pattern ${R_EXCLUDE})
    list(FILTER all EXCLUDE REGEX "${pattern}")
  endforeach()
  set(tests ${all})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${all})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER all EXCLUDE REGEX "_(test|bench)\\.cc$")

  add_library(gw_${name} STATIC ${all} ${R_SOURCES})
  gw_library_settings(gw_${name})
  target_link_libraries(gw_${name} PUBLIC ${R_DEPENDS})
  set_target_properties(gw_${name} PROPERTIES EXPORT_NAME ${name} LINKER_LANGUAGE CXX)
  foreach(source ${all})
    if(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mavx2;-mf16c;-mprefer-vector-width=512")
    endif()
  endforeach()
  if(GANGWAY_TESTS AND tests)
    gw_test(gw_${name}_test SOURCES ${tests} DEPENDS gw_${name} ${R_TEST_DEPENDS})
  endif()
  if(GANGWAY_TESTS AND benches)
    gw_bench(gw_${name}_bench SOURCES ${benches} DEPENDS gw_${name} ${R_TEST_DEPENDS})
  endif()
endfunction()
