// How a pass of this device writes a local function anew: the function and each of its bodies once,
// with sections that begin where their nodes are now.
//
// What is behind the commit point stays as it is, since it writes states in place, and so do bodies
// that are named there too. So do bodies that work ahead (ScanLayout::ahead): of the nodes that
// become one, some may be passed over in the last iteration and others not.
// Threads: pure.
//
// Example:
//   made = rewrite_local(local, [](const Function& from, NodeId end, Bodies& bodies) {
//     return Fuser(from, end, bodies).run();
//   });
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ir/plan/plan.h"

namespace gangway::cuda {

// A function written anew. `now`, by NodeId and the number of nodes: where a node is, or what comes
// behind it.
struct Rewritten {
  std::shared_ptr<const Function> function;
  std::vector<NodeId> now;
};

// Bodies of scans and calls, each written once however many nodes name it.
class Bodies {
 public:
  // Writes one function; what is from node `end` on stays as it is. The bodies of nodes that it
  // copies it hands to rewrite().
  using Pass = std::function<Rewritten(const Function& from, NodeId end, Bodies& bodies)>;

  explicit Bodies(Pass pass) : pass_(std::move(pass)) {}

  // The body that `before` names, anew, as the copy's.
  void rewrite(const Node& before, Node& copy);

 private:
  friend LocalFunction rewrite_local(const LocalFunction& local, const Bodies::Pass& pass);

  void keep(const Function& of, NodeId end, bool all);

  const Pass pass_;
  std::map<const Function*, Rewritten> written_;
};

LocalFunction rewrite_local(const LocalFunction& local, const Bodies::Pass& pass);

}  // namespace gangway::cuda
