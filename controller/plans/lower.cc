#include "controller/plans/lower.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "ir/graph/node_count.h"
#include "ir/plan/axis_links.h"
#include "ir/plan/sequential.h"
#include "ir/transforms/passes.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Placements that leave nothing open: propagation must give what the program's edges agreed on.
AxisPlacements closed(const Mesh& mesh, const AxisPlacements& placements) {
  AxisPlacements all = placements;
  for (const MeshAxis& axis : mesh.axes) {
    const bool named = std::any_of(placements.begin(), placements.end(),
                                   [&](const auto& item) { return item.first == axis.name; });
    if (!named) all.emplace_back(axis.name, replicate());
  }
  return all;
}

class ProgramLowering {
 public:
  ProgramLowering(const Program& program, const LowerOptions& options, CompileCache& cache)
      : program_(program),
        kinds_(options.kinds),
        on_progress_(options.on_progress),
        on_record_(options.on_record),
        records_passes_(options.records_passes),
        cache_(cache),
        values_(program.nodes.size()),
        is_read_(program.nodes.size()) {
    plan_.name = program.name;
    plan_.hosts = options.hosts;
    plan_.islands = options.islands;
    plan_.machines = options.machines;
    plan_.runs_in_flight_max = options.runs_in_flight_max;
    plan_.dispatch = options.dispatch;
    plan_.overlaid = options.overlaid;
    GW_ASSERT(options.slices.size() == program.slices.size());
    GW_ASSERT(kinds_.empty() || kinds_.size() == program.slices.size());
    GW_ASSERT(options.ranks_per_device.empty() ||
              options.ranks_per_device.size() == program.slices.size());
    for (size_t i = 0; i < program.slices.size(); ++i) {
      plan_.slices.push_back({program.slices[i].mesh, options.slices[i],
                              options.ranks_per_device.empty() ? 1 : options.ranks_per_device[i]});
      links_.push_back(axis_links(plan_, plan_.slices.back()));
      // Where all axes are alike the slice shares what was compiled for any other such slice.
      if (std::ranges::adjacent_find(links_.back(), std::not_equal_to{}) == links_.back().end())
        links_.back().clear();
    }
  }

  Plan run() && {
    note_readers();
    for (const ProgramNode& named : program_.nodes) nodes_to_compile_ += nodes_of(named);
    for (uint32_t id = 0; id < program_.nodes.size(); ++id) lower(id);
    add_commits();
    plan_.overlaid = plan_.overlaid && !is_sequential(plan_);
    return std::move(plan_);
  }

 private:
  const ProgramNode& node(uint32_t id) const { return program_.nodes[id]; }
  const Mesh& mesh(const ProgramNode& node) const { return program_.slices[node.slice].mesh; }

  static std::string at(const ProgramNode& node) {
    return node.loc.line > 0
               ? cat(node.loc.file.substr(node.loc.file.rfind('/') + 1), ":", node.loc.line)
               : std::string();
  }

  [[noreturn]] void fail(const ProgramNode& node, ErrorKind kind, std::string message,
                         std::string hint = {}) const {
    throw Error(kind, cat(to_string(node.kind), " \"", node.name, "\": ", message),
                {.program = program_.name, .node = node.name, .at = at(node)}, std::move(hint));
  }

  uint32_t add_value(const ProgramNode& from, uint32_t result, PlanStorage storage,
                     std::string name) {
    PlanValue value{.name = std::move(name),
                    .storage = storage,
                    .slice = from.slice,
                    .type = from.types[result],
                    .sharding = resolve(mesh(from), from.placements[result])};
    if (!cuts_evenly(value.type, mesh(from), value.sharding)) {
      fail(from, ErrorKind::kInvalid,
           cat(to_string(value.type), " can't be cut as ", to_string(mesh(from), value.sharding),
               " over ", to_string(mesh(from))));
    }
    value.local_type = local_type(value.type, mesh(from), value.sharding).value();
    bytes_ += value.local_type.bytes();
    if (bytes_ > kLocalBytesMax) {
      fail(from, ErrorKind::kInvalid,
           cat("the values up to this one are too large: expected at most ", kLocalBytesMax,
               " bytes on each device"));
    }
    plan_.values.push_back(std::move(value));
    return static_cast<uint32_t>(plan_.values.size() - 1);
  }

