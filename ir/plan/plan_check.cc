#include "ir/plan/plan_check.h"

#include <algorithm>
#include <set>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/plan/islands.h"
#include "ir/plan/positions.h"
#include "ir/plan/sequential.h"
#include "ir/plan/step_map.h"
#include "ir/types/limits.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Adds nothing on success; the message says which part of the plan is wrong.
#define GW_PLAN(condition, ...) GW_REQUIRE(condition, "plan: ", __VA_ARGS__)

class Check {
 public:
  explicit Check(const Plan& plan) : plan_(plan), written_(plan.values.size(), false) {}

  void run() {
    GW_PLAN(!plan_.hosts.empty(), "no hosts");
    GW_PLAN(!plan_.slices.empty(), "no slices");
    GW_PLAN(plan_.islands.empty() || plan_.islands.size() == plan_.hosts.size(), "islands of ",
            plan_.islands.size(), " hosts, there are ", plan_.hosts.size());
    GW_PLAN(plan_.machines.empty() || plan_.machines.size() == plan_.hosts.size(), "machines of ",
            plan_.machines.size(), " hosts, there are ", plan_.hosts.size());
    for (const std::string& island : plan_.islands) require_island_name(island, "plan");
    GW_PLAN(plan_.runs_in_flight_max >= 1 && plan_.runs_in_flight_max <= kRunsInFlightMax,
            "runs in flight: expected 1 to ", kRunsInFlightMax, ", got ", plan_.runs_in_flight_max);
    GW_PLAN(!plan_.overlaid || !is_sequential(plan_),
            "overlaid, though it is dispatched sequentially");
    for (const PlanSlice& slice : plan_.slices) check(slice);
    for (const LocalFunction& local : plan_.functions) check(local);
    for (size_t i = 0; i < plan_.values.size(); ++i) check(plan_.values[i], i);
    for (const PlanState& state : plan_.states) check(state);
    for (uint32_t input : plan_.inputs) {
      GW_PLAN(value(input).storage == PlanStorage::kInput, "input ", input, " is no input value");
    }
    for (size_t i = 0; i < plan_.nodes.size(); ++i) check(plan_.nodes[i], i);
    const Positions countable(plan_);  // Throws where they are too many.
    check_sources();
    for (uint32_t output : plan_.outputs) {
      GW_PLAN(value(output).storage == PlanStorage::kOutput, "output ", output,
              " is no output value");
      GW_PLAN(written_[output], "output \"", value(output).name, "\" is never written");
    }
  }

 private:
  const PlanValue& value(uint32_t index) const {
    GW_PLAN(index < plan_.values.size(), "value ", index, " does not exist; there are ",
            plan_.values.size());
    return plan_.values[index];
  }

  void check(const PlanSlice& slice) {
    std::set<std::string> names;
    int64_t devices = 1;
    for (const MeshAxis& axis : slice.mesh.axes) {
      GW_PLAN(!axis.name.empty() && names.insert(axis.name).second, "mesh axis \"", axis.name,
              "\" is empty or named twice");
      GW_PLAN(axis.size >= 1 && axis.size <= kPlanDevicesMax / devices, "mesh axis \"", axis.name,
              "\" has size ", axis.size);
      devices *= axis.size;
    }
    const int64_t ranks = slice.ranks_per_device;
    GW_PLAN(ranks >= 1 && ranks <= kRanksPerDeviceMax, "a slice puts ", ranks,
            " ranks on each device: expected 1 to ", kRanksPerDeviceMax);
    int64_t covered = 0;
    for (const PlanRange& range : slice.ranges) {
      GW_PLAN(range.host < plan_.hosts.size(), "host ", range.host, " does not exist");
      GW_PLAN(range.count >= 1 && range.count <= kPlanDevicesMax && range.first <= kPlanDevicesMax,
              "a range of ", range.count, " devices");
      covered += range.count * ranks;
      GW_PLAN(covered <= devices, "a slice's ranges cover more than its ", devices, " devices");
    }
    check_overlap(slice.ranges);
    GW_PLAN(covered == devices, "a slice's ranges cover ", covered / ranks, " devices with ", ranks,
            " of its ranks on each, its mesh has ", devices);
  }

