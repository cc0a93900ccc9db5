# -DGANGWAY_SANITIZE=address,undefined | thread   compile everything with these sanitizers
# -DGANGWAY_FUZZ=ON       build *_fuzz.cc as libFuzzer programs (clang)
# -DGANGWAY_COVERAGE=ON   count the lines of what users run (gcov); tests are compiled as ever
option(GANGWAY_FUZZ "Build *_fuzz.cc as libFuzzer programs" OFF)
option(GANGWAY_COVERAGE "Count the lines that tests execute, but for their own" OFF)
if(GANGWAY_COVERAGE)
  add_link_options(--coverage)  # gw_count_lines() says whose lines are counted.
endif()
if(GANGWAY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(NOT GANGWAY_SANITIZE)
  return()
endif()

find_package(Threads REQUIRED)
add_compile_options(-fsanitize=${GANGWAY_SANITIZE} -fno-sanitize-recover=all
  -fno-omit-frame-pointer)
add_link_options(-fsanitize=${GANGWAY_SANITIZE})

# A sanitizer must see fiber switches: Boost.Fiber and Boost.Context are compiled here, with the
# macros that announce each switch. They change the layout of Boost's types: every source must see
# them.
set(cache $ENV{XDG_CACHE_HOME})
if(NOT cache)
  set(cache $ENV{HOME}/.cache)
endif()
set(GANGWAY_BOOST_SOURCE ${cache}/gangway/boost-1.81 CACHE PATH
  "Boost sources, as tools/install_dependencies.sh --sanitizers unpacks them")
if(NOT EXISTS ${GANGWAY_BOOST_SOURCE}/complete)
  message(FATAL_ERROR "No Boost sources in ${GANGWAY_BOOST_SOURCE}: "
    "run tools/install_dependencies.sh --sanitizers")
endif()
add_compile_definitions(BOOST_USE_UCONTEXT)
if(GANGWAY_SANITIZE MATCHES thread)
  add_compile_definitions(BOOST_USE_TSAN)
else()
  add_compile_definitions(BOOST_USE_ASAN)
endif()
file(GLOB fiber_sources
  ${GANGWAY_BOOST_SOURCE}/fiber/*.cpp ${GANGWAY_BOOST_SOURCE}/fiber/algo/*.cpp)
add_library(gangway_boost STATIC EXCLUDE_FROM_ALL ${fiber_sources}
  ${GANGWAY_BOOST_SOURCE}/context/fiber.cpp
  ${GANGWAY_BOOST_SOURCE}/context/posix/stack_traits.cpp)
target_include_directories(gangway_boost SYSTEM BEFORE PUBLIC ${GANGWAY_BOOST_SOURCE}/include)
# Boost.Context 1.81 asks whether the fiber that it switches to has ended, in place of the one that
# it leaves, so AddressSanitizer never frees the fake stack of a fiber: 16 KiB for each that there
# ever was.
if(NOT GANGWAY_SANITIZE MATCHES thread)
  file(READ ${GANGWAY_BOOST_SOURCE}/include/boost/context/fiber_ucontext.hpp header)
  string(REPLACE "if ( terminated) {" "if ( from->terminated) {" mended "${header}")
  if(mended STREQUAL header)
    message(FATAL_ERROR "boost/context/fiber_ucontext.hpp does not look as expected")
  endif()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/boost/boost/context/fiber_ucontext.hpp
    CONTENT "${mended}" @ONLY)
  target_include_directories(gangway_boost SYSTEM BEFORE PUBLIC ${CMAKE_BINARY_DIR}/boost)
endif()
target_compile_definitions(gangway_boost PRIVATE BOOST_FIBERS_SOURCE BOOST_CONTEXT_SOURCE)
target_compile_options(gangway_boost PRIVATE -w)
target_link_libraries(gangway_boost PUBLIC Threads::Threads)
add_library(Boost::fiber ALIAS gangway_boost)
add_library(Boost::context ALIAS gangway_boost)

# Every process that ctest starts, and their children, get the options and suppressions.
set(supp ${CMAKE_SOURCE_DIR}/tests/sanitizers)
file(WRITE ${CMAKE_BINARY_DIR}/sanitizer_environment.cmake
"set(ENV{ASAN_OPTIONS} \"abort_on_error=1:strict_string_checks=1:detect_stack_use_after_return=1\")
set(ENV{LSAN_OPTIONS} \"suppressions=${supp}/lsan.supp:print_suppressions=0\")
set(ENV{UBSAN_OPTIONS} \"print_stacktrace=1\")
set(ENV{TSAN_OPTIONS} \"halt_on_error=1:second_deadlock_stack=1:suppressions=${supp}/tsan.supp\")
set(ENV{ASAN_SYMBOLIZER_PATH} /usr/lib/llvm-19/bin/llvm-symbolizer)
set(ENV{TSAN_SYMBOLIZER_PATH} /usr/lib/llvm-19/bin/llvm-symbolizer)
")
set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES
  ${CMAKE_BINARY_DIR}/sanitizer_environment.cmake)
