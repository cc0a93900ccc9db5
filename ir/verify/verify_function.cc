#include <algorithm>

#include "ir/graph/bodies.h"
#include "ir/types/limits.h"
#include "ir/verify/verify_internal.h"

namespace gangway::internal {
namespace {

// Around a location: passes copy them for each function that they make of a node.
constexpr int kScopesMax = 256;

class FunctionVerifier {
 public:
  FunctionVerifier(const Function& function, int depth, const Mistake& outer,
                   std::set<const Function*>& seen, Report& report)
      : f_(function), depth_(depth), outer_(outer), seen_(seen), report_(report) {}

  void run() {
    if (depth_ == 0 && !check_expansion()) return;
    if (!check_sizes()) return;  // Beyond the bounds nothing else is worth saying.
    check_header();
    check_locs();
    types_ok_ = check_types();
    check_nodes();
    check_results();
    check_parameters();
    check_shardings();
  }

 private:
  // A mistake of the whole function, of a value or of a node.
  void add(std::string message) { add(std::move(message), "", kNone); }
  void add(std::string message, const std::string& thing, NodeId node) {
    Mistake mistake = outer_;
    mistake.message =
        cat(message, "\n  in function ", shown(f_.name), thing.empty() ? "" : ", " + thing);
    if (!outer_.message.empty()) mistake.message += "\n  in " + outer_.message;
    if (node < f_.infos.size() && f_.infos[node].loc < f_.locs.size()) {
      const LocEntry& loc = f_.locs[f_.infos[node].loc];
      if (!loc.file.empty() && loc.line > 0) mistake.file = loc.file, mistake.line = loc.line;
    }
    report_.add(std::move(mistake));
  }
  void add_node(NodeId id, std::string message) {
    add(std::move(message), cat("value %", f_.nodes[id].first_result), id);
  }
  void add_value(ValueId id, std::string message) {
    add(std::move(message), cat("value %", id), producer(id));
  }

  NodeId producer(ValueId id) const {
    auto at = std::ranges::upper_bound(f_.nodes, id, {}, &Node::first_result);
    return at == f_.nodes.begin() ? kNone : static_cast<NodeId>(at - f_.nodes.begin() - 1);
  }

  // Passes follow a body from each node that names it, and a few bodies that name one another often
  // would keep them for ever.
  bool check_expansion() {
    BodySizes sizes;
    const BodySize size = sizes.of(f_);
    if (size.depth > kBodyDepthMax) {
      add(cat("function: bodies lie too deep in one another: expected at most ", kBodyDepthMax,
              ", got ", size.depth));
      return false;
    }
    if (size.nodes > kExpandedNodesMax) {
      add(cat("function: too many nodes: expected at most ", kExpandedNodesMax,
              " when each body counts as often as nodes name it, got ", size.nodes));
      return false;
    }
    return true;
  }

  bool check_sizes() {
    bool ok = true;
    auto bound = [&](const char* what, size_t got, size_t most) {
      if (got <= most) return;
      ok = false;
      add(cat("function: too many ", what, ": expected at most ", most, ", got ", got));
    };
    bound("nodes", f_.nodes.size(), kNodesMax);
    bound("values", f_.types.size(), kValuesMax);
    bound("parameters", f_.parameters.size(), kParametersMax);
    bound("results", f_.results.size(), kResultsMax);
    bound("locations", f_.locs.size(), kLocsMax);
    return ok;
  }

  void check_header() {
    if (auto wrong = name_mistake(f_.name, "function")) add(*wrong);
    if (auto wrong = mesh_mistake(f_.mesh)) add(*wrong), mesh_ok_ = false;
  }