  static void check_overlap(std::vector<PlanRange> ranges) {
    std::ranges::sort(ranges, {},
                      [](const PlanRange& range) { return std::pair(range.host, range.first); });
    for (size_t i = 1; i < ranges.size(); ++i) {
      const PlanRange& before = ranges[i - 1];
      GW_PLAN(ranges[i].host != before.host || ranges[i].first >= before.first + before.count,
              "device ", ranges[i].first, " of host ", ranges[i].host, " is twice in one slice");
    }
  }

  void check(const LocalFunction& local) {
    GW_PLAN(local.function != nullptr && local.function->local, "a function is not local");
    const Function& function = *local.function;
    GW_PLAN(local.commit_begin <= function.nodes.size(), "function \"", function.name,
            "\": its commit begins after its end");
    std::set<uint32_t> parameters, results;
    for (const auto& pair : local.in_place) {
      GW_PLAN(pair.parameter < function.parameters.size() && pair.result < function.results.size(),
              "function \"", function.name, "\": an in-place pair does not exist");
      GW_PLAN(parameters.insert(pair.parameter).second && results.insert(pair.result).second,
              "function \"", function.name, "\": two in-place pairs share an end");
      GW_PLAN(function.types[pair.parameter] == function.types[function.results[pair.result]],
              "function \"", function.name, "\": an in-place pair's types differ");
    }
    GW_PLAN(local.finite_result == kNone || local.finite_result < function.results.size(),
            "function \"", function.name, "\": the guarded result does not exist");
    check_sections(local);
  }

  void check_sections(const LocalFunction& local) {
    const Function& function = *local.function;
    const StepMap steps(function);
    const uint32_t commit = steps.first_step(local.commit_begin);
    bool at_commit = local.sections.empty() || commit == steps.count();
    for (size_t i = 0; i < local.sections.size(); ++i) {
      const LocalFunction::Section& section = local.sections[i];
      GW_PLAN(section.begin < steps.count(), "function \"", function.name, "\": section ", i,
              " begins at step ", section.begin, ", there are ", steps.count());
      GW_PLAN(i == 0 ? section.begin == 0 : section.begin > local.sections[i - 1].begin,
              "function \"", function.name, "\": section ", i, " begins at step ", section.begin,
              ": expected ", i == 0 ? "0" : "one behind the begin of the section before it");
      GW_PLAN(section.modelled_ns >= 0 && section.modelled_ns <= kSectionNsMax, "function \"",
              function.name, "\": section ", i, " takes ", section.modelled_ns,
              " ns: expected 0 to ", kSectionNsMax);
      at_commit |= section.begin == commit;
    }
    GW_PLAN(at_commit, "function \"", function.name, "\": no section begins at its commit point, ",
            "step ", commit);
  }

  void check(const PlanValue& value, size_t index) {
    GW_PLAN(value.slice < plan_.slices.size(), "value ", index, ": slice ", value.slice,
            " does not exist");
    GW_PLAN(is_valid(value.type), "value ", index, ": its type is out of bounds");
    GW_PLAN(local_type_of(value, plan_.slices) == value.local_type, "value ", index, ": ",
            to_string(value.type), " does not lie over mesh ",
            to_string(plan_.slices[value.slice].mesh), " as it says");
    for (const Placement& placement : value.sharding) {
      GW_PLAN(!is_partial(placement), "value ", index, " is partial");
      GW_PLAN(placement.order >= 0 && placement.order < static_cast<int>(kMeshAxesMax), "value ",
              index, " is cut in the order ", placement.order);
    }
    bytes_ += value.local_type.bytes();
    GW_PLAN(bytes_ <= kLocalBytesMax, "its values take more than ", kLocalBytesMax,
            " bytes of a device");
    written_[index] = value.storage == PlanStorage::kState || value.storage == PlanStorage::kInput;
  }

