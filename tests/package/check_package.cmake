# cmake -DBUILD=<build folder> -DEXAMPLE=<folder> -DCXX=<compiler> -P check_package.cmake
set(work ${BUILD}/package)
file(REMOVE_RECURSE ${work})
foreach(command
    "--install;${BUILD};--prefix;${work}/stage"
    "-S;${EXAMPLE};-B;${work}/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${work}/stage\
;-DCMAKE_CXX_COMPILER=${CXX}"
    "--build;${work}/build"
    "-E;env;${work}/build/example")
  execute_process(COMMAND ${CMAKE_COMMAND} ${command} OUTPUT_VARIABLE output ERROR_VARIABLE output
    RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "cmake ${command}: ended with ${status}\n${output}")
  endif()
endforeach()
message("${output}")
if(NOT output MATCHES "the example is done")
  message(FATAL_ERROR "the example did not reach its end")
endif()
