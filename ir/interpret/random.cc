// References of the random ops; ir/ops/random.cc says exactly what they give.
#include <cmath>
#include <numbers>

#include "ir/interpret/reference.h"
#include "runtime/base/rng.h"

namespace gangway::internal {
namespace {

uint64_t word(double key) { return static_cast<uint32_t>(static_cast<int32_t>(key)); }

// The Philox block that element `index` of the whole sequence lies in.
PhiloxBlock block_of(const EvaluateCall& e, size_t index) {
  return philox(word(e.x()[0]) | word(e.x()[1]) << 32, index / 4);
}

size_t first_index(const EvaluateCall& e) {
  const std::vector<int64_t>& offset = e.attrs().ints("offset");
  return offset.empty() ? 0 : as_size(offset[0]);
}

double unit(uint32_t bits) { return static_cast<double>(bits >> 8) * 0x1p-24; }

void uniform(const EvaluateCall& e) {
  bool coarse = e.out[0].type.dtype == DType::kBF16;
  for (size_t i = 0; i < e.y().size(); ++i) {
    size_t index = first_index(e) + i;
    uint32_t bits = block_of(e, index)[index % 4];
    e.y()[i] = coarse ? static_cast<double>(bits >> 24) * 0x1p-8 : unit(bits);
  }
}

void normal(const EvaluateCall& e) {
  for (size_t i = 0; i < e.y().size(); ++i) {
    size_t index = first_index(e) + i, pair = index % 4 / 2 * 2;
    PhiloxBlock block = block_of(e, index);
    double radius = std::sqrt(-2 * std::log(unit(block[pair]) + 0x1p-25));
    double angle = 2 * std::numbers::pi * unit(block[pair + 1]);
    e.y()[i] = radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

}  // namespace

std::vector<ReferenceRow> random_references() {
  return {{Op::random_uniform, uniform}, {Op::random_normal, normal}};
}

}  // namespace gangway::internal
