#include "ir/plan/step_map.h"

#include <algorithm>
#include <utility>

#include "ir/graph/bodies.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

uint32_t iterations(const Node& node) {
  return node.op == Op::scan ? static_cast<uint32_t>(ScanLayout(node).length) : 1;
}

// The scopes of a node, the innermost first.
std::vector<std::string> scopes_of(const Function& function, NodeId node) {
  std::vector<std::string> scopes;
  if (node >= function.infos.size()) return scopes;
  uint32_t loc = function.infos[node].loc;
  for (int depth = 0; loc < function.locs.size() && depth < 64; ++depth) {
    const LocEntry& entry = function.locs[loc];
    if (!entry.scope.empty()) scopes.push_back(entry.scope);
    loc = entry.parent;
  }
  return scopes;
}

// Those of a node of a body begin with its own, and end with those of the node that names it.
void drop_outer(std::vector<std::string>& scopes, const std::vector<std::string>& outer) {
  if (scopes.size() >= outer.size() && std::equal(outer.rbegin(), outer.rend(), scopes.rbegin()))
    scopes.resize(scopes.size() - outer.size());
}

// "layers.3"
std::string iteration_text(const StepMap::Level& level) {
  const Node& node = level.function->nodes[level.node];
  if (node.op != Op::scan) return node.body->name;
  const ScanLayout layout(node);
  const int64_t at = level.iteration;
  return cat(node.body->name, ".", layout.reverse ? layout.length - 1 - at : at);
}

}  // namespace

StepMap::StepMap(const Function& function, Bodies bodies) : bodies_(bodies) {
  BodyTable table;
  if (bodies == Bodies::kCounted) table.add(function);
  parts_.reserve(table.size() + 1);
  for (uint32_t b = 0; b < table.size(); ++b) {
    index_.emplace(&table[b], b);
    add(table[b]);
  }
  add(function);
}

void StepMap::add(const Function& function) {
  Part part{.function = &function};
  const auto nodes = static_cast<NodeId>(function.nodes.size());
  part.first.reserve(nodes + 1);
  part.first.push_back(0);
  for (NodeId id = 0; id < nodes; ++id) {
    const uint32_t body = body_of(function.nodes[id]);
    const uint64_t steps =
        body == kNone ? 1 : uint64_t{iterations(function.nodes[id])} * steps_of(body);
    const uint64_t end = part.first.back() + steps;
    if (end > kStepsMax) {
      throw Error(ErrorKind::kInvalid,
                  cat("function \"", function.name, "\": more than ", kStepsMax,
                      " steps when iterations are counted out"),
                  {.at = gangway::where(function, id)}, "scan over fewer iterations");
    }
    part.first.push_back(static_cast<uint32_t>(end));
  }
  part.next_met.assign(nodes + 1, kNone);
  part.last_met.assign(nodes + 1, kNone);
  for (NodeId id = nodes; id-- > 0;)
    part.next_met[id] = meets(function.nodes[id]) ? id : part.next_met[id + 1];
  for (NodeId id = 0; id < nodes; ++id)
    part.last_met[id + 1] = meets(function.nodes[id]) ? id : part.last_met[id];
  parts_.push_back(std::move(part));
  mark_ahead(function);
}

// In the bodies that its scans name.
void StepMap::mark_ahead(const Function& function) {
  for (const Node& node : function.nodes) {
    const uint32_t body = body_of(node);
    if (body == kNone || node.op != Op::scan) continue;
    const ScanLayout layout(node);
    if (layout.ahead > 0) parts_[body].ahead = ahead_nodes(*node.body, layout);
  }
}

bool StepMap::is_passed_over(uint32_t step) const {
  const std::vector<Level> levels = path(step);
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    const auto& [function, node, iteration] = levels[i];
    const Node& scan = function->nodes[node];
    if (iteration + 1 == iterations(scan) && is_ahead(body_of(scan), levels[i + 1].node))
      return true;
  }
  return false;
}

uint32_t StepMap::body_of(const Node& node) const {
  if (bodies_ == Bodies::kOne || !shares_body(node.op) || node.body == nullptr) return kNone;
  const uint32_t body = index_.at(node.body.get());
  return steps_of(body) == 0 || iterations(node) == 0 ? kNone : body;
}

bool StepMap::meets(const Node& node) const {
  const uint32_t body = body_of(node);
  return body == kNone ? row(node.op).meets : parts_[body].next_met[0] != kNone;
}

NodeId StepMap::node_at(uint32_t part, uint32_t step) const {
  const std::vector<uint32_t>& first = parts_[part].first;
  return static_cast<NodeId>(std::upper_bound(first.begin(), first.end(), step) - first.begin()) -
         1;
}

std::vector<StepMap::Level> StepMap::path(uint32_t step) const {
  GW_DASSERT(step < count());
  std::vector<Level> levels;
  for (uint32_t part = parts() - 1; part != kNone;) {
    const Function& function = *parts_[part].function;
    const NodeId node = node_at(part, step);
    step -= parts_[part].first[node];
    part = body_of(function.nodes[node]);
    levels.push_back({&function, node, part == kNone ? 0 : step / steps_of(part)});
    if (part != kNone) step %= steps_of(part);
  }
  return levels;
}

