// NodeCount: the number of nodes of functions, where a body that they share counts once. The cost
// of compiling the functions grows with it, and progress is measured in it.
//
// Threads: one thread.
// Ownership: keeps pointers to bodies, which their functions own.
//
// Example:
//   NodeCount count;
//   for (const auto& function : program.functions) count.add(*function);
//   size_t nodes = count.nodes();
#pragma once

#include <cstddef>
#include <set>

#include "ir/graph/function.h"

namespace gangway {

class NodeCount {
 public:
  void add(const Function& function) {
    nodes_ += function.nodes.size();
    for (const Node& node : function.nodes) {
      if (node.body != nullptr && bodies_.insert(node.body.get()).second) add(*node.body);
    }
  }
  size_t nodes() const { return nodes_; }

 private:
  std::set<const Function*> bodies_;
  size_t nodes_ = 0;
};

}  // namespace gangway