  void check_locs() {
    std::vector<int> depths;  // Indexed by entry.
    for (uint32_t i = 0; i < f_.locs.size(); ++i) {
      const LocEntry& loc = f_.locs[i];
      if (loc.parent != kNone && loc.parent >= i) {
        add(cat("locations: entry ", i, " has parent ", loc.parent, ": expected a smaller one"));
      }
      depths.push_back(loc.parent < i ? depths[loc.parent] + 1 : 0);
      if (depths.back() == kScopesMax + 1) {
        add(cat("locations: entry ", i, " lies in too many others: expected at most ", kScopesMax));
      }
      if (loc.line < 0 || loc.file.size() > kNameBytesMax || loc.scope.size() > kNameBytesMax ||
          !is_utf8(loc.file) || !is_utf8(loc.scope)) {
        add(cat("locations: entry ", i, " is malformed: expected names of at most ", kNameBytesMax,
                " bytes of UTF-8 and a line that is not negative"));
      }
    }
    if (f_.infos.size() != f_.nodes.size()) {
      add(cat("function: expected one info for each of ", f_.nodes.size(), " nodes, got ",
              f_.infos.size()));
    }
    for (uint32_t i = 0; i < f_.infos.size(); ++i) {
      const NodeInfo& info = f_.infos[i];
      if (info.loc != kNone && info.loc >= f_.locs.size()) {
        add(cat("locations: node ", i, " refers to entry ", info.loc, " of ", f_.locs.size()));
      }
      if (info.reason > Reason::kDecompose) {
        add(cat("function: node ", i, " has the unknown reason ", static_cast<int>(info.reason)));
      }
    }
  }

  bool check_types() {
    size_t expected = f_.parameters.size();
    for (const Node& node : f_.nodes) expected += node.results;
    if (expected != f_.types.size()) {
      add(cat("function: parameters and nodes make ", expected, " values, but there are ",
              f_.types.size(), " types"));
      return false;
    }
    bool ok = true;
    for (ValueId id = 0; id < f_.types.size(); ++id) {
      if (auto wrong = type_mistake(f_.types[id])) add_value(id, *wrong), ok = false;
    }
    return ok && check_bytes();
  }

  // The bound applies to local functions: a device holds only parts of a global function's values.
  bool check_bytes() {
    if (!f_.local) return true;
    int64_t bytes = 0;
    for (const Type& type : f_.types) {
      bytes += type.bytes();
      if (bytes <= kLocalBytesMax) continue;
      add(cat("function: the values on a device are too large: expected at most ", kLocalBytesMax,
              " bytes in all"));
      return false;
    }
    return true;
  }

  void check_nodes() {
    size_t next = f_.parameters.size();
    for (NodeId id = 0; id < f_.nodes.size() && !report_.full(); ++id) {
      const Node& node = f_.nodes[id];
      if (static_cast<int>(node.op) >= kOpCount) {
        add_node(id, cat("unknown op ", static_cast<int>(node.op)));
      } else if (node.first_result != next) {
        add_node(id, cat(name(node), ": the first result is %", node.first_result, ": expected %",
                         next, ", the next number"));
      } else if (check_node(id, node) && types_ok_) {
        check_rule(id, node);
      }
      next += node.results;
    }
  }

  static std::string_view name(const Node& node) { return to_string(node.op); }

  // Checks that need no type rule; true when the rule may run.
  bool check_node(NodeId id, const Node& node) {
    size_t before = report_.count();
    if (node.inputs.size() > kInputsMax) {
      add_node(id, cat(name(node), ": too many operands: expected at most ", kInputsMax, ", got ",
                       node.inputs.size()));
      return false;
    }
    for (ValueId input : node.inputs) {
      if (input < node.first_result) continue;
      add_node(id, cat(name(node), ": operand %", input, " is not defined before this node",
                       input < f_.types.size() ? ": operands come first, so there are no cycles"
                                               : ": there is no such value"));
      return false;
    }
    if (auto wrong = attrs_mistake(node.attrs)) add_node(id, cat(name(node), ": ", *wrong));
    if (node.region > f_.nodes.size()) {
      add_node(id,
               cat(name(node), ": region ", node.region,
                   " is out of range: expected at most the number of nodes, ", f_.nodes.size()));
    }
    const bool takes_body = node.op == Op::fusion || shares_body(node.op);
    if (takes_body != (node.body != nullptr)) {
      add_node(id,
               cat(name(node), node.body ? ": it has a body, which only fusions, scans and calls do"
                                         : ": the body is missing"));
    }
    return report_.count() == before;
  }