  void place(PlanValue& value, const ProgramNode& from, const Sharding& sharding) const {
    value.sharding = sharding;
    value.local_type = local_type(value.type, mesh(from), sharding).value();
  }

  uint32_t value_of(const Edge& edge) const { return values_[edge.node][edge.result]; }

  void lower(uint32_t id) {
    const ProgramNode& from = node(id);
    switch (from.kind) {
      case NodeKind::kState: return lower_state(id);
      case NodeKind::kInput:
        values_[id] = {add_value(from, 0, PlanStorage::kInput, from.name)};
        plan_.inputs.push_back(values_[id][0]);
        return;
      case NodeKind::kSource:
        values_[id] = {add_value(from, 0, PlanStorage::kTemporary, from.name)};
        plan_.sources.push_back(static_cast<uint32_t>(plan_.nodes.size()));
        plan_.nodes.push_back({.kind = PlanNodeKind::kSource,
                               .name = from.name,
                               .slice = from.slice,
                               .results = values_[id],
                               .attrs = from.attrs,
                               .at = at(from)});
        return;
      case NodeKind::kCall: return lower_call(id);
      case NodeKind::kTransfer: return lower_transfer(id);
      case NodeKind::kOutput: return lower_output(from);
      case NodeKind::kIf:
      case NodeKind::kWhile: break;
    }
    fail(from, ErrorKind::kUnimplemented, "this version runs no control nodes");
  }

  void lower_state(uint32_t id) {
    const ProgramNode& from = node(id);
    values_[id] = {add_value(from, 0, PlanStorage::kState, from.name)};
    const auto init = compile(from, {.result_placements = {from.placements[0]}, .alone = true});
    plan_.states.push_back({values_[id][0], init->local.function});
  }

  size_t nodes_of(const ProgramNode& named) const {
    if (named.function == kNone) return 0;
    NodeCount count;
    count.add(*program_.functions[named.function]);
    return count.nodes();
  }

  std::shared_ptr<const Compiled> compile(const ProgramNode& from, CallContext context) {
    for (size_t r = 0; r < context.result_placements.size(); ++r) {
      AxisPlacements& placements = context.result_placements[r];
      if (!is_open(from, r)) placements = closed(mesh(from), placements);
    }
    try {
      const Function& function = *program_.functions[from.function];
      const size_t nodes = nodes_of(from);
      size_t begun = 0;
      const PassWatch watch = [&](std::string_view pass) {
        if (!on_progress_) return;
        const size_t done = nodes * begun++ / passes().size();
        on_progress_({function.name, pass, nodes_compiled_ + done, nodes_to_compile_});
      };
      auto compiled = on_record_ && from.kind == NodeKind::kCall
                          ? recorded(from, context, watch)
                          : cache_.compile(function, context, watch);
      nodes_compiled_ += nodes;
      return compiled;
    } catch (Error& error) {
      error.add_where({.program = program_.name, .node = from.name, .at = at(from)});
      throw;
    }
  }

  std::shared_ptr<const Compiled> recorded(const ProgramNode& call, const CallContext& context,
                                           const PassWatch& watch) {
    CompileRecord record{.keeps_passes = records_passes_};
    auto compiled = std::make_shared<const Compiled>(
        compile_function(*program_.functions[call.function], context, watch, &record));
    on_record_(static_cast<uint32_t>(&call - program_.nodes.data()), std::move(record));
    return compiled;
  }

  void note_readers() {
    for (uint32_t id = 0; id < program_.nodes.size(); ++id)
      is_read_[id].assign(node(id).types.size(), false);
    for (const ProgramNode& reader : program_.nodes) {
      if (reader.kind == NodeKind::kOutput) continue;
      for (const Edge& edge : reader.inputs) is_read_[edge.node][edge.result] = true;
    }
  }

  // A result that nobody placed and that only outputs read stays as propagation leaves it.
  bool is_open(const ProgramNode& from, size_t result) const {
    const auto id = static_cast<size_t>(&from - program_.nodes.data());
    return from.kind == NodeKind::kCall && from.placements[result].empty() && !is_read_[id][result];
  }

