#include "executor/devices/cuda/lower/rewrite_local.h"

#include <numeric>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/plan/step_map.h"

namespace gangway::cuda {
namespace {

// The step's new number, or for a step that is gone that of the step behind it. Parts have the same
// numbers before and after.
uint32_t moved_step(const StepMap& before, const StepMap& after,
                    const std::map<const Function*, Rewritten>& written, uint32_t step) {
  uint32_t moved = 0;
  for (const StepMap::Level& level : before.path(step)) {
    const auto found = written.find(level.function);
    const NodeId node = found == written.end() ? level.node : found->second.now[level.node];
    moved += after.first_step(level.part, node);
    const uint32_t body = before.body_of(level.function->nodes[level.node]);
    if (body != kNone) moved += level.iteration * after.steps_of(body);
  }
  return moved;
}

}  // namespace

Rewritten Bodies::write(const Function& from, const Append& append) {
  Rewriter out(from);
  std::vector<NodeId> now;
  for (NodeId id = 0; id < from.nodes.size(); ++id) {
    now.push_back(static_cast<NodeId>(out.target().nodes.size()));
    if (append(out, id)) continue;
    out.copy(id);
    rewrite(from.nodes[id], out.target().nodes.back());
  }
  now.push_back(static_cast<NodeId>(out.target().nodes.size()));
  return {std::make_shared<const Function>(out.finish()), std::move(now)};
}

void Bodies::rewrite(const Node& before, Node& copy) {
  if (!shares_body(before.op) || before.body == nullptr) return;
  const auto known = written_.find(before.body.get());
  if (known != written_.end()) {
    copy.body = known->second.function;
    return;
  }
  Rewritten made = pass_(*before.body, static_cast<NodeId>(before.body->nodes.size()), *this);
  copy.body = made.function;
  written_.emplace(before.body.get(), std::move(made));
}

// Records the bodies that stay as they are, wherever they are named: bodies of nodes from `end` on,
// and bodies that work ahead. `all`: every body.
void Bodies::keep(const Function& of, NodeId end, bool all) {
  for (NodeId id = 0; id < of.nodes.size(); ++id) {
    const Node& node = of.nodes[id];
    if (!shares_body(node.op) || node.body == nullptr) continue;
    const bool kept = all || id >= end || ScanLayout(node).ahead > 0;
    const Function& body = *node.body;
    if (kept && written_.contains(&body)) continue;
    if (kept) {
      std::vector<NodeId> now(body.nodes.size() + 1);
      std::iota(now.begin(), now.end(), NodeId{0});
      written_.emplace(&body, Rewritten{node.body, std::move(now)});
    }
    keep(body, static_cast<NodeId>(body.nodes.size()), kept);
  }
}

LocalFunction rewrite_local(const LocalFunction& local, const Bodies::Pass& pass) {
  Bodies bodies(pass);
  bodies.keep(*local.function, local.commit_begin, false);
  Rewritten main = pass(*local.function, local.commit_begin, bodies);
  LocalFunction made = local;
  made.function = main.function;
  made.commit_begin = main.now[local.commit_begin];
  if (made.sections.empty()) return made;
  bodies.written_.emplace(local.function.get(), std::move(main));
  const StepMap before(*local.function), after(*made.function);
  for (LocalFunction::Section& section : made.sections)
    section.begin = moved_step(before, after, bodies.written_, section.begin);
  return made;
}

}  // namespace gangway::cuda
