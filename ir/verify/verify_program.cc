#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/types/limits.h"
#include "ir/verify/verify_internal.h"

namespace gangway {
namespace {

using internal::quote;
using internal::shown;
using internal::spell;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program) : p_(program) {}

  std::vector<Mistake> run() {
    if (!check_sizes()) return report_.take();
    if (auto wrong = internal::name_mistake(p_.name, "program")) add(*wrong);
    check_slices();
    check_functions();
    check_expansion();
    for (uint32_t id = 0; id < p_.nodes.size() && !report_.full(); ++id) check_node(id);
    check_plain_states();
    check_finite();
    return report_.take();
  }

 private:
  void add(std::string message) {
    report_.add({.message = cat(message, "\n  in program ", shown(p_.name))});
  }
  void add(uint32_t id, std::string message, ErrorKind kind = ErrorKind::kInvalid) {
    const ProgramNode& node = p_.nodes[id];
    report_.add({kind,
                 cat(to_string(node.kind), " ", shown(node.name), ": ", message, "\n  in program ",
                     shown(p_.name), ", node %", id),
                 internal::is_utf8(node.loc.file) ? node.loc.file : "", node.loc.line});
  }

  bool check_sizes() {
    bool ok = true;
    auto bound = [&](const char* what, size_t got, size_t most) {
      if (got <= most) return;
      ok = false;
      add(cat("program: too many ", what, ": expected at most ", most, ", got ", got));
    };
    bound("nodes", p_.nodes.size(), kNodesMax);
    bound("functions", p_.functions.size(), kFunctionsMax);
    bound("slices", p_.slices.size(), kSlicesMax);
    return ok;
  }

  void check_slices() {
    std::set<std::string_view> names;
    for (const ProgramSlice& slice : p_.slices) {
      if (auto wrong = internal::name_mistake(slice.name, "slice")) {
        add(*wrong);
      } else if (!names.insert(slice.name).second) {
        add(cat("program: two slices are called ", shown(slice.name)));
      }
      if (auto wrong = internal::mesh_mistake(slice.mesh)) {
        add(cat("slice ", shown(slice.name), ": ", *wrong));
        meshes_ok_ = false;
      }
    }
  }

  void check_functions() {
    std::set<const Function*> seen;
    std::set<std::string_view> names;
    for (const auto& function : p_.functions) {
      size_t before = report_.count();
      if (function == nullptr) {
        add("program: a function is missing");
      } else {
        internal::verify_function(*function, 0, {}, seen, report_);
        if (!names.insert(function->name).second) {
          add(cat("program: two functions are called ", shown(function->name)));
        }
        if (function->local) {
          add(cat("program: function ", shown(function->name),
                  " is local, already partitioned: expected a global one"));
        }
      }
      good_.push_back(report_.count() == before ? function.get() : nullptr);
    }
  }

  // Functions may share bodies, so that the message says little about their nodes.
  void check_expansion() {
    BodySizes sizes;
    size_t nodes = 0;
    for (const Function* function : good_) {
      if (function != nullptr) nodes += sizes.of(*function).nodes;
    }
    if (nodes > kExpandedNodesMax) {
      add(cat("program: its functions have too many nodes: expected at most ", kExpandedNodesMax,
              " when each body counts as often as nodes name it, got ", nodes));
    }
  }

  void check_node(uint32_t id) {
    const ProgramNode& node = p_.nodes[id];
    usable_.push_back(false);
    if (node.kind > NodeKind::kWhile) {
      return add(cat("program: node %", id, " is of unknown kind ", static_cast<int>(node.kind)));
    }
    if (node.kind == NodeKind::kIf || node.kind == NodeKind::kWhile) {
      return add(id, "this kind of node is reserved: this version cannot run it",
                 ErrorKind::kUnimplemented);
    }
    check_firing(id, node);
    if (!check_names(id, node) || !check_results(id, node) || !check_edges(id, node)) return;
    usable_.back() = check_kind(id, node);
    if (node.kind == NodeKind::kCall) check_updates(id, node);
  }

