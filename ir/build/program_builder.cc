#include "ir/build/program_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/build/initializer.h"
#include "ir/build/ops.h"
#include "ir/verify/verify_internal.h"
#include "ir/wire/wire.h"

namespace gangway {
namespace {

LocEntry entry(Loc loc) { return {.file = loc.file, .line = loc.line}; }

// Turns placements on the dimensions of one layer into placements on those of a stack of layers.
AxisPlacements on_stack(AxisPlacements placements) {
  for (auto& [axis, placement] : placements) {
    if (placement.kind == PlacementKind::kShard) ++placement.dim;
  }
  return placements;
}

// The inverse.
AxisPlacements of_layer(AxisPlacements placements) {
  for (auto& [axis, placement] : placements) {
    if (placement.kind == PlacementKind::kShard) --placement.dim;
  }
  return placements;
}

}  // namespace

struct ProgramBuilder::Impl {
  // A result of the implicit call: an output, or the new value of a state.
  struct Result {
    std::string name;
    Value value;
    AxisPlacements placements;
    uint32_t state = kNone;
    Loc loc;
  };

  Impl(std::string name, Mesh mesh, uint64_t program_seed) : seed(program_seed), main(name, mesh) {
    program.name = std::move(name);
    program.slices.push_back({"main", std::move(mesh)});
  }

  uint64_t seed;
  Builder main;
  Program program;
  bool is_built = false;
  std::vector<Edge> arguments;  // Operands of the implicit call, indexed by parameter.
  // Node of each state, input and source, by its value in `main`.
  std::map<ValueId, uint32_t> nodes_of_values;
  std::vector<Result> results;
  std::map<uint32_t, Loc> updates;  // Line that updates a state, by the state's node.
  std::vector<Edge> open;           // Results without placements yet.
  std::map<Hash128, uint32_t> initializers;
  std::map<uint32_t, StateSpec> specs;  // Indexed by node.
  std::vector<Mistake> mistakes;
  Loc first_loc;

  void mistake(std::string message, Loc loc) {
    mistakes.push_back({.message = cat(message, "\n  in program ", internal::shown(program.name)),
                        .file = loc.file,
                        .line = loc.line});
  }

  const Mesh& mesh(uint32_t slice) const {
    GW_REQUIRE(slice < program.slices.size(), "program ", internal::shown(program.name), ": slice ",
               slice, " does not exist: there are ", program.slices.size());
    return program.slices[slice].mesh;
  }

  // Placements that do not fit become a mistake, and none: tracing goes on, to find more mistakes.
  AxisPlacements checked(const std::string& what, const Type& type, uint32_t slice,
                         AxisPlacements placements, Loc loc) {
    if (!is_valid(type)) return placements;
    auto wrong = internal::placements_mistake(type, mesh(slice), placements);
    if (!wrong) return placements;
    mistake(cat(what, ": ", *wrong), loc);
    return {};
  }

  uint32_t append(ProgramNode node) {
    program.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(program.nodes.size() - 1);
  }

  // A node that begins a value: state, input or source.
  uint32_t begin(NodeKind kind, uint32_t slice, const std::string& name, const Type& type,
                 AxisPlacements placements, Loc loc) {
    std::string what = cat(to_string(kind), " ", internal::shown(name));
    return append({.kind = kind,
                   .name = name,
                   .slice = slice,
                   .types = {type},
                   .placements = {checked(what, type, slice, std::move(placements), loc)},
                   .loc = entry(loc)});
  }

  // The node as a parameter of the implicit call.
  Value argument(uint32_t id, Loc loc) {
    const ProgramNode& node = program.nodes[id];
    if (!first_loc.known()) first_loc = loc;
    arguments.push_back({.node = id});
    Value value = main.parameter(node.name, node.types[0], node.placements[0], loc);
    nodes_of_values.emplace(value.id(), id);
    return value;
  }

  // The node that the implicit call sees as this value; kNone for any other value.
  uint32_t node_of(Value value) const {
    const auto found = nodes_of_values.find(is_traced(value) ? value.id() : kNone);
    return found != nodes_of_values.end() ? found->second : kNone;
  }

  const AxisPlacements& placements_of(Value argument) const {
    return program.nodes[nodes_of_values.at(argument.id())].placements[0];
  }

  uint32_t add_function(std::shared_ptr<const Function> function) {
    for (uint32_t i = 0; i < program.functions.size(); ++i) {
      if (program.functions[i] == function) return i;
    }
    program.functions.push_back(std::move(function));
    return static_cast<uint32_t>(program.functions.size() - 1);
  }

