// MetNode: the call of a collective node on its group, complete except for addresses, which a run
// adds.
//
// Members are numbered like the group's, by the list of axes (ir/plan/plan_members.h).
// Threads: immutable.
// Ownership: refers to its node. Must outlive the calls made from it.
// Errors: kInvalid for axes that the mesh lacks, and for parts that do not match the members.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/devices/lower/node_view.h"

namespace gangway {

class MetNode {
 public:
  explicit MetNode(const NodeView& node);

  CollectiveKind kind() const { return call_.kind; }
  // Limit of the bytes that it moves, each tensor aligned.
  int64_t bytes() const { return bytes_; }
  // The call on tensors at `address`(value); `tensors` holds them.
  template <class Address>
  CollectiveCall at(std::vector<CollectiveTensor>& tensors, const Address& address) const {
    CollectiveCall call = call_;
    tensors.assign(tensors_.begin(), tensors_.end());
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      tensors[i].in = address(node_.inputs[i]);
      tensors[i].out = address(node_.first_result + i);
    }
    call.tensors = tensors;
    call.to = to_;
    if (call.kind == CollectiveKind::kRaggedAllToAll) {
      call.ragged.sizes = reinterpret_cast<const int32_t*>(address(node_.inputs[1]));
      call.ragged.received = reinterpret_cast<int32_t*>(address(node_.first_result + 1));
    }
    return call;
  }

 private:
  const Node& node_;
  CollectiveCall call_;
  std::vector<CollectiveTensor> tensors_;  // Without addresses.
  std::vector<uint32_t> to_;
  int64_t bytes_ = 0;
};

}  // namespace gangway
