// Rewriter: builds the next version of a function from the last, node by node, for passes.
//
// Threads: one thread.
// Ownership: keeps a reference to the source function while it lives.
#pragma once

#include <vector>

#include "ir/graph/function.h"

namespace gangway {

class Rewriter {
 public:
  // The new function starts with the source's name, mesh, parameters and locations, and no nodes.
  explicit Rewriter(const Function& source);

  const Function& source() const { return source_; }
  Function& target() { return target_; }

  // The new value that stands for an old one.
  ValueId at(ValueId old) const { return map_[old]; }
  void set(ValueId old, ValueId now) { map_[old] = now; }

  // Appends a node; its result types are given. Returns its first result.
  ValueId append(Node node, const std::vector<Type>& types, NodeInfo info);
  // Appends a copy of a source node with its operands mapped, and maps its results.
  void copy(NodeId id);
  // The same of a node of any function: `now` says what stands for the values of that one.
  void copy(const Function& from, NodeId id, std::vector<ValueId>& now, NodeInfo info);

  // Maps the results and hands the function over.
  Function finish();

 private:
  const Function& source_;
  Function target_;
  std::vector<ValueId> map_;
};

// For each value, how many operands and results use it.
std::vector<uint32_t> use_counts(const Function& function);

}  // namespace gangway