  void check(const PlanState& state) {
    const PlanValue& to = value(state.value);
    GW_PLAN(to.storage == PlanStorage::kState && !to.name.empty(), "value ", state.value,
            " is no state");
    GW_PLAN(
        state.init != nullptr && state.init->parameters.empty() && state.init->results.size() == 1,
        "state \"", to.name, "\": its initialiser must take nothing and give one value");
    const Meeting meeting = first_meeting(*state.init);
    GW_PLAN(meeting.function == nullptr, "state \"", to.name,
            "\": its initialiser must not wait for other devices: it has ",
            to_string(meeting.function->nodes[meeting.node].op), " at ",
            where(*meeting.function, meeting.node));
    GW_PLAN(state.init->types[state.init->results[0]] == to.local_type, "state \"", to.name,
            "\": its initialiser gives ", to_string(state.init->types[state.init->results[0]]),
            ", expected ", to_string(to.local_type));
  }

  void check_inputs(const PlanNode& node) {
    for (const PlanInput& input : node.inputs) {
      if (node.kind != PlanNodeKind::kGate) require_here(node, input.value);
      value(input.value);
      GW_PLAN(written_[input.value], "node \"", node.name, "\" reads value ", input.value,
              " before it is written");
    }
  }

  // A device finds nothing of what lies on another slice.
  void require_here(const PlanNode& node, uint32_t index) const {
    GW_PLAN(value(index).slice == node.slice, "node \"", node.name, "\": value ", index,
            " lies on slice ", value(index).slice, ", it runs on slice ", node.slice);
  }

  void check(const PlanNode& node, size_t index) {
    GW_PLAN(node.slice < plan_.slices.size(), "node \"", node.name, "\": slice ", node.slice,
            " does not exist");
    check_inputs(node);
    for (uint32_t result : node.results) require_here(node, result);
    GW_PLAN(node.peer == kNone || node.kind == PlanNodeKind::kSend ||
                node.kind == PlanNodeKind::kReceive,
            "node \"", node.name, "\" has a peer: expected a send or a receive");
    switch (node.kind) {
      case PlanNodeKind::kCall: check_call(node); break;
      case PlanNodeKind::kSend: check_send(node, index); break;
      case PlanNodeKind::kReceive: check_receive(node, index); break;
      case PlanNodeKind::kSource: check_source(node); break;
      case PlanNodeKind::kGate:
        GW_PLAN(node.results.empty(), "the gate gives no value");
        GW_PLAN(!std::exchange(gated_, true), "it has two gates");
        break;
      case PlanNodeKind::kCommit:
        GW_PLAN(node.call < index && plan_.nodes[node.call].kind == PlanNodeKind::kCall &&
                    plan_.nodes[node.call].slice == node.slice && node.inputs.empty() &&
                    node.results.empty(),
                "commit \"", node.name, "\" names no earlier call of its slice");
        GW_PLAN(gated_, "commit \"", node.name, "\" comes before the gate");
        break;
    }
    for (uint32_t result : node.results) written_[result] = true;
  }

  void check_send(const PlanNode& node, size_t index) {
    GW_PLAN(node.inputs.size() == 1 && node.results.empty(), "send \"", node.name,
            "\" must take one value and give none");
    GW_PLAN(node.peer > index && is_peer(node.peer, PlanNodeKind::kReceive, index), "send \"",
            node.name, "\", node ", index, ": node ", node.peer, " is no later receive from it");
  }

  void check_receive(const PlanNode& node, size_t index) {
    GW_PLAN(node.inputs.empty() && node.results.size() == 1, "receive \"", node.name,
            "\" must take no value and give one");
    GW_PLAN(node.peer < index && is_peer(node.peer, PlanNodeKind::kSend, index), "receive \"",
            node.name, "\", node ", index, ": node ", node.peer, " is no earlier send to it");
    const PlanValue& from = value(plan_.nodes[node.peer].inputs[0].value);
    const PlanValue& to = value(node.results[0]);
    GW_PLAN(from.local_type == to.local_type &&
                plan_.slices[from.slice].mesh.devices() == plan_.slices[to.slice].mesh.devices(),
            "receive \"", node.name, "\": the ends of the transfer differ");
  }

  bool is_peer(uint32_t peer, PlanNodeKind kind, size_t of) const {
    return peer < plan_.nodes.size() && plan_.nodes[peer].kind == kind &&
           plan_.nodes[peer].peer == of;
  }

