#include "ir/plan/step_map.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

uint32_t iterations(const Node& node) { return static_cast<uint32_t>(ScanLayout(node).length); }

bool is_last(const Node& node, uint32_t iteration) { return iteration + 1 == iterations(node); }

// The scopes of a body's node begin with those of the node that names the body, and end with its
// own.
void drop_outer(std::vector<std::string>& scopes, const std::vector<std::string>& outer) {
  if (scopes.size() >= outer.size() && std::equal(outer.begin(), outer.end(), scopes.begin()))
    scopes.erase(scopes.begin(), scopes.begin() + static_cast<std::ptrdiff_t>(outer.size()));
}

// "layers.3"
std::string iteration_text(const StepMap::Level& level) {
  const Node& node = level.function->nodes[level.node];
  if (!row(node.op).repeats_body) return node.body->name;
  const ScanLayout layout(node);
  const int64_t at = level.iteration;
  return cat(node.body->name, ".", layout.reverse ? layout.length - 1 - at : at);
}

}  // namespace

StepMap::StepMap(const Function& function) {
  BodyTable table;
  table.add(function);
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
    part.flat = part.flat && body == kNone;
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
  parts_.push_back(std::move(part));
  mark_ahead(function);
}

// In the bodies that its nodes run.
void StepMap::mark_ahead(const Function& function) {
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    const uint32_t body = body_of(node);
    if (body == kNone) continue;
    const ScanLayout layout(node);
    Part& part = parts_[body];
    const auto now = layout.ahead == 0 ? Part::Ahead{} : Part::Ahead{layout.carries, layout.ahead};
    if (part.run_with == now) continue;
    if (part.run_with.has_value()) {
      throw Error(ErrorKind::kInvalid,
                  cat("function \"", function.name, "\": ", to_string(node.op), " runs body \"",
                      node.body->name, "\" with ", now.count, " of ", now.carries,
                      " carries made ahead, another node with ", part.run_with->count, " of ",
                      part.run_with->carries),
                  {.at = gangway::where(function, id)}, "give each its own body");
    }
    part.run_with = now;
    if (layout.ahead > 0) part.ahead = ahead_nodes(*node.body, layout);
  }
}

bool StepMap::is_passed_over(uint32_t step) const {
  const std::vector<Level> levels = path(step);
  if (levels.size() == 1) return false;
  const Level &leaf = levels.back(), &loop = levels[levels.size() - 2];
  return is_ahead(leaf.part, leaf.node) && is_last(loop.function->nodes[loop.node], loop.iteration);
}

uint32_t StepMap::body_of(const Node& node) const {
  if (!shares_body(node.op) || node.body == nullptr) return kNone;
  const uint32_t body = index_.at(node.body.get());
  return steps_of(body) == 0 || iterations(node) == 0 ? kNone : body;
}

NodeId StepMap::node_with(uint32_t part, uint32_t step) const {
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
    const uint32_t body = body_of(function.nodes[node]);
    levels.push_back({&function, node, body == kNone ? 0 : step / steps_of(body), part});
    if (body != kNone) step %= steps_of(body);
    part = body;
  }
  return levels;
}

StepMap::Leaf StepMap::leaf(uint32_t step) const {
  Leaf leaf{.part = parts() - 1};
  if (is_flat()) return {leaf.part, step};
  for (;;) {
    leaf.node = node_at(leaf.part, step);
    step -= parts_[leaf.part].first[leaf.node];
    const uint32_t body = body_of(parts_[leaf.part].function->nodes[leaf.node]);
    if (body == kNone) return leaf;
    step %= steps_of(body);
    leaf.part = body;
  }
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
    for (const std::string& scope : std::views::reverse(scopes)) text += " in " + scope;
    if (l > 0) text += " in " + iteration_text(levels[l - 1]);
  }
  return text;
}

StepMarks::StepMarks(const StepMap& steps)
    : StepMarks(steps, [&steps](uint32_t part, NodeId node) {
        return row(steps.function(part).nodes[node].op).meets;
      }) {}

StepMarks::StepMarks(const StepMap& steps,
                     const std::function<bool(uint32_t part, NodeId)>& is_marked)
    : steps_(steps) {
  for (uint32_t p = 0; p < steps.parts(); ++p) {
    const auto nodes = static_cast<NodeId>(steps.function(p).nodes.size());
    Part part{std::vector<bool>(nodes), std::vector<NodeId>(nodes + 1, kNone),
              std::vector<NodeId>(nodes + 1, kNone)};
    for (NodeId id = 0; id < nodes; ++id) {
      part.marked[id] = is_marked(p, id);
      const uint32_t body = body_of(p, id);
      const bool inside = body != kNone && any(body);
      part.last[id + 1] = part.marked[id] || inside ? id : part.last[id];
    }
    for (NodeId id = nodes; id-- > 0;)
      part.next[id] = part.last[id + 1] == id ? id : part.next[id + 1];
    parts_.push_back(std::move(part));
  }
}

