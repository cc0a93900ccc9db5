#include "executor/devices/cuda/lower/product_tail.h"

#include <cmath>
#include <numbers>

#include "executor/devices/cuda/lower/polynomial.h"
#include "executor/devices/lower/to_fused.h"

namespace gangway::cuda {
namespace {

struct Gelu {
  Polynomial value, slope;
};

// 0.5 x (1 + tanh(c (x + 0.044715 x^3))), as gelu() of ir/build/ops.h, and its derivative.
Gelu gelu(Atoms& atoms, const Polynomial& x) {
  constexpr double kCubic = 0.044715;
  const double c = std::sqrt(2 / std::numbers::pi);
  const Polynomial t = atoms.tanh(c * (x + kCubic * x * x * x));
  const Polynomial inner_slope = c * (1 + 3 * kCubic * x * x);
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner_slope};
}

bool is_of_one_type(const FusedProgram& program, DType dtype) {
  for (const FusedInstruction& code : program.code) {
    if (code.dtype != dtype) return false;
  }
  return program.outputs[0].dtype == dtype;
}

// The product is x; what else is read is b, which `is_full` tells from a bias.
std::optional<ProductTail> tail_of(const Polynomial& value, Atoms& atoms, const Polynomial& x,
                                   const Polynomial& b, uint32_t other, bool is_full) {
  const bool alone = other == kNone;
  const Polynomial input = alone || is_full ? x : x + b;
  ProductTail tail;
  if (!alone) (is_full ? tail.added : tail.bias) = other;
  if (alone || !is_full) {
    if (alike(value, input)) return tail;
    tail.activation = Activation::kRelu;
    if (alike(value, atoms.max(input, 0))) return tail;
    tail.activation = Activation::kGeluTanh;
    if (alike(value, gelu(atoms, input).value)) return tail;
    return {};
  }
  if (alike(value, x + b)) return tail;
  if (alike(value, x * gelu(atoms, b).slope))
    return ProductTail{.activation = Activation::kGeluTanh, .pre = other};
  return {};
}

}  // namespace

std::optional<ProductTail> product_tail(const Function& body, uint32_t product) {
  const DType dtype = body.types[product].dtype;
  const FusedChain chain = to_fused(body);
  Atoms atoms;
  const Polynomial x = atoms.variable(), b = atoms.variable();
  uint32_t other = kNone;
  bool is_full = false;
  std::vector<Polynomial> inputs;
  for (size_t i = 0; i < chain.inputs.size(); ++i) {
    const FusedInput& input = chain.program.inputs[i];
    const uint32_t parameter = chain.inputs[i].parameter;
    if (chain.inputs[i].view != kNone || input.dtype != dtype) return {};
    const bool is_product = parameter == product;
    if (is_product && input.kind != FusedInput::kFull) return {};
    if (!is_product) {
      is_full = input.kind == FusedInput::kFull;
      if (other != kNone || (!is_full && input.kind != FusedInput::kInner)) return {};
      other = parameter;
    }
    inputs.push_back(is_product ? x : b);
  }
  if (!is_of_one_type(chain.program, dtype)) return {};
  const std::optional<Polynomial> value = polynomial_of(chain.program, std::move(inputs), atoms);
  if (!value) return {};
  return tail_of(*value, atoms, x, b, other, is_full);
}

bool is_sum_of_all(const Function& body) {
  if (body.results.size() != 1) return false;
  const DType dtype = body.types[body.results[0]].dtype;
  const FusedChain chain = to_fused(body);
  Atoms atoms;
  std::vector<Polynomial> inputs;
  Polynomial sum;
  for (size_t i = 0; i < chain.inputs.size(); ++i) {
    const FusedInput& input = chain.program.inputs[i];
    if (chain.inputs[i].view != kNone || input.dtype != dtype || input.kind != FusedInput::kFull)
      return false;
    inputs.push_back(atoms.variable());
    sum = sum + inputs.back();
  }
  if (inputs.size() != body.parameters.size() || !is_of_one_type(chain.program, dtype))
    return false;
  const std::optional<Polynomial> value = polynomial_of(chain.program, std::move(inputs), atoms);
  return value && alike(*value, sum);
}

}  // namespace gangway::cuda