  // States that begin alike (zeros of one type) share one function.
  uint32_t add_initializer(const std::string& state, const StateSpec& spec, uint32_t slice,
                           Loc loc) {
    Function function = trace_initializer(spec, state, seed, mesh(slice), loc);
    auto [at, is_new] = initializers.try_emplace(content_hash(function), 0);
    if (is_new) {
      function.name = cat("init.", initializers.size() - 1);
      at->second = add_function(std::make_shared<Function>(std::move(function)));
    }
    return at->second;
  }

  uint32_t add_state(uint32_t slice, const std::string& name, const StateSpec& spec,
                     AxisPlacements placements, Loc loc) {
    uint32_t function = add_initializer(name, spec, slice, loc);
    uint32_t id =
        begin(NodeKind::kState, slice, name, layer_type(spec), std::move(placements), loc);
    ProgramNode& node = program.nodes[id];
    node.function = function;
    if (spec.stacked) {
      node.stacked = spec.stacked;
      node.types[0] = spec.type;
      node.placements[0] = on_stack(std::move(node.placements[0]));
    }
    specs.emplace(id, spec);
    return id;
  }

  // Null where there is no such state.
  const StateSpec* spec_of(std::string_view name) const {
    const uint32_t node = program.find(NodeKind::kState, name);
    const auto found = specs.find(node);
    return found == specs.end() ? nullptr : &found->second;
  }

  // Whether a value holds the layers of the state of that name, one in each row; its element type
  // may be another. A value that has neither the state's dimensions nor those of one layer is a
  // mistake: rules for a layer have no meaning for it.
  bool is_stacked_as(const std::string& name, Value value, Loc loc) {
    const StateSpec* spec = spec_of(name);
    if (spec == nullptr || !spec->stacked || value.empty()) return false;
    const Dims& dims = value.type().dims;
    if (dims == spec->type.dims) return true;
    if (dims != layer_type(*spec).dims) {
      mistake(cat("shard_all: ", internal::shown(name), ": the state of that name stacks layers: ",
                  "expected ", to_string(spec->type.dims), ", or of one layer ",
                  to_string(layer_type(*spec).dims), ", got ", internal::spell(value.type())),
              loc);
    }
    return false;
  }

  bool is_traced(Value value) const { return !value.empty() && &value.builder() == &main; }

  void add_main_call() {
    if (arguments.empty() && results.empty()) return;
    ProgramNode call{.kind = NodeKind::kCall, .name = "main", .inputs = std::move(arguments)};
    call.loc = entry(first_loc);
    uint32_t id = static_cast<uint32_t>(program.nodes.size());
    std::vector<ProgramNode> outputs;
    for (uint32_t r = 0; r < results.size(); ++r) {
      Result& result = results[r];
      const Type& type = result.value.type();
      call.types.push_back(type);
      call.placements.push_back(result.placements);
      if (result.state != kNone) {
        call.updates.push_back({r, result.state});
        main.result(result.name + "'", result.value, result.loc);
        continue;
      }
      main.result(result.name, result.value, result.loc);
      outputs.push_back({.kind = NodeKind::kOutput,
                         .name = result.name,
                         .inputs = {{.node = id, .result = r}},
                         .types = {type},
                         .placements = {result.placements},
                         .loc = entry(result.loc)});
    }
    program.functions.push_back(std::make_shared<Function>(main.build()));
    call.function = static_cast<uint32_t>(program.functions.size() - 1);
    append(std::move(call));
    for (ProgramNode& output : outputs) append(std::move(output));
  }

  void update(Value state, Value next, Loc loc);

  // Results of explicit calls and transfers lie as their first reader wants them.
  void settle_placements();
};

namespace {

// A propagated sharding, as users write it.
AxisPlacements by_name(const Mesh& mesh, const Sharding& sharding) {
  AxisPlacements out;
  for (size_t i = 0; i < sharding.size(); ++i) {
    if (sharding[i] != replicate()) out.emplace_back(mesh.axes[i].name, sharding[i]);
  }
  return out;
}

// Placements that a transfer can keep: those whose axis exists over there and cuts evenly.
AxisPlacements kept(const Type& type, const Mesh& mesh, const AxisPlacements& placements) {
  AxisPlacements out;
  for (const auto& item : placements) {
    out.push_back(item);
    if (internal::placements_mistake(type, mesh, out)) out.pop_back();
  }
  return out;
}

// Finds the rules that match a name, and records which rules ever matched.
class RuleMatcher {
 public:
  struct Said {
    AxisPlacements placements;
    std::vector<int> priorities;  // One for each placement.
  };