StepMap::Leaf StepMap::leaf(uint32_t step) const {
  Leaf leaf{.part = parts() - 1};
  for (;;) {
    leaf.node = node_at(leaf.part, step);
    step -= parts_[leaf.part].first[leaf.node];
    const uint32_t body = body_of(parts_[leaf.part].function->nodes[leaf.node]);
    if (body == kNone) return leaf;
    step %= steps_of(body);
    leaf.part = body;
  }
}

uint32_t StepMap::next_collective(uint32_t step) const {
  if (step >= count()) return count();
  return std::min(count(), next_collective(parts() - 1, step));
}

uint32_t StepMap::next_collective(uint32_t part, uint32_t step) const {
  const Part& p = parts_[part];
  NodeId node = node_at(part, step);
  const uint32_t body = body_of(p.function->nodes[node]);
  if (body != kNone && parts_[body].next_met[0] != kNone) {
    const uint32_t size = steps_of(body);
    const uint32_t iteration = p.first[node] + (step - p.first[node]) / size * size;
    const uint32_t found = next_collective(body, step - iteration);
    if (found != kNone) return iteration + found;
    if (iteration + size < p.first[node + 1]) return iteration + size + next_collective(body, 0);
  } else if (step == p.first[node] && p.next_met[node] == node) {
    return step;
  }
  node = p.next_met[node + 1];
  if (node == kNone) return kNone;
  const uint32_t next = body_of(p.function->nodes[node]);
  return p.first[node] + (next == kNone ? 0 : next_collective(next, 0));
}

uint32_t StepMap::previous_collective(uint32_t step) const {
  return previous_collective(parts() - 1, step);
}

uint32_t StepMap::previous_collective(uint32_t part, uint32_t step) const {
  if (step == 0) return kNone;
  const Part& p = parts_[part];
  NodeId node = node_at(part, step - 1);
  const uint32_t body = body_of(p.function->nodes[node]);
  if (body != kNone && parts_[body].next_met[0] != kNone) {
    const uint32_t size = steps_of(body);
    const uint32_t iteration = p.first[node] + (step - 1 - p.first[node]) / size * size;
    const uint32_t found = previous_collective(body, step - iteration);
    if (found != kNone) return iteration + found;
    if (iteration > p.first[node]) return iteration - size + previous_collective(body, size);
  } else if (p.next_met[node] == node) {
    return p.first[node];
  }
  node = p.last_met[node];
  if (node == kNone) return kNone;
  const uint32_t last = body_of(p.function->nodes[node]);
  if (last == kNone) return p.first[node];
  return p.first[node + 1] - steps_of(last) + previous_collective(last, steps_of(last));
}

std::string StepMap::where(uint32_t step) const {
  const std::vector<Level> levels = path(step);
  const Level& leaf = levels.back();
  const std::string line = line_of(*leaf.function, leaf.node);
  if (levels.size() == 1) return gangway::where(*leaf.function, leaf.node);
  std::string text = line.empty() ? "unknown" : line;
  for (size_t l = levels.size(); l-- > 0;) {
    std::vector<std::string> scopes = scopes_of(*levels[l].function, levels[l].node);
    if (l > 0) drop_outer(scopes, scopes_of(*levels[l - 1].function, levels[l - 1].node));
    for (const std::string& scope : scopes) text += " in " + scope;
    if (l > 0) text += " in " + iteration_text(levels[l - 1]);
  }
  return text;
}

uint32_t commit_step(const LocalFunction& local) {
  const std::vector<Node>& nodes = local.function->nodes;
  const bool has_bodies = std::any_of(nodes.begin(), nodes.begin() + local.commit_begin,
                                      [](const Node& node) { return shares_body(node.op); });
  return has_bodies ? StepMap(*local.function).first_step(local.commit_begin) : local.commit_begin;
}

StepSums::StepSums(const StepMap& steps, const Cost& cost) : steps_(steps) {
  const auto times = [](int64_t factor, int64_t each) {
    return each != 0 && factor > kMost / each ? kMost : factor * each;
  };
  for (uint32_t p = 0; p < steps.parts(); ++p) {
    const Function& function = steps.function(p);
    std::vector<int64_t>& before = before_.emplace_back(1, 0);
    before.reserve(function.nodes.size() + 1);
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      const uint32_t body = steps.body_of(function.nodes[id]);
      const int64_t each = body == kNone
                               ? std::min(cost(function, id), kMost)
                               : times(iterations(function.nodes[id]), before_[body].back());
      before.push_back(std::min(kMost, before.back() + each));
    }
  }
}

int64_t StepSums::before(uint32_t step) const {
  int64_t sum = 0;
  uint32_t part = steps_.parts() - 1;
  while (step > 0) {
    if (step >= steps_.steps_of(part)) return std::min(kMost, sum + before_[part].back());
    const NodeId node = steps_.node_at(part, step);
    sum = std::min(kMost, sum + before_[part][node]);
    step -= steps_.first_step(part, node);
    const uint32_t body = steps_.body_of(steps_.function(part).nodes[node]);
    if (body == kNone) break;
    const int64_t each = before_[body].back(), rounds = step / steps_.steps_of(body);
    sum = each != 0 && rounds > (kMost - sum) / each ? kMost : sum + rounds * each;
    step %= steps_.steps_of(body);
    part = body;
  }
  return sum;
}

}  // namespace gangway
