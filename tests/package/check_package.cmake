# cmake -DBUILD=<build folder> -DEXAMPLE=<folder> -DCXX=<compiler> -P check_package.cmake
# Folders lie so that nothing of the build tree is found by its place (see client/local).
set(work ${BUILD}/package)
set(stage ${work}/stage)
file(REMOVE_RECURSE ${work})
foreach(command
    "--install;${BUILD};--prefix;${stage}"
    "-S;${EXAMPLE};-B;${work}/user/build;-G;Ninja;-DCMAKE_PREFIX_PATH=${stage}\
;-DCMAKE_CXX_COMPILER=${CXX};-DCMAKE_BUILD_TYPE=Release"
    "--build;${work}/user/build"
    "-E;env;--unset=GANGWAY_TOOL;${work}/user/build/example")
  execute_process(COMMAND ${CMAKE_COMMAND} ${command} OUTPUT_VARIABLE output ERROR_VARIABLE output
    RESULT_VARIABLE status)
  if(status)
    message(FATAL_ERROR "cmake ${command}: ended with ${status}\n${output}")
  endif()
endforeach()
message("${output}")
if(NOT output MATCHES "y = 3.000 x \\+ 2.000, loss [0-9.]+e-[0-9]+\n")
  message(FATAL_ERROR "the example printed something else")
endif()

# It was the installed tool that ran the cluster: without it there is none, and that is said.
file(RENAME ${stage}/bin/gangway ${stage}/bin/gone)
execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=GANGWAY_TOOL ${work}/user/build/example
  OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE status)
if(NOT status OR NOT output MATCHES "GANGWAY_TOOL")
  message(FATAL_ERROR "without the tool: expected an error with a hint, got ${status}\n${output}")
endif()

# What is installed runs on any machine of this architecture.
file(STRINGS ${BUILD}/compile_commands.json native REGEX "-m(arch|cpu|tune)=")
file(GLOB package ${stage}/lib*/cmake/gangway/* ${stage}/lib/*/cmake/gangway/*)
foreach(file ${package})
  file(STRINGS ${file} lines REGEX "-m(arch|cpu|tune)=")
  list(APPEND native ${lines})
endforeach()
if(native)
  message(FATAL_ERROR "compiled for one machine only: ${native}")
endif()
