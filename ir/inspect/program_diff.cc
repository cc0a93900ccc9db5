#include "ir/inspect/program_diff.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/inspect/outline.h"
#include "ir/text/print_internal.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

using namespace internal;

constexpr size_t kLinesMax = 60;  // Lines of one function, or of the program's own nodes.

// Keeps the first lines, and counts the others.
class Lines {
 public:
  void add(const std::string& line) {
    if (++count_ <= kLinesMax) text_ += line;
  }
  std::string text(const std::string& indent) const {
    if (count_ <= kLinesMax) return text_;
    return cat(text_, indent, "and ", count_ - kLinesMax, " more differences\n");
  }
  bool empty() const { return count_ == 0; }

 private:
  std::string text_;
  size_t count_ = 0;
};

std::string types_of(const Function& f, const Node& node) {
  std::string text;
  for (uint32_t r = 0; r < node.results; ++r)
    text += cat(r == 0 ? "" : ", ", print_type(f.types[node.first_result + r]));
  return text;
}

std::string attrs_of(const Node& node) {
  return node.attrs.size() == 0 ? "" : " " + print_attrs(node.attrs);
}

// A node's op, attributes, region and types, without the numbers of values.
std::string kind_of(const Function& f, const Node& node) {
  return cat(to_string(node.op), attrs_of(node), " region ", node.region, ": ", types_of(f, node));
}

std::string chosen(const Program& p) {
  const std::string text = to_string(p.numerics);
  return text.empty() ? "by default" : text.substr(1);
}

std::string operands_of(const Node& node) {
  std::string text;
  for (const ValueId input : node.inputs) text += cat(text.empty() ? "%" : ", %", input);
  return text;
}

std::string line_of_node(const Function& f, NodeId id) {
  const Node& node = f.nodes[id];
  std::string text =
      cat("%", node.first_result, ": ", types_of(f, node), " = ", to_string(node.op));
  if (!node.inputs.empty()) text += " " + operands_of(node);
  return text + attrs_of(node) + comment_of(f, id) + "\n";
}

class FunctionDiff {
 public:
  FunctionDiff(const Function& a, const Function& b) : a_(a), b_(b) {}

  std::string run() {
    if (a_.mesh != b_.mesh)
      lines_.add(cat("  mesh ", print_mesh(a_.mesh), " -> ", print_mesh(b_.mesh), "\n"));
    compare_parameters();
    std::vector<AlignedPair> pairs;
    if (align(kinds(a_), kinds(b_), kEditsMax, pairs)) {
      compare_nodes(pairs);
    } else {
      compare_ops();
    }
    compare_results();
    return lines_.text("  ");
  }

 private:
  static std::vector<std::string> kinds(const Function& f) {
    std::vector<std::string> all;
    all.reserve(f.nodes.size());
    for (const Node& node : f.nodes) all.push_back(kind_of(f, node));
    return all;
  }

  static std::string parameter(const Function& f, ValueId id) {
    const Parameter& of = f.parameters[id];
    std::string text = cat("parameter ", quote(of.name), ": ", print_type(f.types[id]));
    return of.placements.empty() ? text : cat(text, " ", print_placements(of.placements));
  }

  void compare_parameters() {
    std::map<std::string, ValueId> of_b;
    for (ValueId p = 0; p < b_.parameters.size(); ++p) of_b.emplace(b_.parameters[p].name, p);
    same_.assign(a_.types.size(), kNone);
    is_paired_.assign(b_.types.size(), false);
    for (ValueId p = 0; p < a_.parameters.size(); ++p) {
      const auto found = of_b.find(a_.parameters[p].name);
      const std::string before = parameter(a_, p);
      if (found == of_b.end()) {
        lines_.add(cat("  - ", before, "\n"));
        continue;
      }
      pair(p, found->second);
      const std::string after = parameter(b_, found->second);
      if (before != after) lines_.add(cat("  ~ ", before, " -> ", after, "\n"));
      of_b.erase(found);
    }
    for (const auto& [name, p] : of_b) lines_.add(cat("  + ", parameter(b_, p), "\n"));
  }

