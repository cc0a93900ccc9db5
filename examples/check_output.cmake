# cmake -DSOURCE=<x.cc> -DPROGRAM=<x> -P check_output.cmake: what the program prints is what its
# source says behind "// Prints:".
file(READ ${SOURCE} text)
string(FIND "${text}" "// Prints:\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${SOURCE}: does not say what it prints")
endif()
string(SUBSTRING "${text}" ${at} -1 expected)
string(REGEX REPLACE "^// Prints:\n" "" expected "${expected}")
string(REGEX REPLACE "(^|\n)// ?" "\\1" expected "${expected}")
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output RESULT_VARIABLE status)
if(status OR NOT output STREQUAL expected)
  message(FATAL_ERROR
    "${PROGRAM}: ended with ${status}; expected\n${expected}\ngot\n${output}")
endif()
