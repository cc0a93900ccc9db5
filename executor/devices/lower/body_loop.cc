#include "executor/devices/lower/body_loop.h"

#include "runtime/base/align.h"

namespace gangway {
namespace {

int64_t aligned(int64_t bytes) { return align_up(bytes, kArenaAlignment); }

}  // namespace

int64_t BodyLoop::scratch_bytes(const Node& node, const Addresses& body, int64_t alignment) {
  const ScanLayout layout(node);
  int64_t bytes = aligned(body.arena_bytes());
  for (ValueId c = 0; c < layout.carries; ++c) bytes += aligned(node.body->types[c].bytes());
  const auto add_row = [&](int64_t row) {
    if (row % alignment != 0) bytes += aligned(row);
  };
  for (size_t p = layout.first_stacked(); p < node.inputs.size(); ++p)
    add_row(node.body->types[p].bytes());
  for (size_t r = layout.carries; layout.stacks && r < node.results; ++r)
    add_row(node.body->types[node.body->results[r]].bytes());
  return bytes;
}

void BodyLoop::add_stacked(const Stacked& stacked, bool is_result, int64_t alignment,
                           Address& scratch) {
  if (stacked.row_bytes % alignment == 0) return stacked_.push_back(stacked);
  (is_result ? rows_ : slices_).push_back(stacked);
  fixed_.push_back({scratch, stacked.base});
  scratch.offset += aligned(stacked.row_bytes);
}

BodyLoop::BodyLoop(NodeId id, const Function& function, const Addresses& outer,
                   const Addresses& body, int64_t alignment)
    : layout_(function.nodes[id]) {
  const Node& node = function.nodes[id];
  const auto operands = static_cast<uint32_t>(node.inputs.size());
  operand_base_ = body.first_base();
  result_base_ = operand_base_ + operands;
  const auto carries = static_cast<uint32_t>(layout_.carries);
  Address scratch = outer.scratch(id);
  fixed_.push_back({scratch, result_base_ + node.results});
  scratch.offset += aligned(body.arena_bytes());
  for (uint32_t c = 0; c < carries; ++c) {
    carries_.push_back({outer.of(node.inputs[c]), outer.of(node.first_result + c), scratch});
    scratch.offset += aligned(node.body->types[c].bytes());
  }
  for (uint32_t p = carries; p < operands; ++p) {
    const Address address = outer.of(node.inputs[p]);
    if (p < layout_.first_stacked()) {
      fixed_.push_back({address, operand_base_ + p});
    } else {
      const bool next = layout_.shows_next(p, operands);
      add_stacked({address, node.body->types[p].bytes(), operand_base_ + p, next}, false, alignment,
                  scratch);
    }
  }
  for (uint32_t r = carries; r < node.results; ++r) {
    const Address address = outer.of(node.first_result + r);
    if (layout_.stacks) {
      const int64_t row_bytes = node.body->types[node.body->results[r]].bytes();
      add_stacked({address, row_bytes, result_base_ + r}, true, alignment, scratch);
    } else {
      fixed_.push_back({address, result_base_ + r});
    }
  }
}

void BodyLoop::bind(std::byte** bases, uint32_t iteration) const {
  const auto at = [bases](const Address& address) { return bases[address.base] + address.offset; };
  for (uint32_t c = 0; c < carries_.size(); ++c) {
    const Carry& carry = carries_[c];
    bases[operand_base_ + c] =
        at(iteration == 0 ? carry.operand : carry_after(carry, int64_t{iteration} - 1));
    bases[result_base_ + c] = at(carry_after(carry, iteration));
  }
  for (const Stacked& stacked : stacked_) bases[stacked.base] = row_of(bases, stacked, iteration);
  if (iteration > 0) return;
  for (const Fixed& fixed : fixed_) bases[fixed.base] = at(fixed.address);
}

}  // namespace gangway
