// References of the random ops. ir/op_table/rows/random.cc specifies the numbers.
#include <cmath>
#include <numbers>

#include "runtime/base/rng.h"
#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

uint64_t word(double key) { return static_cast<uint32_t>(static_cast<int32_t>(key)); }

// The uniform of element `index` of the whole sequence.
double uniform_at(const EvaluateCall& e, size_t index) {
  uint64_t key = word(e.x()[0]) | word(e.x()[1]) << 32;
  if (e.out[0].type.dtype == DType::kF64) {
    PhiloxBlock block = philox(key, index / 2);
    size_t half = index % 2 * 2;
    uint64_t bits = uint64_t{block[half]} << 32 | block[half + 1];
    return static_cast<double>(bits >> 11) * 0x1p-53;
  }
  return static_cast<double>(philox(key, index / 4)[index % 4] >> 8) * 0x1p-24;
}

size_t first_index(const EvaluateCall& e) {
  const std::vector<int64_t>& offset = e.attrs().ints("offset");
  return offset.empty() ? 0 : as_size(offset[0]);
}

// The largest bf16 that is not above x >= 0.
double bf16_below(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  return std::ldexp(std::floor(mantissa * 256) / 256, exponent);
}

void uniform(const EvaluateCall& e) {
  bool is_bf16 = e.out[0].type.dtype == DType::kBF16;
  for (size_t i = 0; i < e.y().size(); ++i) {
    double u = uniform_at(e, first_index(e) + i);
    e.y()[i] = is_bf16 ? bf16_below(u) : u;
  }
}

void normal(const EvaluateCall& e) {
  for (size_t i = 0; i < e.y().size(); ++i) {
    size_t index = first_index(e) + i, even = index / 2 * 2;
    double radius = std::sqrt(-2 * std::log1p(-uniform_at(e, even)));
    double angle = 2 * std::numbers::pi * uniform_at(e, even + 1);
    e.y()[i] = radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

}  // namespace

std::vector<ReferenceRow> random_references() {
  return {{Op::random_uniform, uniform}, {Op::random_normal, normal}};
}

}  // namespace gangway::internal