  void pair(ValueId a, ValueId b) {
    same_[a] = b;
    is_paired_[b] = true;
  }

  void compare_nodes(const std::vector<AlignedPair>& pairs) {
    NodeId a = 0, b = 0;
    const auto until = [&](NodeId end_a, NodeId end_b) {
      for (; a < end_a; ++a) lines_.add("  - " + line_of_node(a_, a));
      for (; b < end_b; ++b) lines_.add("  + " + line_of_node(b_, b));
    };
    for (const AlignedPair& aligned : pairs) {
      until(aligned.a, aligned.b);
      for (uint32_t r = 0; r < a_.nodes[a].results; ++r)
        pair(a_.nodes[a].first_result + r, b_.nodes[b].first_result + r);
      compare_operands(a++, b++);
    }
    until(static_cast<NodeId>(a_.nodes.size()), static_cast<NodeId>(b_.nodes.size()));
  }

  void compare_operands(NodeId a, NodeId b) {
    const Node &before = a_.nodes[a], &after = b_.nodes[b];
    bool is_same = before.inputs.size() == after.inputs.size();
    for (size_t i = 0; is_same && i < before.inputs.size(); ++i) {
      const ValueId same = same_[before.inputs[i]];
      // One that was replaced is said where it stands.
      is_same = same == after.inputs[i] || (same == kNone && !is_paired_[after.inputs[i]]);
    }
    if (is_same) return;
    lines_.add(cat("  ~ %", before.first_result, " -> %", after.first_result, ": ",
                   to_string(before.op), " reads ", operands_of(before), " -> ", operands_of(after),
                   "\n"));
  }

  void compare_ops() {
    std::map<std::string, std::pair<size_t, size_t>> counts;
    for (const Node& node : a_.nodes) ++counts[std::string(to_string(node.op))].first;
    for (const Node& node : b_.nodes) ++counts[std::string(to_string(node.op))].second;
    lines_.add(cat("  differs in more than ", kEditsMax, " nodes; by op:\n"));
    for (const auto& [op, count] : counts) {
      if (count.first != count.second)
        lines_.add(cat("  ~ ", op, ": ", count.first, " -> ", count.second, " nodes\n"));
    }
  }

  void compare_results() {
    std::map<std::string, ValueId> of_b;
    for (size_t r = 0; r < b_.results.size(); ++r) of_b.emplace(b_.result_names[r], b_.results[r]);
    for (size_t r = 0; r < a_.results.size(); ++r) {
      const auto found = of_b.find(a_.result_names[r]);
      if (found == of_b.end()) {
        lines_.add(cat("  - result ", quote(a_.result_names[r]), "\n"));
        continue;
      }
      if (same_[a_.results[r]] != found->second) {
        lines_.add(cat("  ~ result ", quote(a_.result_names[r]), ": %", a_.results[r], " -> %",
                       found->second, "\n"));
      }
      of_b.erase(found);
    }
    for (const auto& [name, value] : of_b)
      lines_.add(cat("  + result ", quote(name), ": %", value, "\n"));
  }

  const Function& a_;
  const Function& b_;
  std::vector<ValueId> same_;    // Indexed by value of a: the same value in b.
  std::vector<bool> is_paired_;  // Indexed by value of b.
  Lines lines_;
};

std::string function_diff(const Function& a, const Function& b, const std::string& name) {
  if (same_graph(a, b)) return "";
  std::string text = FunctionDiff(a, b).run();
  BodyTable of_a, of_b;
  of_a.add(a);
  of_b.add(b);
  const bool has_other_bodies = of_a.size() != of_b.size();
  if (has_other_bodies) text += cat("  bodies: ", of_a.size(), " -> ", of_b.size(), "\n");
  // Differences in bodies alone are reported under the bodies.
  std::string head;
  if (!text.empty())
    head = cat(name, ": ", a.nodes.size(), " nodes -> ", b.nodes.size(), " nodes\n", text);
  for (uint32_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
    if (same_graph(of_a[i], of_b[i])) continue;
    const std::string inner = FunctionDiff(of_a[i], of_b[i]).run();
    if (inner.empty()) continue;  // It names a body that differs.
    head += cat("body ", i, " ", print_function_name(of_a[i].name), " of ", name, ": ",
                of_a[i].nodes.size(), " nodes -> ", of_b[i].nodes.size(), " nodes\n", inner);
  }
  return head;
}

