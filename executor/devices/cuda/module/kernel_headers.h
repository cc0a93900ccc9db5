// The text of the headers in kernels/, for sources that are compiled at run time. CMake writes it.
#pragma once

#include <span>

namespace gangway::cuda {

struct KernelHeader {
  const char* name;  // The name by which sources include it.
  const char* text;
};
std::span<const KernelHeader> kernel_headers();

}  // namespace gangway::cuda