  void check_firing(uint32_t id, const ProgramNode& node) {
    if (node.firing == FiringRule{}) return;
    if (node.firing.kind > FiringKind::kBounded) {
      return add(id, cat("unknown firing rule ", static_cast<int>(node.firing.kind)));
    }
    add(id,
        cat("the firing rule \"", to_string(node.firing.kind),
            "\" is reserved for asynchronous training: expected \"all\""),
        ErrorKind::kUnimplemented);
  }

  bool check_names(uint32_t id, const ProgramNode& node) {
    if (auto wrong = internal::name_mistake(node.name, to_string(node.kind))) {
      add(id, *wrong);
      return false;
    }
    if (node.loc.file.size() > kNameBytesMax || node.loc.scope.size() > kNameBytesMax ||
        !internal::is_utf8(node.loc.file) || !internal::is_utf8(node.loc.scope) ||
        node.loc.line < 0) {
      add(cat("program: node %", id, " has a malformed location"));
    }
    bool unique = node.kind != NodeKind::kCall && node.kind != NodeKind::kTransfer;
    auto [at, is_new] = names_.try_emplace({node.kind, node.name}, id);
    if (unique && !is_new) {
      add(id, cat("the name is taken by node %", at->second,
                  ": names are unique among nodes of one kind"));
    }
    return true;
  }

  bool check_results(uint32_t id, const ProgramNode& node) {
    size_t before = report_.count();
    if (node.slice >= p_.slices.size()) {
      add(id, cat("slice ", node.slice, " does not exist: there are ", p_.slices.size()));
      return false;
    }
    if (node.types.size() > kResultsMax || node.types.size() != node.placements.size()) {
      add(id, cat("expected placements for each of ", node.types.size(), " results, got ",
                  node.placements.size()));
      return false;
    }
    if (auto wrong = internal::attrs_mistake(node.attrs)) add(id, *wrong);
    for (size_t r = 0; r < node.types.size() && meshes_ok_; ++r) {
      auto wrong = internal::type_mistake(node.types[r]);
      if (!wrong) {
        wrong = internal::placements_mistake(node.types[r], mesh(node), node.placements[r]);
      }
      if (wrong) add(id, node.types.size() == 1 ? *wrong : cat("result ", r, ": ", *wrong));
    }
    return report_.count() == before && meshes_ok_;
  }

  // True when every operand exists and comes from a node without mistakes, so that more can be
  // said.
  bool check_edges(uint32_t id, const ProgramNode& node) {
    bool usable = true;
    if (node.inputs.size() > kInputsMax) {
      add(id,
          cat("too many operands: expected at most ", kInputsMax, ", got ", node.inputs.size()));
      return false;
    }
    for (const Edge& edge : node.inputs) {
      if (edge.node >= id) {
        add(id, cat("operand %", edge.node, " is not defined before this node",
                    edge.node < p_.nodes.size() ? ": operands come first, so there are no cycles"
                                                : ": there is no such node"));
        usable = false;
      } else if (edge.result >= p_.nodes[edge.node].types.size()) {
        add(id, cat("operand %", edge.node, ".", edge.result, " does not exist: node %", edge.node,
                    " has ", p_.nodes[edge.node].types.size(), " results"));
        usable = false;
      } else if (edge.version != 0) {
        add(id,
            cat("operand %", edge.node, " is of ", edge.version,
                " runs back: versions of edges are reserved for asynchronous training"),
            ErrorKind::kUnimplemented);
      }
      usable = usable && usable_[edge.node];
    }
    return usable;
  }

  bool check_kind(uint32_t id, const ProgramNode& node) {
    size_t before = report_.count();
    bool has_function = node.kind == NodeKind::kState || node.kind == NodeKind::kCall;
    bool has_operand = node.kind == NodeKind::kTransfer || node.kind == NodeKind::kOutput;
    if (!has_function && node.function != kNone) add(id, "only states and calls have a function");
    if (node.kind != NodeKind::kCall && !node.updates.empty()) add(id, "only calls update states");
    if (node.kind != NodeKind::kSource && node.attrs.size() > 0) {
      add(id, "only sources have attributes");
    }
    if (node.kind != NodeKind::kState && node.stacked) add(id, "only states are stacked");
    if (node.kind != NodeKind::kCall) {
      expect_count(id, "operands", has_operand ? 1 : 0, node.inputs.size());
      expect_count(id, "results", 1, node.types.size());
    }
    if (has_function && (node.function >= p_.functions.size())) {
      add(id, node.function == kNone ? "the function is missing"
                                     : cat("function ", node.function, " does not exist"));
    }
    if (report_.count() != before) return false;
    const Function* function = has_function ? good_[node.function] : nullptr;
    if (has_function && function == nullptr) return false;  // Its own mistakes are reported.
    if (function != nullptr && function->mesh != mesh(node)) {
      add(id, cat("function ", shown(function->name), " is over mesh ", to_string(function->mesh),
                  ", but slice ", shown(p_.slices[node.slice].name), " is over ",
                  to_string(mesh(node))));
      return false;
    }
    if (node.kind == NodeKind::kState) check_state(id, node, *function);
    if (node.kind == NodeKind::kCall) check_call(id, node, *function);
    if (has_operand) check_operand(id, node);
    if (node.kind == NodeKind::kSource) check_source(id, node);
    return report_.count() == before;
  }