class ProgramDiff {
 public:
  ProgramDiff(const Program& a, const Program& b) : a_(a), b_(b) {
    for (uint32_t id = 0; id < b.nodes.size(); ++id) of_b_.emplace(key(b.nodes[id]), id);
  }

  std::string run() {
    if (a_.name != b_.name) lines_.add(cat("name ", quote(a_.name), " -> ", quote(b_.name), "\n"));
    if (a_.finite_output != b_.finite_output)
      lines_.add(cat("finite ", quote(a_.finite_output), " -> ", quote(b_.finite_output), "\n"));
    if (a_.numerics != b_.numerics)
      lines_.add(cat("numerics ", chosen(a_), " -> ", chosen(b_), "\n"));
    compare_slices();
    std::string functions;
    std::map<std::pair<uint32_t, uint32_t>, bool> seen;
    for (uint32_t id = 0; id < a_.nodes.size(); ++id) {
      const uint32_t other = pair_of(id);
      if (other == kNone || a_.nodes[id].kind != NodeKind::kCall) continue;
      const uint32_t f = a_.nodes[id].function, g = b_.nodes[other].function;
      if (!seen.emplace(std::pair(f, g), true).second) continue;
      functions += function_diff(*a_.functions[f], *b_.functions[g],
                                 print_function_name(a_.functions[f]->name));
    }
    for (const auto& [of, id] : of_b_)
      lines_.add(cat("+ ", head_of(b_.nodes[id]), rest_of(b_, b_.nodes[id]), "\n"));
    std::string text = lines_.text("") + functions;
    const std::string before = to_text(totals_of(a_)), after = to_text(totals_of(b_));
    if (before != after) text += cat("a run: ", before, "\n    -> ", after, "\n");
    return text;
  }

 private:
  using Key = std::pair<NodeKind, std::string>;
  static Key key(const ProgramNode& node) { return {node.kind, node.name}; }

  void compare_slices() {
    for (size_t i = 0; i < std::max(a_.slices.size(), b_.slices.size()); ++i) {
      const auto text = [i](const Program& p) {
        return i < p.slices.size()
                   ? cat("slice ", quote(p.slices[i].name), " mesh ", print_mesh(p.slices[i].mesh))
                   : std::string("no slice");
      };
      if (text(a_) != text(b_)) lines_.add(cat("~ ", text(a_), " -> ", text(b_), "\n"));
    }
  }

  static std::string head_of(const ProgramNode& node) {
    return cat(to_string(node.kind), " ", quote(node.name), ": ");
  }

  static std::string rest_of(const Program& p, const ProgramNode& node) {
    std::string text;
    if (p.slices.size() > 1) text += cat("on ", quote(p.slices[node.slice].name), " ");
    if (node.kind == NodeKind::kCall) {
      return cat(text, print_function_name(p.functions[node.function]->name), ", ",
                 node.inputs.size(), " operands -> ", node.types.size(), " results, updates ",
                 node.updates.size(), " states");
    }
    text += print_type(node.types[0]);
    if (!node.placements[0].empty()) text += " " + print_placements(node.placements[0]);
    if (node.attrs.size() > 0) text += " with " + print_attrs(node.attrs);
    return text;
  }

  // Says how they differ, and takes the other from what is left of b.
  uint32_t pair_of(uint32_t id) {
    const ProgramNode& node = a_.nodes[id];
    const std::string before = rest_of(a_, node);
    const auto found = of_b_.find(key(node));
    if (found == of_b_.end()) {
      lines_.add(cat("- ", head_of(node), before, "\n"));
      return kNone;
    }
    const uint32_t other = found->second;
    of_b_.erase(found);
    const std::string after = rest_of(b_, b_.nodes[other]);
    if (before != after) lines_.add(cat("~ ", head_of(node), before, " -> ", after, "\n"));
    compare_edges(node, b_.nodes[other]);
    return other;
  }