  // The update of a state is in place: its new value takes the buffer that the call read it from.
  std::vector<LocalFunction::InPlace> in_place(const ProgramNode& call) const {
    std::vector<LocalFunction::InPlace> pairs;
    std::map<uint32_t, uint32_t> parameters;  // The first one that reads each node.
    for (uint32_t i = 0; i < call.inputs.size(); ++i) parameters.emplace(call.inputs[i].node, i);
    for (const StateUpdate& update : call.updates) {
      const auto reads = parameters.find(update.state);
      if (reads == parameters.end()) {
        fail(call, ErrorKind::kUnimplemented,
             cat("updates state \"", node(update.state).name, "\" without reading it"),
             "pass the state to the call as a parameter");
      }
      pairs.push_back({reads->second, update.result});
    }
    return pairs;
  }

  uint32_t finite_result(uint32_t id) const {
    if (program_.finite_output.empty()) return kNone;
    const uint32_t output = program_.find(NodeKind::kOutput, program_.finite_output);
    const Edge& edge = node(output).inputs[0];
    return edge.node == id ? edge.result : kNone;
  }

  void lower_call(uint32_t id) {
    const ProgramNode& from = node(id);
    CallContext context{.in_place = in_place(from),
                        .finite_result = finite_result(id),
                        .result_placements = from.placements,
                        .links = links_[from.slice]};
    if (!kinds_.empty()) context.device_kind = kinds_[from.slice];
    const auto compiled = compile(from, context);
    PlanNode call{.name = from.name, .slice = from.slice, .at = at(from)};
    call.function = add_function(compiled->local);
    for (const Edge& edge : from.inputs) call.inputs.emplace_back(value_of(edge));
    for (uint32_t r = 0; r < from.types.size(); ++r) {
      call.results.push_back(add_value(from, r, PlanStorage::kTemporary, {}));
      if (is_open(from, r)) place(plan_.values.back(), from, compiled->result_shardings[r]);
    }
    values_[id] = call.results;
    for (const auto& pair : context.in_place) {
      call.results[pair.result] = call.inputs[pair.parameter].value;
      updated_.emplace(id, pair.result);
    }
    drop_last_values_of(from, values_[id], call.results);
    if (!context.in_place.empty()) {
      commits_.push_back(static_cast<uint32_t>(plan_.nodes.size()));
    }
    if (context.finite_result != kNone) guarded_.push_back(call.results[context.finite_result]);
    plan_.nodes.push_back(std::move(call));
  }

  // In-place results need no value of their own: removes those that add_value() added for them.
  void drop_last_values_of(const ProgramNode& from, std::vector<uint32_t>& own,
                           std::vector<uint32_t>& results) {
    const uint32_t first = static_cast<uint32_t>(plan_.values.size() - from.types.size());
    uint32_t kept = first;
    for (size_t r = 0; r < results.size(); ++r) {
      if (results[r] < first) {
        own[r] = results[r];
        continue;
      }
      if (kept != results[r]) plan_.values[kept] = std::move(plan_.values[results[r]]);
      own[r] = results[r] = kept++;
    }
    plan_.values.resize(kept);
  }

  uint32_t add_function(const LocalFunction& local) {
    const auto next = static_cast<uint32_t>(plan_.functions.size());
    const auto [at, is_new] = functions_.try_emplace(local.function.get(), next);
    if (!is_new) return at->second;
    plan_.functions.push_back(local);
    plan_.functions.back().numerics = program_.numerics;
    return at->second;
  }

  // The new value of a state exists only after the commit, so no other node of the run reads it.
  void require_not_updated(const ProgramNode& reader, const Edge& edge) const {
    if (!updated_.contains({edge.node, edge.result})) return;
    fail(reader, ErrorKind::kUnimplemented,
         "reads the new value of a state in the run that makes it",
         "read the state in the next run, or make the value a second result of the call");
  }

