// The parts of one tensor on all devices of a mesh, and the local ops of conversions applied to
// them. The code follows the ops' specification (docs/ir.md), and shares none with the planner.
//
// An element is a random number of 40 bits that its index in the whole tensor decides, so that an
// f64 holds the number and sums of several. If an axis is partial, every device along it holds a
// different number, and their reduction stands for the element. Rows past the end of a tensor are
// 0.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/op_table/op.h"
#include "ir/types/mesh.h"
#include "ir/types/sharding.h"

namespace gangway::tests {

struct HeldPart {
  Dims dims;
  std::vector<int64_t> elements;  // Row-major.
  friend bool operator==(const HeldPart&, const HeldPart&) = default;
};
using HeldParts = std::vector<HeldPart>;  // Index: device.

// A tensor under one sharding.
class HeldAs {
 public:
  HeldAs(const Type& type, const Mesh& mesh, const Sharding& sharding);

  const Dims& dims() const { return dims_; }  // Sizes of each part.
  HeldParts parts() const;
  // The numbers that stand for the elements of the whole tensor if it began as parts().
  std::vector<int64_t> whole() const;
  // True if `parts` are parts of the tensor `whole` under this sharding.
  bool fits(const HeldParts& parts, const std::vector<int64_t>& whole) const;

 private:
  int64_t elements_ = 0;  // Elements of the whole tensor.
  Dims dims_;
  // For each device: the index of each of its elements in the whole tensor (-1: padding), the
  // devices that hold terms of the same part, and the number of its own term.
  std::vector<std::vector<int64_t>> indices_;
  std::vector<std::vector<int64_t>> groups_;
  std::vector<uint64_t> terms_;
  Reduction reduction_ = Reduction::kSum;
};

struct AfterOp {
  HeldParts parts;
  int64_t elements_sent = 0;  // Elements that the busiest sender sends.
};
// Applies an op to all parts; nullopt if the attributes do not fit the parts.
std::optional<AfterOp> apply(const Mesh& mesh, Op op, const Attrs& attrs, const HeldParts& before);

}  // namespace gangway::tests