uint32_t StepMarks::next(uint32_t step) const {
  if (step >= steps_.count()) return steps_.count();
  if (steps_.is_flat()) return std::min(steps_.count(), parts_.back().next[step]);
  return std::min(steps_.count(), next(steps_.parts() - 1, step));
}

uint32_t StepMarks::next(uint32_t part, uint32_t step) const {
  const Part& marks = parts_[part];
  NodeId node = steps_.node_at(part, step);
  const uint32_t first = steps_.first_step(part, node);
  if (marks.marked[node] && step == first) return step;
  const uint32_t body = body_of(part, node);
  if (body != kNone && any(body)) {
    const uint32_t size = steps_.steps_of(body);
    const uint32_t iteration = first + (step - first) / size * size;
    const uint32_t found = next(body, step - iteration);
    if (found != kNone) return iteration + found;
    if (iteration + size < steps_.first_step(part, node + 1))
      return iteration + size + next(body, 0);
  }
  node = marks.next[node + 1];
  if (node == kNone) return kNone;
  const uint32_t begin = steps_.first_step(part, node);
  return begin + (marks.marked[node] ? 0 : next(body_of(part, node), 0));
}

uint32_t StepMarks::previous(uint32_t step) const { return previous(steps_.parts() - 1, step); }

uint32_t StepMarks::previous(uint32_t part, uint32_t step) const {
  if (step == 0) return kNone;
  const Part& marks = parts_[part];
  NodeId node = steps_.node_at(part, step - 1);
  const uint32_t first = steps_.first_step(part, node);
  const uint32_t body = body_of(part, node);
  if (body != kNone && any(body)) {
    const uint32_t size = steps_.steps_of(body);
    const uint32_t iteration = first + (step - 1 - first) / size * size;
    const uint32_t found = previous(body, step - iteration);
    if (found != kNone) return iteration + found;
    if (iteration > first) return iteration - size + previous(body, size);
  }
  if (marks.marked[node]) return first;
  node = marks.last[node];
  if (node == kNone) return kNone;
  const uint32_t last = body_of(part, node);
  if (last == kNone || !any(last)) return steps_.first_step(part, node);
  const uint32_t size = steps_.steps_of(last);
  return steps_.first_step(part, node + 1) - size + previous(last, size);
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
    Part part;
    for (NodeId id = 0; id < function.nodes.size(); ++id) {
      const Node& node = function.nodes[id];
      const uint32_t body = steps.body_of(node);
      const int64_t each = body == kNone ? std::min(cost(function, id), kMost)
                                         : times(iterations(node) - 1, parts_[body].before.back()) +
                                               parts_[body].before_in_last.back();
      const bool is_passed_over = body == kNone && steps.is_ahead(p, id);
      part.before.push_back(std::min(kMost, part.before.back() + each));
      part.before_in_last.push_back(
          std::min(kMost, part.before_in_last.back() + (is_passed_over ? 0 : each)));
    }
    parts_.push_back(std::move(part));
  }
}

int64_t StepSums::before(uint32_t step) const {
  if (steps_.is_flat()) return parts_.back().before[step];
  int64_t sum = 0;
  uint32_t part = steps_.parts() - 1;
  bool in_last = false;
  while (step > 0) {
    const std::vector<int64_t>& before =
        in_last ? parts_[part].before_in_last : parts_[part].before;
    if (step >= steps_.steps_of(part)) return std::min(kMost, sum + before.back());
    const NodeId node_id = steps_.node_at(part, step);
    const Node& node = steps_.function(part).nodes[node_id];
    sum = std::min(kMost, sum + before[node_id]);
    step -= steps_.first_step(part, node_id);
    const uint32_t body = steps_.body_of(node);
    if (body == kNone) break;
    const uint32_t rounds = step / steps_.steps_of(body);
    const int64_t each = parts_[body].before.back();
    sum = each != 0 && rounds > (kMost - sum) / each ? kMost : sum + rounds * each;
    in_last = is_last(node, rounds);
    step %= steps_.steps_of(body);
    part = body;
  }
  return sum;
}

}  // namespace gangway
