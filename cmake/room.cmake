# Rooms and what is found in them by name.
#
# gw_room(<name> [DIR <dir>] [DEPENDS <libraries>...] [TEST_DEPENDS <libraries>...]
#         [EXCLUDE <regex>...] [SOURCES <generated files>...] [ALONE <files>...] [INTERNAL]
#         [OPTIMISED] [PURE] [TEST_DATA <files and folders>...] [TEST_SHARDS n])
# One library gw_<name> from one folder (default: the current one) and its sub-folders:
#   x.h x.cc     the library
#   x_test.cc    unit tests: one executable gw_<name>_test per room, labelled <name>
#   x_bench.cc   benchmarks: one executable gw_<name>_bench per room, run once as a test
#   x_fuzz.cc    a fuzz target, one executable each; its first inputs lie in x_corpus/ beside it
#   x_avx2.cc, x_avx512.cc   compiled for that instruction set, chosen at run time
#   main.cc      never part of the library
# INTERNAL: not part of the package that programs link. OPTIMISED: -O3 in release builds.
# PURE, TEST_DATA, TEST_SHARDS: of its test program, as of gw_test().
# ALONE: sources that give a name of their own to what others in the room mean otherwise; unity
# builds (GANGWAY_UNITY: several sources compiled as one) leave them out.
# Sub-folders that have a CMakeLists.txt of their own are not descended into.
if(GANGWAY_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  # Debian's: another Python that is first in $PATH may lack jsonschema.
  find_program(GANGWAY_TEST_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
endif()

add_custom_target(generated)  # All sources that a build writes.

set(GW_WARNINGS -Wall -Wextra -Wshadow -Wswitch-enum -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # libstdc++'s own stable_sort; and "run every check, then and them".
  list(APPEND GW_WARNINGS -Wno-deprecated-declarations -Wno-bitwise-instead-of-logical)
else()
  # g++ 12 misreads "text" + std::string, and KJ's promises.
  list(APPEND GW_WARNINGS -Wno-restrict -Wno-maybe-uninitialized)
  if(GANGWAY_UNITY OR GANGWAY_UNITY_TESTS)
    list(APPEND GW_WARNINGS -Wno-subobject-linkage)  # Every source of a unity is as if included.
  endif()
endif()
if(GANGWAY_WERROR)
  list(APPEND GW_WARNINGS -Werror)
endif()

# Includes are written from the root of the tree in it, and from include/gangway once installed.
function(gw_library_settings target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${GW_WARNINGS})
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}> $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/gangway>)
endfunction()

# gw_count_lines(<target>): what users run, as opposed to tests; counted with GANGWAY_COVERAGE.
function(gw_count_lines target)
  if(GANGWAY_COVERAGE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:--coverage>)
  endif()
endfunction()

# gw_executable(<name> SOURCES ... [DEPENDS ...]): any program of the tree.
function(gw_executable name)
  cmake_parse_arguments(X "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${X_SOURCES})
  target_compile_options(${name} PRIVATE ${GW_WARNINGS})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(${name} PRIVATE ${X_DEPENDS})
endfunction()

# gw_test_helper(<name> SOURCES ... [DEPENDS ...]): what several test programs share, compiled once.
function(gw_test_helper name)
  cmake_parse_arguments(H "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${H_SOURCES})
  gw_library_settings(${name})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${GANGWAY_UNITY_TESTS})
  target_link_libraries(${name} PUBLIC ${H_DEPENDS} GTest::gmock GTest::gtest)
endfunction()

# gw_remembered(<variable> <name> [DATA <files and folders>...] [TOOLS <targets>...]): the command
# before a PURE test's, which is not run again while it, these and the packages are the same.
function(gw_remembered variable)
  cmake_parse_arguments(M "" "" "DATA;TOOLS" ${ARGN})
  set(words --pure)
  foreach(path ${M_DATA})
    get_filename_component(path ${path} ABSOLUTE)
    list(APPEND words --data ${path})
  endforeach()
  foreach(target ${M_TOOLS})
    list(APPEND words --tool $<TARGET_FILE:${target}>)
  endforeach()
  set(${variable} ${words} PARENT_SCOPE)
endfunction()

# gw_test(<name> SOURCES ... [DEPENDS ...] [LABELS ...] [ALONE ...] [SHARDS n]
#         [PURE] [REACTORS] [DATA <files and folders>...] [TOOLS <targets>...])
# A GoogleTest program, run as SHARDS processes (default: one), each one a CTest. ALONE: as of
# gw_room(); GANGWAY_UNITY_TESTS compiles the others several as one. PURE: the result follows from
# the program, DATA and TOOLS; what that asks of a test is said in tests/runner/run_test.py.
# REACTORS: it and each process that it starts fail when somebody's work holds up an event loop.
function(gw_test name)
  cmake_parse_arguments(T
    "PURE;REACTORS" "SHARDS" "SOURCES;DEPENDS;LABELS;ALONE;DATA;TOOLS" ${ARGN})
  gw_executable(${name} SOURCES ${T_SOURCES}
    DEPENDS ${T_DEPENDS} gw_places GTest::gmock GTest::gtest GTest::gtest_main)
  if(MOLD)
    target_link_options(${name} PRIVATE -fuse-ld=mold)
  endif()
  # Compiling a test takes longer than running it: what it tests is optimised, it itself is not.
  # With sanitizers it is: there, frames that are not would strain the stacks of fibers.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${GANGWAY_UNITY_TESTS} UNITY_BUILD_BATCH_SIZE 20)
  set_source_files_properties(${T_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(remembered "")
  if(T_PURE AND NOT GANGWAY_COVERAGE)
    gw_remembered(remembered DATA ${T_DATA} TOOLS ${T_TOOLS})
  endif()
  set(limit_s 600)
  if(GANGWAY_SANITIZE OR GANGWAY_COVERAGE)
    set(limit_s 1500)
  endif()
  math(EXPR longer_s "${limit_s} + 60")  # So that the runner can say which test it was.
  if(NOT T_SHARDS)
    set(T_SHARDS 1)
  endif()
  math(EXPR last "${T_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(test ${name})
    set(environment "GANGWAY_TOKEN_FILE=${CMAKE_BINARY_DIR}/test_token")
    # Sanitizers make all work longer.
    if(T_REACTORS AND NOT GANGWAY_SANITIZE AND NOT GANGWAY_COVERAGE)
      list(APPEND environment GANGWAY_REACTOR_LIMIT_MS=100)
    endif()
    if(T_SHARDS GREATER 1)
      string(APPEND test ":${shard}")
      list(APPEND environment GTEST_TOTAL_SHARDS=${T_SHARDS} GTEST_SHARD_INDEX=${shard})
    endif()
    add_test(NAME ${test} COMMAND ${GANGWAY_TEST_PYTHON}
      ${CMAKE_SOURCE_DIR}/tests/runner/run_test.py ${remembered} --timeout ${limit_s} --
      $<TARGET_FILE:${name}>)
    set_tests_properties(${test} PROPERTIES TIMEOUT ${longer_s} LABELS "${T_LABELS}"
      ENVIRONMENT "${environment}")
  endforeach()
endfunction()

# gw_bench(<name> SOURCES ... [DEPENDS ...] [ARGUMENTS ...]): a Google Benchmark program, run once
# as a test, with these arguments.
function(gw_bench name)
  cmake_parse_arguments(B "" "" "SOURCES;DEPENDS;ARGUMENTS" ${ARGN})
  gw_executable(${name} SOURCES ${B_SOURCES}
    DEPENDS ${B_DEPENDS} benchmark::benchmark benchmark::benchmark_main)
  add_test(NAME ${name} COMMAND ${name} --benchmark_min_time=0.001 ${B_ARGUMENTS})
  set_tests_properties(${name} PROPERTIES LABELS bench TIMEOUT 300
    ENVIRONMENT "GANGWAY_TOKEN_FILE=${CMAKE_BINARY_DIR}/test_token")
endfunction()

# gw_fuzz(<x_fuzz.cc> [DEPENDS ...]): a program around LLVMFuzzerTestOneInput. With GANGWAY_FUZZ it
# is libFuzzer's; everywhere else a small driver runs the corpus and seeded mutations of it once.
function(gw_fuzz source)
  cmake_parse_arguments(F "" "" "DEPENDS" ${ARGN})
  get_filename_component(name ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz\\.cc$" "_corpus" corpus ${source})
  gw_executable(${name} SOURCES ${source} DEPENDS ${F_DEPENDS})
  if(GANGWAY_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=2000 ${corpus})
  else()
    target_link_libraries(${name} PRIVATE gw_fuzz_driver)
    add_test(NAME ${name} COMMAND ${name} ${corpus})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

function(gw_room name)
  cmake_parse_arguments(R "INTERNAL;OPTIMISED;PURE" "DIR;TEST_SHARDS"
    "DEPENDS;EXCLUDE;TEST_DEPENDS;SOURCES;ALONE;TEST_DATA" ${ARGN})
  if(NOT R_DIR)
    set(R_DIR ${CMAKE_CURRENT_SOURCE_DIR})
  endif()
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${R_DIR}/*.h ${R_DIR}/*.cc)
  file(GLOB_RECURSE nested ${R_DIR}/*/CMakeLists.txt)
  foreach(list_file ${nested})
    get_filename_component(folder ${list_file} DIRECTORY)
    list(FILTER all EXCLUDE REGEX "^${folder}/")
  endforeach()
  list(FILTER all EXCLUDE REGEX "/main\\.cc$")
  foreach(pattern ${R_EXCLUDE})
    list(FILTER all EXCLUDE REGEX "${pattern}")
  endforeach()
  foreach(kind test bench fuzz)
    set(${kind} ${all})
    list(FILTER ${kind} INCLUDE REGEX "_${kind}\\.cc$")
  endforeach()
  list(FILTER all EXCLUDE REGEX "_(test|bench|fuzz)\\.cc$")
  set(headers ${all})
  list(FILTER headers INCLUDE REGEX "\\.h$")
  list(FILTER all EXCLUDE REGEX "\\.h$")

  # A header that has a source comes first in it, and so compiles alone wherever that source is
  # compiled alone; the others are what all_verify_interface_header_sets compiles.
  set(lone_headers ${headers})
  foreach(source ${all})
    string(REGEX REPLACE "\\.cc$" ".h" header ${source})
    list(REMOVE_ITEM lone_headers ${header})
  endforeach()
  if(lone_headers)
    list(REMOVE_ITEM headers ${lone_headers})
  endif()

  add_library(gw_${name} STATIC ${all} ${R_SOURCES})
  target_sources(gw_${name} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${headers}
    FILE_SET lone_headers TYPE HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR} FILES ${lone_headers})
  gw_library_settings(gw_${name})
  target_link_libraries(gw_${name} PUBLIC ${R_DEPENDS})
  gw_count_lines(gw_${name})
  if(R_OPTIMISED)
    target_compile_options(gw_${name} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  set_target_properties(gw_${name} PROPERTIES EXPORT_NAME ${name} LINKER_LANGUAGE CXX
    VERIFY_INTERFACE_HEADER_SETS ON INTERFACE_HEADER_SETS_TO_VERIFY lone_headers
    UNITY_BUILD ${GANGWAY_UNITY} UNITY_BUILD_BATCH_SIZE 16)
  if(R_SOURCES)
    add_custom_target(gw_${name}_generated DEPENDS ${R_SOURCES})
    add_dependencies(generated gw_${name}_generated)
  endif()
  if(NOT R_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY GW_ROOMS gw_${name})
  endif()
  foreach(source ${R_SOURCES})
    if(source MATCHES "\\.capnp\\.c\\+\\+$")
      string(REGEX REPLACE "c\\+\\+$" "h" header ${source})
      set_property(GLOBAL APPEND PROPERTY GW_GENERATED_HEADERS ${header})
    endif()
  endforeach()
  set_source_files_properties(${R_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  foreach(source ${all})
    if(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    elseif(source MATCHES "_avx512\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS
        "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mavx2;-mf16c;-mprefer-vector-width=512")
    endif()
  endforeach()
  if(NOT GANGWAY_TESTS)
    return()
  endif()
  if(test)
    set(pure "")
    if(R_PURE)
      set(pure PURE)
    endif()
    gw_test(gw_${name}_test SOURCES ${test} DEPENDS gw_${name} ${R_TEST_DEPENDS} LABELS ${name}
      DATA ${R_TEST_DATA} SHARDS ${R_TEST_SHARDS} ${pure})
  endif()
  if(bench)
    gw_bench(gw_${name}_bench SOURCES ${bench} DEPENDS gw_${name} ${R_TEST_DEPENDS})
  endif()
  foreach(source ${fuzz})
    gw_fuzz(${source} DEPENDS gw_${name} ${R_TEST_DEPENDS})
  endforeach()
endfunction()