  void check_source(const PlanNode& node) {
    GW_PLAN(node.inputs.empty() && node.results.size() == 1, "source \"", node.name,
            "\" must give one value");
  }

  void check_sources() {
    std::set<uint32_t> listed;
    for (uint32_t source : plan_.sources) {
      GW_PLAN(source < plan_.nodes.size() && plan_.nodes[source].kind == PlanNodeKind::kSource,
              "source ", source, " is no source node");
      GW_PLAN(listed.insert(source).second, "source ", source, " is listed twice");
    }
    const auto sources =
        std::count_if(plan_.nodes.begin(), plan_.nodes.end(),
                      [](const PlanNode& node) { return node.kind == PlanNodeKind::kSource; });
    GW_PLAN(static_cast<size_t>(sources) == listed.size(), "it has ", sources,
            " source nodes, and lists ", listed.size());
  }

  void check_call(const PlanNode& node) {
    GW_PLAN(node.function < plan_.functions.size(), "call \"", node.name, "\": function ",
            node.function, " does not exist");
    const LocalFunction& local = plan_.functions[node.function];
    const Function& function = *local.function;
    // One without a mesh holds nothing that looks at it.
    GW_PLAN(function.mesh.axes.empty() || function.mesh == plan_.slices[node.slice].mesh, "call \"",
            node.name, "\": its function is of mesh ", to_string(function.mesh), ", its slice of ",
            to_string(plan_.slices[node.slice].mesh));
    GW_PLAN(node.inputs.size() == function.parameters.size() &&
                node.results.size() == function.results.size(),
            "call \"", node.name, "\": expected ", function.parameters.size(), " inputs and ",
            function.results.size(), " results, got ", node.inputs.size(), " and ",
            node.results.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      check_type(node, "input", i, value(node.inputs[i].value).local_type, function.types[i]);
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      check_type(node, "result", i, value(node.results[i]).local_type,
                 function.types[function.results[i]]);
    }
    for (const auto& pair : local.in_place) {
      GW_PLAN(node.inputs[pair.parameter].value == node.results[pair.result] &&
                  value(node.inputs[pair.parameter].value).storage == PlanStorage::kState,
              "call \"", node.name, "\": an in-place result must name its state");
    }
  }

  void check_type(const PlanNode& node, const char* what, size_t index, const Type& got,
                  const Type& expected) {
    GW_PLAN(got == expected, "call \"", node.name, "\": ", what, " ", index, ": expected ",
            to_string(expected), " on each device, got ", to_string(got));
  }

  const Plan& plan_;
  std::vector<bool> written_;
  int64_t bytes_ = 0;  // Size of all values on each device.
  bool gated_ = false;
};

}  // namespace

std::optional<Type> local_type_of(const PlanValue& value, const std::vector<PlanSlice>& slices) {
  if (value.slice >= slices.size() || !is_valid(value.type)) return std::nullopt;
  const Mesh& mesh = slices[value.slice].mesh;
  const bool has_devices = std::all_of(mesh.axes.begin(), mesh.axes.end(),
                                       [](const MeshAxis& axis) { return axis.size >= 1; });
  if (!has_devices || !cuts_evenly(value.type, mesh, value.sharding)) return std::nullopt;
  return local_type(value.type, mesh, value.sharding);
}

void require_valid(const Plan& plan) { Check(plan).run(); }

void require_valid_on(const Plan& plan, uint32_t self, uint32_t devices) {
  require_valid(plan);
  GW_PLAN(self < plan.hosts.size(), "this host is number ", self, " of ", plan.hosts.size());
  bool takes_part = false;
  for (const PlanSlice& slice : plan.slices) {
    for (const PlanRange& range : slice.ranges) {
      if (range.host != self) continue;
      takes_part = true;
      GW_PLAN(range.first <= devices && range.count <= devices - range.first, "names devices ",
              range.first, " to ", range.first + range.count - 1, " of host \"", plan.hosts[self],
              "\", which has ", devices);
    }
  }
  GW_PLAN(takes_part, "\"", plan.name, "\" runs on no device of host \"", plan.hosts[self], "\"");
}

#undef GW_PLAN

}  // namespace gangway
