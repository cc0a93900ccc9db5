// Finds queries, keys and values of a local function that can lie side by side in one tensor: they
// are three products of one tensor, and nothing but attention and its gradient reads them.
//
// The gradient may be in the body of another scan, which sees the stacks of the first one. Then
// only such scans may read those stacks. Only products may read the results of the gradient: those
// that sum up to the cotangent of the tensor from which the three were computed, and those that
// give the gradients of the weights, where they join as well (pack_attention.h).
//
// It must be worth it: joining the weights reads and writes them once more, in each pass, and the
// rows are read once, not three times. Therefore there must be more rows than columns of joined
// weights.
//
// Threads: pure; an object is immutable once it is built.
// Ownership: it keeps pointers into the function, which must live as long.
// Cost: O(nodes * log nodes) for each body, and all loops once more for each scan whose stacks turn
// out to be read otherwise.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "ir/graph/function.h"

namespace gangway {

// Queries, keys and values of one function.
struct PackedTriple {
  std::array<ValueId, 3> values = {kNone, kNone, kNone};
  bool is_given = false;         // Parameters of a body; otherwise products make them.
  std::vector<NodeId> attends;   // attention and attention_grad, in their order.
  std::array<size_t, 3> stacks;  // Their indices among the body's results, if `is_stacked`.
  bool is_stacked = false;
};

class PackableAttention {
 public:
  // A local function with all bodies in it.
  explicit PackableAttention(const Function& local);

  bool none() const;
  // The triples of the function or of one of the bodies.
  const std::vector<PackedTriple>& of(const Function& function) const;

  // A triple that a loop gives to another one of the same function.
  struct Given {
    NodeId loop = kNone;  // The loop that stacks it.
    size_t triple = 0;    // Its index among the triples of the loop's body.
  };
  // The source of a triple that is given to the body of a loop; none: something else gives one of
  // its values.
  std::optional<Given> given(const Function& function, NodeId loop,
                             const PackedTriple& triple) const;

 private:
  void collect(const Function& function, bool is_body);
  bool drop_unmatched(const Function& function);
  bool is_taken(const Function& function, NodeId loop, const PackedTriple& triple) const;

  std::map<const Function*, std::vector<PackedTriple>> triples_;
  std::map<const Function*, std::vector<NodeId>> makers_;
};

}  // namespace gangway
