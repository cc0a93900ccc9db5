// PreparedOperation: a library operation of the emulated driver: the tensors that it touches, and
// the function that computes it.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tests/emulated/emulated_driver.h"
#include "tests/emulated/tensor_use.h"

namespace gangway::emulated {

struct EmulatedDriver::PreparedOperation {
  std::vector<TensorUse> uses;  // In the order of run()'s tensors.
  std::function<void(std::span<std::byte* const> tensors)> compute;
};

}  // namespace gangway::emulated