  void check_rule(NodeId id, const Node& node) {
    if (node.body != nullptr && !check_body(id, node)) return;
    const std::vector<Type> inputs = input_types(f_, node);
    Attrs attrs = node.attrs;
    std::vector<Type> expected;
    try {
      expected = infer_types(node.op, inputs, attrs, node.body.get());
    } catch (const Error& error) {
      return add_node(id, error.message());
    }
    for (const auto& [key, value] : attrs) {
      if (node.attrs.find(key) == nullptr) {
        add_node(id, cat(name(node), ": attribute ", quote(key), " is missing"));
      }
    }
    compare(id, node, expected, inputs);
    if (row(node.op).family == OpFamily::kCollective && !f_.local)
      add_node(id, cat(name(node), ": only local functions have it: the partitioner makes it"));
    if (node.op == Op::scan && !f_.local && attrs.integer("ahead") + attrs.integer("next") > 0)
      add_node(id, cat(name(node), ": only local functions work ahead: the compiler arranges it"));
    if (!mesh_ok_) return;
    if (node.op == Op::constrain) check_constrain(id, inputs[0], attrs);
    if (row(node.op).family == OpFamily::kRandom) check_part(id, expected[0], attrs);
    if (row(node.op).family != OpFamily::kCollective) return;
    if (auto wrong = collective_mistake(f_.mesh, node)) add_node(id, cat(name(node), ": ", *wrong));
  }

  // Checks the mesh, which the op's rule does not know.
  void check_constrain(NodeId id, const Type& type, const Attrs& attrs) {
    const auto placements = parse_axis_placements(attrs.text("placements"));
    if (!placements) return;  // The op's rule has reported it.
    // Values inside a function may have padded parts.
    if (auto wrong = placements_mistake(type, f_.mesh, *placements, Cuts::kAny))
      add_node(id, cat("constrain: ", *wrong));
  }

  // A part that a device draws is that which its mesh and the whole's placements give.
  void check_part(NodeId id, const Type& part, const Attrs& attrs) {
    const std::string_view op = name(f_.nodes[id]);
    const auto placements = parse_axis_placements(attrs.text("placements"));
    if (!placements || placements->empty()) return;  // All of it, or the rule has said so.
    if (!f_.local)
      return add_node(id,
                      cat(op, ": only local functions draw a part: the partitioner says which"));
    const Type whole{part.dtype, attrs.ints("whole")};
    if (auto wrong = placements_mistake(whole, f_.mesh, *placements))
      return add_node(id, cat(op, ": ", *wrong));
    const Type expected = *local_type(whole, f_.mesh, resolve(f_.mesh, *placements));
    if (expected != part)
      add_node(
          id, cat(op, ": dims are not those of a part of ", spell(whole), " cut as ",
                  attrs.text("placements"), ": expected ", spell(expected), ", got ", spell(part)));
  }

  // True when the body has no mistakes of its own.
  bool check_body(NodeId id, const Node& node) {
    const Function& body = *node.body;
    Mistake at = outer_;
    at.message =
        cat("the body of ", name(node), " %", node.first_result, " of function ", shown(f_.name));
    size_t before = report_.count();
    if (!seen_.contains(&body)) {
      verify_function(body, depth_ + 1, at, seen_, report_);
      if (report_.count() == before) seen_.insert(&body);
    }
    if (body.mesh != f_.mesh || body.local != f_.local) {
      add_node(id, cat(name(node), ": the body is of another mesh than the function"));
    }
    const auto in_region = [](const Node& inner) { return inner.region != 0; };
    if (node.op == Op::fusion && std::ranges::any_of(body.nodes, in_region)) {
      add_node(id, "fusion: a node of the body is in a rematerialisation region");
    }
    if (node.op == Op::fusion && report_.count() == before) check_no_meeting(id, body);
    return report_.count() == before;
  }

  // A fusion is one step of a device, in which it can't wait for others. The body is valid.
  void check_no_meeting(NodeId id, const Function& body) {
    const Meeting met = first_meeting(body);
    if (met.function == nullptr) return;
    const Op op = met.function->nodes[met.node].op;
    add_node(id, cat("fusion: devices meet in the body, in ", quote(to_string(op)),
                     ": expected ops that each device does alone"));
  }

