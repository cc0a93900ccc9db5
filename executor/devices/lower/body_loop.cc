#include "executor/devices/lower/body_loop.h"

#include "runtime/base/align.h"

namespace gangway {
namespace {

int64_t aligned(int64_t bytes) { return align_up(bytes, kArenaAlignment); }

}  // namespace

int64_t BodyLoop::scratch_bytes(const Node& node, const Places& body) {
  const ScanLayout layout(node);
  int64_t bytes = aligned(body.arena_bytes());
  for (ValueId c = 0; c < layout.carries; ++c) bytes += aligned(node.body->types[c].bytes());
  return bytes;
}

BodyLoop::BodyLoop(NodeId id, const Function& function, const Places& outer, const Places& body)
    : layout_(function.nodes[id]) {
  const Node& node = function.nodes[id];
  const auto operands = static_cast<uint32_t>(node.inputs.size());
  operand_base_ = body.first_base();
  result_base_ = operand_base_ + operands;
  const auto carries = static_cast<uint32_t>(layout_.carries);
  Place scratch = outer.scratch(id);
  fixed_.push_back({scratch, result_base_ + node.results});
  scratch.offset += aligned(body.arena_bytes());
  for (uint32_t c = 0; c < carries; ++c) {
    carries_.push_back({outer.of(node.inputs[c]), outer.of(node.first_result + c), scratch});
    scratch.offset += aligned(node.body->types[c].bytes());
  }
  for (uint32_t p = carries; p < operands; ++p) {
    const Place place = outer.of(node.inputs[p]);
    if (p < layout_.first_stacked()) {
      fixed_.push_back({place, operand_base_ + p});
    } else {
      stacked_.push_back(
          {place, node.body->types[p].bytes(), operand_base_ + p, layout_.shows_next(p, operands)});
    }
  }
  for (uint32_t r = carries; r < node.results; ++r) {
    const Place place = outer.of(node.first_result + r);
    if (layout_.stacks) {
      const int64_t row_bytes = node.body->types[node.body->results[r]].bytes();
      stacked_.push_back({place, row_bytes, result_base_ + r});
    } else {
      fixed_.push_back({place, result_base_ + r});
    }
  }
}

void BodyLoop::bind(std::byte** bases, uint32_t iteration) const {
  const auto at = [bases](const Place& place) { return bases[place.base] + place.offset; };
  for (uint32_t c = 0; c < carries_.size(); ++c) {
    const Carry& carry = carries_[c];
    bases[operand_base_ + c] =
        at(iteration == 0 ? carry.operand : carry_after(carry, int64_t{iteration} - 1));
    bases[result_base_ + c] = at(carry_after(carry, iteration));
  }
  const int64_t row = layout_.reverse ? layout_.length - 1 - iteration : iteration;
  const int64_t step = is_last(iteration) ? 0 : layout_.reverse ? -1 : 1;
  for (const Stacked& stacked : stacked_) {
    const int64_t shown = stacked.shows_next ? row + step : row;
    bases[stacked.base] = at(stacked.first) + shown * stacked.row_bytes;
  }
  if (iteration > 0) return;
  for (const Fixed& fixed : fixed_) bases[fixed.base] = at(fixed.place);
}

}  // namespace gangway