  // Compares the nodes that it reads and updates, and how a state begins, whatever its mesh.
  void compare_edges(const ProgramNode& a, const ProgramNode& b) {
    const auto names = [](const Program& p, const ProgramNode& node) {
      std::vector<std::pair<std::string, uint32_t>> all;
      for (const Edge& edge : node.inputs) all.emplace_back(p.nodes[edge.node].name, edge.result);
      for (const StateUpdate& update : node.updates)
        all.emplace_back(p.nodes[update.state].name, update.result);
      return all;
    };
    if (names(a_, a) != names(b_, b))
      lines_.add(cat("~ ", head_of(a), "reads or updates others\n"));
    if (a.kind != NodeKind::kState || a.function == kNone || b.function == kNone) return;
    Function begins = *a_.functions[a.function];
    begins.mesh = b_.functions[b.function]->mesh;
    begins.name = b_.functions[b.function]->name;
    if (!same_graph(begins, *b_.functions[b.function]))
      lines_.add(cat("~ ", head_of(a), "begins with other values\n"));
  }

  const Program& a_;
  const Program& b_;
  std::map<Key, uint32_t> of_b_;  // Nodes of b that no node of a is paired with yet.
  Lines lines_;
};

}  // namespace

bool align(const std::vector<std::string>& a, const std::vector<std::string>& b, size_t edits_max,
           std::vector<AlignedPair>& pairs) {
  const auto n = static_cast<int64_t>(a.size()), m = static_cast<int64_t>(b.size());
  const auto max = std::min<int64_t>(n + m, static_cast<int64_t>(edits_max));
  // farthest[k + max]: how far in a a script of d edits comes on diagonal k (a's place less b's).
  std::vector<int64_t> farthest(static_cast<size_t>(2 * max + 3), 0);
  const auto at = [max](std::vector<int64_t>& row, int64_t k) -> int64_t& {
    return row[static_cast<size_t>(k + max + 1)];
  };
  std::vector<std::vector<int64_t>> trace;  // Before each d: of diagonals -d - 1 to d + 1.
  for (int64_t d = 0; d <= max; ++d) {
    trace.emplace_back(farthest.begin() + (max - d), farthest.begin() + (max + d + 3));
    for (int64_t k = -d; k <= d; k += 2) {
      const bool is_insert = k == -d || (k != d && at(farthest, k - 1) < at(farthest, k + 1));
      int64_t x = is_insert ? at(farthest, k + 1) : at(farthest, k - 1) + 1;
      while (x < n && x - k < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(x - k)]) ++x;
      at(farthest, k) = x;
      if (x < n || x - k < m) continue;
      pairs.clear();
      for (int64_t y = x - k; x > 0 || y > 0; --d) {
        const std::vector<int64_t>& before = trace[static_cast<size_t>(d)];
        const auto come_to = [&](int64_t diagonal) {
          return before[static_cast<size_t>(diagonal + d + 1)];
        };
        const int64_t here = x - y;
        const bool inserts = here == -d || (here != d && come_to(here - 1) < come_to(here + 1));
        const int64_t from = inserts ? here + 1 : here - 1;
        const int64_t begin = d == 0 ? 0 : (inserts ? come_to(from) : come_to(from) + 1);
        for (; x > begin; --x, --y) {
          pairs.push_back({static_cast<uint32_t>(x - 1), static_cast<uint32_t>(y - 1)});
        }
        if (d == 0) break;
        x = come_to(from);
        y = x - from;
      }
      std::ranges::reverse(pairs);
      return true;
    }
  }
  return false;
}

std::string program_diff(const Program& a, const Program& b) {
  if (same_graph(a, b)) return "";
  return ProgramDiff(a, b).run();
}

}  // namespace gangway