  explicit RuleMatcher(const std::vector<PlacementRule>& rules)
      : rules_(rules), used_(rules.size(), false) {}

  // The first of each priority.
  std::vector<const PlacementRule*> matching(std::string_view name) {
    std::vector<const PlacementRule*> found;
    for (size_t i = 0; i < rules_.size(); ++i) {
      if (!matches(rules_[i].pattern, name)) continue;
      used_[i] = true;
      const bool is_first = std::ranges::none_of(
          found, [&](const PlacementRule* other) { return other->priority == rules_[i].priority; });
      if (is_first) found.push_back(&rules_[i]);
    }
    return found;
  }

  Said of(std::string_view name) {
    Said said;
    for (const PlacementRule* rule : matching(name)) {
      for (const auto& item : rule->placements) {
        said.placements.push_back(item);
        said.priorities.push_back(rule->priority);
      }
    }
    return said;
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> patterns;
    for (size_t i = 0; i < rules_.size(); ++i) {
      if (!used_[i]) patterns.push_back(rules_[i].pattern);
    }
    return patterns;
  }

 private:
  const std::vector<PlacementRule>& rules_;
  std::vector<bool> used_;
};

bool take(std::vector<Edge>& open, const Edge& edge) { return std::erase(open, edge) > 0; }

}  // namespace

void ProgramBuilder::Impl::settle_placements() {
  auto want = [this](const Edge& edge, const AxisPlacements& placements) {
    if (take(open, edge)) program.nodes[edge.node].placements[edge.result] = placements;
  };
  for (uint32_t id = 0; id < program.nodes.size(); ++id) {
    const ProgramNode& node = program.nodes[id];
    if (node.kind != NodeKind::kCall) continue;
    const auto& parameters = program.functions[node.function]->parameters;
    for (size_t i = 0; i < node.inputs.size() && i < parameters.size(); ++i) {
      want(node.inputs[i], parameters[i].placements);
    }
    for (const StateUpdate& update : node.updates) {
      if (update.state >= program.nodes.size()) continue;
      want({.node = id, .result = update.result}, program.nodes[update.state].placements[0]);
    }
  }
  for (uint32_t id = 0; id < program.nodes.size(); ++id) {
    ProgramNode& node = program.nodes[id];
    if (node.inputs.empty() || node.slice >= program.slices.size()) continue;
    const Edge& edge = node.inputs[0];
    if (edge.node >= id || edge.result >= program.nodes[edge.node].types.size()) continue;
    bool follows = node.kind == NodeKind::kTransfer && take(open, {.node = id});
    if (!follows && node.kind != NodeKind::kOutput) continue;
    const AxisPlacements& from = program.nodes[edge.node].placements[edge.result];
    node.placements[0] = kept(node.types[0], mesh(node.slice), from);
  }
}

void ProgramBuilder::Impl::update(Value state, Value next, Loc loc) {
  const uint32_t node = node_of(state);
  if (node == kNone || program.nodes[node].kind != NodeKind::kState) {
    return mistake("update: the first argument is not a state: expected what state() gave", loc);
  }
  const ProgramNode& target = program.nodes[node];
  std::string what = cat("update of state ", internal::shown(target.name));
  if (!is_traced(next)) {
    return mistake(cat(what, ": the new value is not of this program"), loc);
  }
  if (next.type() != target.types[0]) {
    return mistake(cat(what, ": type differs: expected ", internal::spell(target.types[0]),
                       ", got ", internal::spell(next.type())),
                   loc);
  }
  const auto [before, is_first] = updates.try_emplace(node, loc);
  if (!is_first)
    return mistake(cat(what, ": it is updated already at ", to_string(before->second)), loc);
  results.push_back({target.name, next, target.placements[0], node, loc});
}

ProgramBuilder::ProgramBuilder(std::string name, Mesh mesh, uint64_t seed)
    : impl_(std::make_unique<Impl>(std::move(name), std::move(mesh), seed)) {}
ProgramBuilder::~ProgramBuilder() = default;

Builder& ProgramBuilder::builder() { return impl_->main; }

Value ProgramBuilder::state(const std::string& name, const StateSpec& spec,
                            AxisPlacements placements, Loc loc) {
  return impl_->argument(impl_->add_state(0, name, spec, std::move(placements), loc), loc);
}

Tree ProgramBuilder::state(const std::string& name, const StateTree& specs,
                           const std::vector<PlacementRule>& rules, Loc loc) {
  RuleMatcher matcher(rules);
  Tree values = specs.map(
      [&](const std::string& full_name, const StateSpec& spec) {
        auto said = matcher.of(full_name);
        Value value = state(full_name, spec, said.placements, loc);
        // Placements that did not fit are a mistake already, and left out.
        if (impl_->placements_of(value).size() == said.placements.size())
          impl_->main.set_priorities(value, std::move(said.priorities), loc);
        return value;
      },
      name);
  for (const std::string& pattern : matcher.unused()) {
    impl_->mistake(
        cat("state ", internal::shown(name), ": the placement rule ", internal::shown(pattern),
            " matches no state: it would leave them replicated"),
        loc);
  }
  return values;
}

std::vector<PlacementRule> ProgramBuilder::like(Value state) const {
  const uint32_t node = impl_->node_of(state);
  GW_REQUIRE(node != kNone,
             "like: expected what state(), input() or source() of this program gave");
  const auto at = std::ranges::find(impl_->arguments, node, &Edge::node);
  const Parameter& said =
      impl_->main.function().parameters[static_cast<size_t>(at - impl_->arguments.begin())];
  const bool is_stacked = impl_->program.nodes[node].stacked.has_value();
  const AxisPlacements placements = is_stacked ? of_layer(said.placements) : said.placements;
  std::vector<PlacementRule> rules;
  for (size_t i = 0; i < placements.size(); ++i) {
    const int priority = said.priorities.empty() ? 0 : said.priorities[i];
    auto same = std::ranges::find(rules, priority, &PlacementRule::priority);
    if (same == rules.end()) same = rules.insert(rules.end(), {"*", {}, priority});
    same->placements.push_back(placements[i]);
  }
  return rules;
}

const StateSpec& ProgramBuilder::spec_of(Value state) const {
  const auto found = impl_->specs.find(impl_->node_of(state));
  GW_REQUIRE(found != impl_->specs.end(), "program ", internal::shown(impl_->program.name),
             ": this is not a state: expected what state() gave");
  return found->second;
}

std::string ProgramBuilder::name_of(Value state) const {
  spec_of(state);  // It is one.
  return impl_->program.nodes[impl_->node_of(state)].name;
}

Value ProgramBuilder::shard(Value value, const AxisPlacements& placements, int priority, Loc loc) {
  return impl_->main.shard(value, placements, priority, loc);
}

Tree ProgramBuilder::shard_all(const std::string& name, const Tree& values,
                               const std::vector<PlacementRule>& rules, Loc loc) {
  RuleMatcher matcher(rules);
  Tree placed = values.map(
      [&](const std::string& full_name, Value value) {
        std::vector<const PlacementRule*> said = matcher.matching(full_name);
        std::erase_if(said, [](const PlacementRule* rule) { return rule->placements.empty(); });
        const bool is_stacked = !said.empty() && impl_->is_stacked_as(full_name, value, loc);
        for (const PlacementRule* rule : said) {
          value = value.builder().shard(value,
                                        is_stacked ? on_stack(rule->placements) : rule->placements,
                                        rule->priority, loc);
        }
        return value;
      },
      name);
  for (const std::string& pattern : matcher.unused()) {
    impl_->mistake(cat("shard_all: ", internal::shown(name), ": the placement rule ",
                       internal::shown(pattern), " matches no value"),
                   loc);
  }
  return placed;
}

Value ProgramBuilder::input(const std::string& name, Type type, AxisPlacements placements,
                            Loc loc) {
  return impl_->argument(impl_->begin(NodeKind::kInput, 0, name, type, std::move(placements), loc),
                         loc);
}

Value ProgramBuilder::source(const std::string& name, SourceSpec spec, Type type,
                             AxisPlacements placements, Loc loc) {
  uint32_t id = impl_->begin(NodeKind::kSource, 0, name, type, std::move(placements), loc);
  spec.attrs.set("kind", std::move(spec.kind));
  impl_->program.nodes[id].attrs = std::move(spec.attrs);
  return impl_->argument(id, loc);
}

void ProgramBuilder::update(const Tree& states, const Tree& next, Loc loc) {
  std::map<std::string, Value> values;
  next.for_each([&](const std::string& name, Value value) { values.emplace(name, value); });
  states.for_each([&](const std::string& name, Value state) {
    auto at = values.find(name);
    if (at == values.end()) {
      return impl_->mistake(cat("update: no new value for ", internal::shown(name)), loc);
    }
    impl_->update(state, at->second, loc);
    values.erase(at);
  });
  for (const auto& [name, value] : values) {
    impl_->mistake(cat("update: there is no state ", internal::shown(name), " in this tree"), loc);
  }
}

void ProgramBuilder::output(const std::string& name, Value value, AxisPlacements placements,
                            Loc loc) {
  std::string what = cat("output ", internal::shown(name));
  if (!impl_->is_traced(value)) {
    return impl_->mistake(cat(what, ": the value is not of this program"), loc);
  }
  if (!impl_->first_loc.known()) impl_->first_loc = loc;
  placements = impl_->checked(what, value.type(), 0, std::move(placements), loc);
  impl_->results.push_back({name, value, std::move(placements), kNone, loc});
}

void ProgramBuilder::require_finite(const std::string& output) {
  impl_->program.finite_output = output;
}

void ProgramBuilder::numerics(const Numerics& chosen) { impl_->program.numerics = chosen; }

uint32_t ProgramBuilder::slice(const std::string& name, Mesh mesh) {
  impl_->program.slices.push_back({name, std::move(mesh)});
  return static_cast<uint32_t>(impl_->program.slices.size() - 1);
}

ProgramValue ProgramBuilder::input_on(uint32_t slice, const std::string& name, Type type,
                                      AxisPlacements placements, Loc loc) {
  return {{.node = impl_->begin(NodeKind::kInput, slice, name, type, std::move(placements), loc)},
          type};
}

ProgramValue ProgramBuilder::state_on(uint32_t slice, const std::string& name,
                                      const StateSpec& spec, AxisPlacements placements, Loc loc) {
  return {{.node = impl_->add_state(slice, name, spec, std::move(placements), loc)}, spec.type};
}

std::vector<ProgramValue> ProgramBuilder::call(uint32_t slice, const std::string& name,
                                               std::shared_ptr<const Function> function,
                                               const std::vector<ProgramValue>& arguments,
                                               const std::vector<StateUpdate>& updates, Loc loc) {
  GW_REQUIRE(function != nullptr, "call ", internal::shown(name), ": the function is missing");
  require_valid(*function);
  ProgramNode node{.kind = NodeKind::kCall, .name = name, .slice = slice, .updates = updates};
  node.loc = entry(loc);
  for (const ProgramValue& argument : arguments) node.inputs.push_back(argument.edge);
  std::vector<ProgramValue> results;
  uint32_t id = static_cast<uint32_t>(impl_->program.nodes.size());
  for (uint32_t r = 0; r < function->results.size(); ++r) {
    const Type& type = function->types[function->results[r]];
    node.types.push_back(type);
    node.placements.emplace_back();
    results.push_back({{.node = id, .result = r}, type});
    if (function->shardings.empty()) {
      impl_->open.push_back(results.back().edge);
    } else {
      node.placements.back() = by_name(function->mesh, function->shardings[function->results[r]]);
    }
  }
  node.function = impl_->add_function(std::move(function));
  impl_->append(std::move(node));
  return results;
}

ProgramValue ProgramBuilder::transfer(ProgramValue value, uint32_t to_slice, Loc loc) {
  const auto& nodes = impl_->program.nodes;
  GW_REQUIRE(value.edge.node < nodes.size(), "transfer: the value is not of this program");
  uint32_t id = impl_->append({.kind = NodeKind::kTransfer,
                               .name = nodes[value.edge.node].name,
                               .slice = to_slice,
                               .inputs = {value.edge},
                               .types = {value.type},
                               .placements = {{}},
                               .loc = entry(loc)});
  impl_->open.push_back({.node = id});
  return {{.node = id}, value.type};
}

void ProgramBuilder::output_of(const std::string& name, ProgramValue value, Loc loc) {
  const auto& nodes = impl_->program.nodes;
  GW_REQUIRE(value.edge.node < nodes.size(), "output ", internal::shown(name),
             ": the value is not of this program");
  impl_->append({.kind = NodeKind::kOutput,
                 .name = name,
                 .slice = nodes[value.edge.node].slice,
                 .inputs = {value.edge},
                 .types = {value.type},
                 .placements = {{}},
                 .loc = entry(loc)});
}

Program ProgramBuilder::build() {
  Impl& impl = *impl_;
  GW_REQUIRE(!std::exchange(impl.is_built, true),
             "program builder: build() was called before: expected a builder for each program; "
             "copy the program that it returned");
  impl.settle_placements();
  impl.add_main_call();
  std::vector<Mistake> mistakes = verify(impl.program);
  mistakes.insert(mistakes.begin(), impl.mistakes.begin(), impl.mistakes.end());
  sort_by_line(mistakes);
  if (!mistakes.empty()) throw to_error(mistakes, "program " + internal::shown(impl.program.name));
  return std::move(impl.program);
}

}  // namespace gangway
