// BodyLoop: addresses of a body's tensors while a scan or a call runs it, iteration by iteration.
//
// The body is lowered once, with addresses in bases of its own: its parameters, its results, its
// arena. Before each iteration these bases are set to the current addresses of the node's operands
// and results. The arena, and one more buffer for each carry, are in the node's scratchpad: a carry
// is read from one buffer and written to the other, one of which is the result's; slices and rows
// of stacked results are used in place. In the last iteration its own slice stands in for that of
// the next one, and is not read. If a device wants tensors aligned, and rows are not, their base
// points into the scratchpad, and the device copies them: in_copies() before an iteration,
// out_copies() after it.
//
// Threads: immutable. Cost of bind(): a few instructions for each carry and stacked tensor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/devices/lower/addresses.h"
#include "ir/graph/bodies.h"
#include "ir/graph/function.h"

namespace gangway {

class BodyLoop {
 public:
  // Scratch of a node that runs a body. `alignment`: that of the device's tensors.
  static int64_t scratch_bytes(const Node& node, const Addresses& body, int64_t alignment = 1);

  BodyLoop(NodeId id, const Function& function, const Addresses& outer, const Addresses& body,
           int64_t alignment = 1);

  uint32_t length() const { return static_cast<uint32_t>(layout_.length); }
  bool is_last(uint32_t iteration) const { return int64_t{iteration} + 1 == layout_.length; }
  // Sets the bases of the body in `bases` for this iteration, from those of the iteration before.
  void bind(std::byte** bases, uint32_t iteration) const;

  // body(to, from, bytes) copies, and returns false if it could not; then this returns false too.
  template <class Body>
  bool in_copies(std::byte* const* bases, uint32_t iteration, const Body& body) const {
    return std::ranges::all_of(slices_, [&](const Copied& slice) {
      return body(bases[slice.base], row_of(bases, slice, iteration), slice.row_bytes);
    });
  }
  template <class Body>
  bool out_copies(std::byte* const* bases, uint32_t iteration, const Body& body) const {
    return std::ranges::all_of(rows_, [&](const Copied& row) {
      return body(row_of(bases, row, iteration), bases[row.base], row.row_bytes);
    });
  }

 private:
  struct Carry {
    Address operand, result, spare;
  };
  struct Stacked {
    Address first;
    int64_t row_bytes = 0;
    uint32_t base = 0;
    bool shows_next = false;  // It is the row of the next iteration.
  };
  struct Fixed {
    Address address;
    uint32_t base = 0;
  };
  using Copied = Stacked;  // Copied from or to the place that its base points to.

  void add_stacked(const Stacked& stacked, bool is_result, int64_t alignment, Address& scratch);
  int64_t row(const Stacked& stacked, uint32_t iteration) const {
    const bool next = stacked.shows_next && !is_last(iteration);
    const int64_t at = int64_t{iteration} + (next ? 1 : 0);
    return layout_.reverse ? layout_.length - 1 - at : at;
  }
  std::byte* row_of(std::byte* const* bases, const Stacked& stacked, uint32_t iteration) const {
    return bases[stacked.first.base] + stacked.first.offset +
           row(stacked, iteration) * stacked.row_bytes;
  }

  // The buffer in which an iteration leaves the carry. The last iteration writes the result.
  const Address& carry_after(const Carry& carry, int64_t iteration) const {
    return (layout_.length - 1 - iteration) % 2 == 0 ? carry.result : carry.spare;
  }

  const ScanLayout layout_;
  uint32_t operand_base_ = 0, result_base_ = 0;  // Bases of the first carry.
  std::vector<Carry> carries_;
  std::vector<Stacked> stacked_;
  std::vector<Copied> slices_, rows_;  // Slices of operands; rows of results.
  std::vector<Fixed> fixed_;           // The same in all iterations.
};

}  // namespace gangway