  void expect_count(uint32_t id, const char* what, size_t expected, size_t got) {
    if (got != expected) add(id, cat("expected ", expected, " ", what, ", got ", got));
  }

  void check_state(uint32_t id, const ProgramNode& node, const Function& init) {
    if (!init.parameters.empty() || init.results.size() != 1) {
      return add(id, cat("the initialiser ", shown(init.name),
                         " must have no parameters and one result: got ", init.parameters.size(),
                         " and ", init.results.size()));
    }
    if (const Type& made = init.types[init.results[0]]; made != node.types[0]) {
      add(id, cat("the initialiser ", shown(init.name), " makes ", spell(made), ": expected ",
                  spell(node.types[0])));
    }
    if (node.stacked) check_stacked(id, node);
  }

  void check_stacked(uint32_t id, const ProgramNode& node) {
    const StackedLayers& layers = *node.stacked;
    const Type& type = node.types[0];
    if (type.rank() == 0 || type.dims[0] != layers.count) {
      add(id, cat("stacks ", layers.count, " layers, one a row: got ", spell(type)));
    }
    if (layers.first < 0 || layers.first > kScanLengthMax || layers.count < 1 ||
        layers.count > kScanLengthMax) {
      return add(id, cat("layers ", layers.first, " and the following ", layers.count,
                         " can't be numbered: expected 1 to ", kScanLengthMax,
                         " of them, from at least 0 on"));
    }
    const auto components = std::ranges::count(node.name, '.') + 1;
    if (layers.name_tail >= components) {
      return add(id, cat("the numbers of layers can't stand in front of the last ",
                         layers.name_tail, " components of a name that has ", components));
    }
    const std::string last = layer_name(node.name, layers, layers.count - 1);
    if (auto wrong = internal::name_mistake(last, "layer")) return add(id, *wrong);
    check_numbers(id, node);
  }

  // Stacks whose layers differ only by their numbers, keyed by the first number of each. They share
  // no number.
  using Numbered = std::map<int64_t, uint32_t>;

  // Stacks of one base and tail have numbers of their own.
  void check_numbers(uint32_t id, const ProgramNode& node) {
    const StackedLayers& layers = *node.stacked;
    Numbered& others = numbered(node);
    const auto next = others.lower_bound(layers.first);
    if (next != others.end() && next->first < layers.first + layers.count)
      return add_twice(id, next->first, next->second);
    if (next != others.begin()) {
      const auto [first, before] = *std::prev(next);
      if (first + p_.nodes[before].stacked->count > layers.first)
        return add_twice(id, layers.first, before);
    }
    others.emplace_hint(next, layers.first, id);
  }

  // The text in front of the numbers and the text behind them identify a group of such stacks.
  Numbered& numbered(const ProgramNode& node) {
    const StackedLayers& layers = *node.stacked;
    size_t tail = node.name.size();
    for (uint32_t i = 0; i < layers.name_tail; ++i) tail = node.name.rfind('.', tail - 1);
    std::string front = layer_name(node.name, layers, 0);
    front.resize(front.size() - (node.name.size() - tail));
    front.resize(front.rfind('.'));
    return stacks_[front][node.name.substr(tail)];
  }

  void add_twice(uint32_t id, int64_t number, uint32_t other) {
    const ProgramNode& node = p_.nodes[id];
    add(id, cat("layer ", shown(layer_name(node.name, *node.stacked, number - node.stacked->first)),
                " lies in node %", other, " too: names of layers are unique"));
  }

