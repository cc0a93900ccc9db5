#include "executor/devices/cuda/lower/lower.h"

namespace gangway::cuda {

// Inputs: p, m, v, g, lr, correction1, correction2, grad_scale.
void lower_adamw(Lowering& call) {
  std::vector<Argument> arguments = call.tensors();
  for (const char* rate : {"beta1", "beta2", "eps", "weight_decay"})
    arguments.push_back(value(call.attrs().real(rate)));
  const int64_t n = call.in(0).elements();
  arguments.push_back(value(n));
  const auto strip = static_cast<int64_t>(16 / size_of(call.in(0).dtype));
  call.launch_flat(cat("adamw_", to_string(call.in(0).dtype), "_", to_string(call.in(3).dtype)),
                   n % strip == 0 ? n / strip : n, std::move(arguments));
}

}  // namespace gangway::cuda