  void compare(NodeId id, const Node& node, const std::vector<Type>& expected,
               const std::vector<Type>& inputs) {
    if (expected.size() != node.results) {
      return add_node(
          id, cat(name(node), ": expected ", expected.size(), " results, got ", node.results));
    }
    for (uint32_t r = 0; r < node.results; ++r) {
      const Type& got = f_.types[node.first_result + r];
      if (got == expected[r]) continue;
      add(cat(name(node), ": result type differs: expected ", spell(expected[r]), " from operands ",
              spell(inputs), ", got ", spell(got)),
          cat("value %", node.first_result + r), id);
    }
  }

  void check_results() {
    if (f_.result_names.size() != f_.results.size()) {
      add(cat("function: expected a name for each of ", f_.results.size(), " results, got ",
              f_.result_names.size()));
    }
    std::set<std::string_view> names;
    for (const std::string& result : f_.result_names) {
      if (auto wrong = name_mistake(result, "result")) {
        add(*wrong);
      } else if (!names.insert(result).second) {
        add(cat("function: two results are called ", shown(result)));
      }
    }
    for (ValueId result : f_.results) {
      if (result < f_.types.size()) continue;
      add(cat("function: result %", result, " does not exist: there are ", f_.types.size(),
              " values"));
    }
  }

  Cuts cuts() const { return f_.local ? Cuts::kAny : Cuts::kExact; }

  void check_parameters() {
    for (ValueId id = 0; id < f_.parameters.size(); ++id) {
      const Parameter& parameter = f_.parameters[id];
      if (auto wrong = name_mistake(parameter.name, "parameter")) add_value(id, *wrong);
      if (!mesh_ok_ || !types_ok_) continue;
      if (auto wrong = placements_mistake(f_.types[id], f_.mesh, parameter.placements, cuts())) {
        add_value(id, cat("parameter ", shown(parameter.name), ": ", *wrong));
      }
      check_priorities(id, parameter);
    }
  }

  void check_priorities(ValueId id, const Parameter& parameter) {
    const std::vector<int>& priorities = parameter.priorities;
    if (priorities.empty()) return;
    const auto allowed = [](int priority) {
      return priority >= 0 && priority <= kAnnotationPriorityMax;
    };
    if (priorities.size() != parameter.placements.size()) {
      add_value(id, cat("parameter ", shown(parameter.name), ": expected a priority for each of ",
                        parameter.placements.size(), " placements, or none at all, got ",
                        priorities.size()));
    } else if (!std::ranges::all_of(priorities, allowed) || std::ranges::max(priorities) == 0) {
      add_value(id, cat("parameter ", shown(parameter.name), ": expected priorities from 0 to ",
                        kAnnotationPriorityMax, ", or none where all are 0"));
    }
  }

  void check_shardings() {
    if (f_.shardings.empty()) return;
    if (f_.shardings.size() != f_.types.size()) {
      return add(cat("function: expected a sharding for each of ", f_.types.size(),
                     " values, or none at all, got ", f_.shardings.size()));
    }
    if (!mesh_ok_ || !types_ok_) return;
    for (ValueId id = 0; id < f_.shardings.size() && !report_.full(); ++id) {
      auto wrong = sharding_mistake(f_.types[id], f_.mesh, f_.shardings[id], cuts());
      if (wrong) add_value(id, *wrong);
    }
    auto has_partial = [this](ValueId id) {
      return id < f_.shardings.size() && std::ranges::any_of(f_.shardings[id], is_partial);
    };
    for (ValueId id = 0; id < f_.parameters.size(); ++id) {
      if (has_partial(id)) add_value(id, "sharding: a parameter is never partial");
    }
    for (ValueId id : f_.results) {
      if (has_partial(id)) add_value(id, "sharding: a result of a function is never partial");
    }
  }

  const Function& f_;
  int depth_;
  const Mistake& outer_;  // Its message: what this function is the body of.
  std::set<const Function*>& seen_;
  Report& report_;
  bool mesh_ok_ = true;
  bool types_ok_ = true;
};

}  // namespace

void verify_function(const Function& function, int depth, const Mistake& outer,
                     std::set<const Function*>& seen, Report& report) {
  FunctionVerifier(function, depth, outer, seen, report).run();
}

}  // namespace gangway::internal