  // No state of its own has the name of a layer: in files both would be one tensor.
  void check_plain_states() {
    if (stacks_.empty()) return;
    for (uint32_t id = 0; id < usable_.size() && !report_.full(); ++id) {
      const ProgramNode& node = p_.nodes[id];
      if (node.kind == NodeKind::kState && !node.stacked && usable_[id]) check_plain(id, node.name);
    }
  }

  void check_plain(uint32_t id, std::string_view name) {
    for (size_t dot = name.find('.'); dot != std::string_view::npos;) {
      const size_t end = std::min(name.find('.', dot + 1), name.size());
      const std::optional<int64_t> number = layer_number(name.substr(dot + 1, end - dot - 1));
      if (number) check_layer(id, name.substr(0, dot), *number, name.substr(end));
      dot = end == name.size() ? std::string_view::npos : end;
    }
  }

  // Parses a number in the form that layer_name() writes.
  static std::optional<int64_t> layer_number(std::string_view component) {
    constexpr size_t kDigitsMax = 8;  // Digits of numbers below 2 * kScanLengthMax.
    if (component.empty() || component.size() > kDigitsMax) return std::nullopt;
    if (component.size() > 1 && component[0] == '0') return std::nullopt;
    int64_t number = 0;
    for (const char c : component) {
      if (c < '0' || c > '9') return std::nullopt;
      number = number * 10 + (c - '0');
    }
    return number;
  }

  void check_layer(uint32_t id, std::string_view front, int64_t number, std::string_view tail) {
    const auto of_front = stacks_.find(front);
    if (of_front == stacks_.end()) return;
    const auto stacks = of_front->second.find(tail);
    if (stacks == of_front->second.end()) return;
    const auto behind = stacks->second.upper_bound(number);
    if (behind == stacks->second.begin()) return;
    const auto [first, stack] = *std::prev(behind);
    if (number >= first + p_.nodes[stack].stacked->count) return;
    add(id, cat("layer ", number - first, " of the stack ", shown(p_.nodes[stack].name), ", node %",
                stack, ", is called so too: names of states and layers are unique"));
  }

  void check_source(uint32_t id, const ProgramNode& node) {
    const AttrValue* kind = node.attrs.find("kind");
    if (kind == nullptr || kind_of(*kind) != AttrKind::kString) {
      add(id, "the attribute \"kind\", a string, is missing");
    }
  }

  void check_call(uint32_t id, const ProgramNode& node, const Function& function) {
    if (node.inputs.size() != function.parameters.size()) {
      add(id, cat("function ", shown(function.name), " has ", function.parameters.size(),
                  " parameters, got ", node.inputs.size(), " operands"));
    } else {
      for (uint32_t i = 0; i < node.inputs.size(); ++i) {
        const Parameter& parameter = function.parameters[i];
        check_edge(id, node.inputs[i], cat("parameter ", shown(parameter.name)), function.types[i],
                   parameter.placements);
      }
    }
    if (node.types.size() != function.results.size()) {
      return add(id, cat("function ", shown(function.name), " has ", function.results.size(),
                         " results, the call ", node.types.size()));
    }
    for (size_t r = 0; r < node.types.size(); ++r) {
      const Type& made = function.types[function.results[r]];
      if (made == node.types[r]) continue;
      add(id, cat("result ", shown(function.result_names[r]), " of function ", shown(function.name),
                  " is ", spell(made), ", the call says ", spell(node.types[r])));
    }
  }

  void check_operand(uint32_t id, const ProgramNode& node) {
    const Edge& edge = node.inputs[0];
    const ProgramNode& from = p_.nodes[edge.node];
    if (node.kind == NodeKind::kOutput) {
      return check_edge(id, edge, "the output", node.types[0], node.placements[0]);
    }
    if (from.slice == node.slice) {
      add(id, cat("the operand is on slice ", shown(p_.slices[node.slice].name), " already"));
    }
    if (from.types[edge.result] != node.types[0]) {
      add(id, cat("type differs: expected ", spell(from.types[edge.result]), " as node %",
                  edge.node, ", got ", spell(node.types[0])));
    }
  }

