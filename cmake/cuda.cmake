# What the CUDA module is built from: a toolkit with NCCL, and cuDNN where it is installed too.
# Without the toolkit everything else builds the same.
# A sanitizer would have to be in the program that loads the module.
set(GANGWAY_CUDA OFF)
set(GANGWAY_CUDNN OFF)
if(NOT GANGWAY_SANITIZE)
  if(NOT CUDAToolkit_ROOT AND EXISTS /usr/local/cuda)
    set(CUDAToolkit_ROOT /usr/local/cuda)
  endif()
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(beside ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/../lib)
    find_library(NCCL_LIBRARY nccl HINTS ${beside})
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13.0 AND NCCL_LIBRARY AND NCCL_INCLUDE_DIR)
      set(GANGWAY_CUDA ON)
    endif()
    # Its headers alone: the library is opened when the module runs.
    find_path(CUDNN_INCLUDE_DIR cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(GANGWAY_CUDA AND CUDNN_INCLUDE_DIR)
      file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_graph.h found REGEX "ENGINEHEUR_DEVICEPROP")
      if(found)  # 9.8 or later.
        set(GANGWAY_CUDNN ON)
      endif()
    endif()
  endif()
endif()
message(STATUS "CUDA module: ${GANGWAY_CUDA}, with cuDNN's attention: ${GANGWAY_CUDNN}")

# Every kernel source has a table of its own name.
file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS
  ${CMAKE_SOURCE_DIR}/executor/devices/cuda/kernels/*.cu)
set(tables "")
foreach(source ${kernel_sources})
  get_filename_component(name ${source} NAME_WE)
  string(APPEND tables "GW_TABLE(${name})\n")
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/kernel_tables.new "${tables}")
configure_file(${CMAKE_BINARY_DIR}/kernel_tables.new
  ${CMAKE_BINARY_DIR}/executor/devices/cuda/kernels/kernel_tables.inc COPYONLY)
