#include "ir/inspect/function_dot.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/graph/bodies.h"
#include "ir/graph/node_facts.h"
#include "ir/inspect/dot_text.h"
#include "ir/inspect/name_groups.h"
#include "runtime/base/cat.h"
#include "runtime/base/units.h"

namespace gangway::internal {
namespace {

constexpr size_t kResultTypesMax = 3;

using Scopes = std::vector<std::string>;

class FunctionDot {
 public:
  FunctionDot(const Function& function, std::string prefix, std::string& out)
      : f_(function), prefix_(std::move(prefix)), out_(out), box_of_(function.value_count()) {
    for (NodeId id = 0; id < f_.nodes.size(); ++id) scopes_.push_back(scopes_of(f_, id));
  }

  void run() {
    draw_parameters();
    choose_depth();
    Tree root;
    for (NodeId id = 0; id < f_.nodes.size(); ++id) place(id, root);
    write(root, "  ");
    for (NodeId id = 0; id < f_.nodes.size(); ++id) add_edges(id);
    draw_results();
    edges_.write(out_);
  }

 private:
  struct Tree {
    std::map<std::string, Tree> inner;
    std::vector<NodeId> nodes;
  };
  struct Folded {
    NodeId first = kNone;
    size_t nodes = 0;
    Cost cost;
  };

  bool is_shown(NodeId id) const { return f_.nodes[id].op != Op::constant; }
  bool is_folded(NodeId id) const { return scopes_[id].size() >= depth_; }
  Scopes folded_scope(NodeId id) const {
    return {scopes_[id].begin(), scopes_[id].begin() + static_cast<std::ptrdiff_t>(depth_)};
  }

  // The most scopes inside one another for which there are not too many boxes.
  void choose_depth() {
    size_t deepest = 0;
    for (const Scopes& scopes : scopes_) deepest = std::max(deepest, scopes.size());
    for (depth_ = deepest + 1; depth_ > 0 && boxes() > kDotBoxesMax;) --depth_;
  }
  size_t boxes() const {
    std::set<Scopes> folded;
    size_t count = 0;
    for (NodeId id = 0; id < f_.nodes.size(); ++id) {
      if (!is_shown(id)) continue;
      if (is_folded(id)) {
        folded.insert(folded_scope(id));
      } else {
        ++count;
      }
    }
    return count + folded.size();
  }

  // Puts a node, or the folded scope that it lies in, where it is drawn.
  void place(NodeId id, Tree& root) {
    if (!is_shown(id)) return;
    Tree* tree = &root;
    // Around a folded scope are those that it lies in.
    const size_t around = is_folded(id) ? std::max<size_t>(depth_, 1) - 1 : scopes_[id].size();
    for (size_t i = 0; i < around; ++i) tree = &tree->inner[scopes_[id][i]];
    std::string box = cat(prefix_, "n", id);
    if (is_folded(id)) {
      Folded& folded = folded_[folded_scope(id)];
      if (folded.nodes++ == 0) {
        folded.first = id;
        tree->nodes.push_back(id);
      }
      const Cost cost = cost_of(f_, id);
      folded.cost.flops += cost.flops;
      folded.cost.bytes += cost.bytes;
      box = cat(prefix_, "s", folded.first);
    } else {
      tree->nodes.push_back(id);
    }
    const Node& node = f_.nodes[id];
    for (uint32_t r = 0; r < node.results; ++r) box_of_[node.first_result + r] = box;
  }

  void write(const Tree& tree, const std::string& indent) {
    for (const auto& [name, inner] : tree.inner) {
      out_ += cat(indent, "subgraph cluster_", prefix_, clusters_++, " {\n", indent,
                  "  label=", dot_label({name}), ";\n");
      write(inner, indent + "  ");
      out_ += indent + "}\n";
    }
    for (const NodeId id : tree.nodes) {
      out_ += indent;
      is_folded(id) ? write_folded(folded_.at(folded_scope(id))) : write_node(id);
    }
  }

  void write_folded(const Folded& folded) {
    const std::string name = depth_ == 0 ? f_.name : scopes_[folded.first][depth_ - 1];
    out_ += cat(prefix_, "s", folded.first,
                " [label=", dot_label({name, cat(folded.nodes, " nodes"), dot_cost(folded.cost)}),
                ", shape=box3d];\n");
  }

  void write_node(NodeId id) {
    const Node& node = f_.nodes[id];
    std::vector<std::string> lines = {cat("%", node.first_result, " ", to_string(node.op))};
    if (shares_body(node.op)) lines[0] += " of " + node.body->name;
    if (row(node.op).repeats_body) lines.push_back(cat(ScanLayout(node).length, " times"));
    for (uint32_t r = 0; r < std::min<size_t>(node.results, kResultTypesMax); ++r)
      lines.push_back(type(node.first_result + r));
    if (node.results > kResultTypesMax)
      lines.push_back(cat("and ", node.results - kResultTypesMax, " more results"));
    lines.push_back(line_of(f_, id));
    out_ += cat(prefix_, "n", id, " [label=", dot_label(lines),
                node.region != 0 ? ", style=dashed" : "", "];\n");
  }

  void add_edges(NodeId id) {
    const Node& node = f_.nodes[id];
    if (!is_shown(id) || node.results == 0) return;
    for (const ValueId input : node.inputs) connect(input, box_of_[node.first_result]);
  }
  void connect(ValueId from, const std::string& to) {
    if (!box_of_[from].empty()) edges_.add(box_of_[from], to);
  }

  void draw_parameters() {
    std::vector<std::string> names;
    for (const Parameter& parameter : f_.parameters) names.push_back(parameter.name);
    for (const NameGroup& group : name_groups(names, kDotNamesMax)) {
      const auto first = static_cast<ValueId>(group.members[0]);
      const std::string box = cat(prefix_, "v", first);
      for (const size_t member : group.members) box_of_[member] = box;
      draw_names(box, group, type(first), "shape=ellipse");
    }
  }
  void draw_results() {
    for (const NameGroup& group : name_groups(f_.result_names, kDotNamesMax)) {
      const std::string box = cat(prefix_, "r", group.members[0]);
      draw_names(box, group, "", "shape=ellipse, style=bold");
      for (const size_t member : group.members) connect(f_.results[member], box);
    }
  }
  void draw_names(const std::string& box, const NameGroup& group, const std::string& type,
                  const char* style) {
    const size_t count = group.members.size();
    out_ += cat("  ", box,
                " [label=", dot_label({group.name, count == 1 ? type : cat(count, " values")}),
                ", ", style, "];\n");
  }

  std::string type(ValueId id) const {
    std::string text = to_string(f_.types[id]);
    if (!f_.shardings.empty()) text += " " + to_string(f_.mesh, f_.shardings[id]);
    return text;
  }

  const Function& f_;
  std::string prefix_;
  std::string& out_;
  std::vector<std::string> box_of_;  // Indexed by value; empty: left out.
  std::vector<Scopes> scopes_;       // Indexed by node.
  size_t depth_ = 0;                 // Scopes at this depth are boxes.
  std::map<Scopes, Folded> folded_;
  EdgeList edges_;
  int clusters_ = 0;
};

}  // namespace

std::string dot_cost(const Cost& cost) {
  return cat(format_count(cost.flops), cost.flops < 1000 ? " FLOP, " : "FLOP, ",
             format_bytes(static_cast<uint64_t>(cost.bytes)));
}

void write_function_dot(const Function& function, const std::string& prefix, std::string& out) {
  FunctionDot(function, prefix, out).run();
}

}  // namespace gangway::internal