  // Slice, type and sharding at both ends.
  void check_edge(uint32_t id, const Edge& edge, const std::string& what, const Type& type,
                  const AxisPlacements& placements) {
    const ProgramNode& from = p_.nodes[edge.node];
    const ProgramNode& node = p_.nodes[id];
    std::string source = cat(to_string(from.kind), " ", shown(from.name));
    if (from.slice != node.slice) {
      return add(id, cat(what, ": ", source, " lies on slice ", shown(p_.slices[from.slice].name),
                         ", this node on ", shown(p_.slices[node.slice].name),
                         ": a transfer must stand between"));
    }
    if (from.types[edge.result] != type) {
      add(id, cat(what, ": type differs: expected ", spell(type), ", got ",
                  spell(from.types[edge.result]), " from ", source));
    }
    const Mesh& over = mesh(node);
    Sharding want = resolve(over, placements);
    Sharding got = resolve(over, from.placements[edge.result]);
    if (canonical(over, want) != canonical(over, got)) {
      add(id, cat(what, ": sharding differs: expected ", to_string(over, want), ", got ",
                  to_string(over, got), " from ", source));
    }
  }

  void check_updates(uint32_t id, const ProgramNode& node) {
    for (const StateUpdate& update : node.updates) {
      if (update.state >= id || p_.nodes[update.state].kind != NodeKind::kState) {
        add(id, cat("updates node %", update.state, ": expected a state defined before this node"));
        continue;
      }
      if (update.result >= node.types.size()) {
        add(id, cat("updates a state by result ", update.result, " of ", node.types.size()));
        continue;
      }
      const ProgramNode& state = p_.nodes[update.state];
      if (!updated_.insert(update.state).second) {
        add(id, cat("state ", shown(state.name), " is updated twice in one run"));
      }
      if (usable_[update.state]) check_update(id, node, update, state);
    }
  }

  void check_update(uint32_t id, const ProgramNode& node, const StateUpdate& update,
                    const ProgramNode& state) {
    if (state.slice != node.slice) {
      return add(id, cat("updates state ", shown(state.name), " of slice ",
                         shown(p_.slices[state.slice].name), " from slice ",
                         shown(p_.slices[node.slice].name)));
    }
    if (state.types[0] != node.types[update.result]) {
      add(id, cat("the update of state ", shown(state.name), " has another type: expected ",
                  spell(state.types[0]), ", got ", spell(node.types[update.result])));
    }
    Sharding want = resolve(mesh(node), state.placements[0]);
    Sharding got = resolve(mesh(node), node.placements[update.result]);
    if (canonical(mesh(node), want) != canonical(mesh(node), got)) {
      add(id, cat("the update of state ", shown(state.name), " has another sharding: expected ",
                  to_string(mesh(node), want), ", got ", to_string(mesh(node), got)));
    }
  }

  void check_finite() {
    if (p_.finite_output.empty()) return;
    uint32_t id = p_.find(NodeKind::kOutput, p_.finite_output);
    if (id == kNone) {
      return add(
          cat("program: there is no output ", shown(p_.finite_output), " that must be finite"));
    }
    const ProgramNode& node = p_.nodes[id];
    if (node.types.size() != 1 || !is_valid(node.types[0]) || !is_float(node.types[0].dtype) ||
        node.types[0].rank() != 0) {
      add(id, cat("must be finite, so expected a float scalar, got ", spell(node.types)));
    }
  }

  const Mesh& mesh(const ProgramNode& node) const { return p_.slices[node.slice].mesh; }

  const Program& p_;
  internal::Report report_;
  std::vector<const Function*> good_;  // Indexed by function; null if the function has mistakes.
  std::vector<bool> usable_;           // Indexed by node: free of mistakes so far.
  std::map<std::pair<NodeKind, std::string_view>, uint32_t> names_;
  // Indexed by the text in front of the layers' numbers, then by the text behind them.
  std::unordered_map<std::string, std::map<std::string, Numbered, std::less<>>, TextHash,
                     std::equal_to<>>
      stacks_;
  std::set<uint32_t> updated_;
  bool meshes_ok_ = true;
};

}  // namespace

std::vector<Mistake> verify(const Program& program) { return ProgramVerifier(program).run(); }

}  // namespace gangway
