// Rewrites a local function for a pass of this device: the function and each of its bodies once,
// with sections that begin where their nodes are now.
//
// Nodes behind the commit point stay as they are, since they write states in place, and so do
// bodies that such nodes name. Bodies that work ahead (ScanLayout::ahead) stay too: of the nodes
// that a pass joins into one, the last iteration may pass over some and not others.
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
#include "ir/transforms/rewrite/rewrite.h"

namespace gangway::cuda {

// A rewritten function. `now`, indexed by the old NodeId, is the node's new one, or for a node that
// is gone that of the node behind it. It has one element more, for the end.
struct Rewritten {
  std::shared_ptr<const Function> function;
  std::vector<NodeId> now;
};

// Bodies of scans and calls, each written once however many nodes name it.
class Bodies {
 public:
  // Rewrites one function, by write(); nodes from `end` on stay as they are.
  using Pass = std::function<Rewritten(const Function& from, NodeId end, Bodies& bodies)>;

  // Appends what stands for a node, which may be nothing; or returns false for one that stays.
  using Append = std::function<bool(Rewriter& out, NodeId id)>;

  explicit Bodies(Pass pass) : pass_(std::move(pass)) {}

  // The function node by node; nodes that stay get their rewritten bodies.
  Rewritten write(const Function& from, const Append& append);

 private:
  friend LocalFunction rewrite_local(const LocalFunction& local, const Bodies::Pass& pass);

  // Gives `copy` the rewritten body of `before`.
  void rewrite(const Node& before, Node& copy);
  void keep(const Function& of, NodeId end, bool all);

  const Pass pass_;
  std::map<const Function*, Rewritten> written_;
};

LocalFunction rewrite_local(const LocalFunction& local, const Bodies::Pass& pass);

}  // namespace gangway::cuda