  void lower_transfer(uint32_t id) {
    const ProgramNode& from = node(id);
    require_not_updated(from, from.inputs[0]);
    values_[id] = {add_value(from, 0, PlanStorage::kTemporary, {})};
    const PlanValue& sent = plan_.values[value_of(from.inputs[0])];
    const PlanValue& received = plan_.values[values_[id][0]];
    const Mesh& mesh_sent = plan_.slices[sent.slice].mesh;
    const bool moves_parts = mesh(from) == mesh_sent && canonical(mesh_sent, sent.sharding) !=
                                                            canonical(mesh_sent, received.sharding);
    if (moves_parts || sent.local_type != received.local_type ||
        mesh(from).devices() != plan_.slices[sent.slice].mesh.devices()) {
      fail(from, ErrorKind::kUnimplemented,
           cat("re-shards on the way: from ", to_string(sent.local_type), " on each of ",
               plan_.slices[sent.slice].mesh.devices(), " devices to ",
               to_string(received.local_type), " on each of ", mesh(from).devices()),
           "transfer between slices of one size, and re-shard in a call");
    }
    const auto send = static_cast<uint32_t>(plan_.nodes.size());
    plan_.nodes.push_back({.kind = PlanNodeKind::kSend,
                           .name = from.name,
                           .slice = sent.slice,
                           .peer = send + 1,
                           .inputs = {value_of(from.inputs[0])},
                           .at = at(from)});
    plan_.nodes.push_back({.kind = PlanNodeKind::kReceive,
                           .name = from.name,
                           .slice = from.slice,
                           .peer = send,
                           .results = values_[id],
                           .at = at(from)});
  }

  void lower_output(const ProgramNode& from) {
    const Edge& edge = from.inputs[0];
    require_not_updated(from, edge);
    PlanValue& value = plan_.values[value_of(edge)];
    if (value.storage != PlanStorage::kTemporary || node(edge.node).kind != NodeKind::kCall) {
      fail(from, ErrorKind::kUnimplemented,
           cat("hands out ", to_string(node(edge.node).kind), " \"", node(edge.node).name,
               "\" itself",
               value.storage == PlanStorage::kOutput ? ", which is an output already" : ""),
           "make it a result of a call of its own");
    }
    value.storage = PlanStorage::kOutput;
    value.name = from.name;
    plan_.outputs.push_back(value_of(edge));
  }

  // A program that updates nothing has a gate where it guards an output: a run whose output is not
  // finite fails.
  void add_commits() {
    if (commits_.empty() && guarded_.empty()) return;
    plan_.nodes.push_back({.kind = PlanNodeKind::kGate,
                           .name = "gate",
                           .inputs = {guarded_.begin(), guarded_.end()}});
    for (uint32_t call : commits_) {
      plan_.nodes.push_back({.kind = PlanNodeKind::kCommit,
                             .name = plan_.nodes[call].name + ".commit",
                             .slice = plan_.nodes[call].slice,
                             .call = call,
                             .at = plan_.nodes[call].at});
    }
  }

  const Program& program_;
  const std::vector<std::string>& kinds_;
  const std::function<void(const LowerProgress&)>& on_progress_;
  const std::function<void(uint32_t, CompileRecord)>& on_record_;
  const bool records_passes_;
  CompileCache& cache_;
  Plan plan_;
  std::vector<std::vector<LinkClass>> links_;  // For each slice and axis; empty: all are alike.
  std::vector<std::vector<uint32_t>> values_;  // For each program node and result.
  std::vector<std::vector<bool>> is_read_;     // The same: whether anything but an output reads it.
  std::map<const Function*, uint32_t> functions_;  // Indexes in the plan.
  size_t nodes_compiled_ = 0, nodes_to_compile_ = 0;
  int64_t bytes_ = 0;                                // Sum over all values, on each device.
  std::set<std::pair<uint32_t, uint32_t>> updated_;  // (node, result) that are state updates.
  std::vector<uint32_t> commits_;                    // Plan nodes.
  std::vector<uint32_t> guarded_;                    // Values that must be finite.
};

}  // namespace

Plan lower(const Program& program, const LowerOptions& options, CompileCache& cache) {
  return ProgramLowering(program, options, cache).run();
}

LowerOptions options_of(const Plan& plan, std::vector<std::string> kinds) {
  LowerOptions options{.kinds = std::move(kinds),
                       .hosts = plan.hosts,
                       .islands = plan.islands,
                       .machines = plan.machines,
                       .runs_in_flight_max = plan.runs_in_flight_max,
                       .dispatch = plan.dispatch,
                       .overlaid = plan.overlaid};
  for (const PlanSlice& slice : plan.slices) {
    options.slices.push_back(slice.ranges);
    options.ranks_per_device.push_back(slice.ranks_per_device);
  }
  return options;
}

}  // namespace gangway
