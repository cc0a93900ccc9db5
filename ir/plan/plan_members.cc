#include "ir/plan/plan_members.h"

#include <algorithm>
#include <map>
#include <set>

#include "runtime/base/error.h"

namespace gangway {

std::vector<Member> slice_members(const PlanSlice& slice) {
  std::vector<Member> members;
  for (const PlanRange& range : slice.ranges) {
    for (uint32_t d = 0; d < range.count; ++d) members.push_back({range.host, range.first + d});
  }
  return members;
}

std::vector<Member> plan_members(const Plan& plan) {
  std::set<Member> all;
  for (const PlanSlice& slice : plan.slices) {
    for (const Member& member : slice_members(slice)) all.insert(member);
  }
  return {all.begin(), all.end()};
}

std::vector<std::vector<uint32_t>> groups_along(const Mesh& mesh, const std::string& axes) {
  std::vector<bool> along(mesh.axes.size(), false);
  for (size_t begin = 0; begin <= axes.size();) {
    const size_t end = std::min(axes.find(',', begin), axes.size());
    const int axis = mesh.axis(axes.substr(begin, end - begin));
    GW_REQUIRE(axis >= 0, "plan: a collective runs along axis \"", axes.substr(begin, end - begin),
               "\", which its mesh ", to_string(mesh), " lacks");
    along[static_cast<size_t>(axis)] = true;
    begin = end + 1;
  }
  std::map<std::vector<int64_t>, std::vector<uint32_t>> groups;
  for (int64_t device = 0; device < mesh.devices(); ++device) {
    std::vector<int64_t> rest;
    for (size_t axis = 0; axis < along.size(); ++axis) {
      if (!along[axis]) rest.push_back(mesh.coordinate(device, static_cast<int>(axis)));
    }
    groups[rest].push_back(static_cast<uint32_t>(device));
  }
  std::vector<std::vector<uint32_t>> result;
  result.reserve(groups.size());
  for (auto& [rest, devices] : groups) result.push_back(std::move(devices));
  return result;
}

namespace {

void check_slice(const Plan& plan, const PlanSlice& slice, uint32_t self, uint32_t devices) {
  for (const PlanRange& range : slice.ranges) {
    GW_REQUIRE(range.host < plan.hosts.size(), "plan \"", plan.name, "\": names host ", range.host,
               " of ", plan.hosts.size());
    GW_REQUIRE(
        range.host != self || (range.first <= devices && range.count <= devices - range.first),
        "plan \"", plan.name, "\": names devices ", range.first, " to ",
        uint64_t{range.first} + range.count, " of a host that has ", devices);
    GW_REQUIRE(range.count <= (1u << 20), "plan \"", plan.name, "\": a range of ", range.count,
               " devices");
  }
  const std::vector<Member> members = slice_members(slice);
  GW_REQUIRE(static_cast<int64_t>(members.size()) == slice.mesh.devices(), "plan \"", plan.name,
             "\": a mesh ", to_string(slice.mesh), " over ", members.size(), " devices");
  const std::set<Member> distinct(members.begin(), members.end());
  if (distinct.size() != members.size()) {
    throw Error(ErrorKind::kUnimplemented,
                cat("plan \"", plan.name, "\": one device stands twice in a slice"), {},
                "ask for as many devices as the mesh has, or use two slices");
  }
}

void check_values(const Plan& plan, const std::vector<uint32_t>& values, const std::string& what) {
  for (uint32_t value : values) {
    GW_REQUIRE(value < plan.values.size(), "plan \"", plan.name, "\": ", what, " names value ",
               value, " of ", plan.values.size());
  }
}

void check_call(const Plan& plan, const PlanNode& node) {
  GW_REQUIRE(
      node.function < plan.functions.size() && plan.functions[node.function].function != nullptr,
      "plan \"", plan.name, "\": node \"", node.name, "\" calls a function that is not there");
  const LocalFunction& local = plan.functions[node.function];
  const Function& function = *local.function;
  GW_REQUIRE(node.inputs.size() == function.parameters.size() &&
                 node.results.size() == function.results.size() &&
                 local.commit_begin <= function.nodes.size() &&
                 (local.finite_result == kNone || local.finite_result < function.results.size()),
             "plan \"", plan.name, "\": node \"", node.name, "\" does not fit its function \"",
             function.name, "\": expected ", function.parameters.size(), " operands and ",
             function.results.size(), " results, got ", node.inputs.size(), " and ",
             node.results.size());
  for (const LocalFunction::InPlace& pair : local.in_place) {
    GW_REQUIRE(pair.parameter < node.inputs.size() && pair.result < node.results.size(), "plan \"",
               plan.name, "\": node \"", node.name, "\" updates an operand that is not there");
  }
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    GW_REQUIRE(plan.values[node.inputs[i]].local_type == function.types[i], "plan \"", plan.name,
               "\": node \"", node.name, "\" operand ", i, " differs: expected ",
               to_string(function.types[i]), ", got ",
               to_string(plan.values[node.inputs[i]].local_type));
  }
}

void check_node(const Plan& plan, uint32_t index) {
  const PlanNode& node = plan.nodes[index];
  check_values(plan, node.inputs, "node \"" + node.name + "\"");
  check_values(plan, node.results, "node \"" + node.name + "\"");
  GW_REQUIRE(node.kind == PlanNodeKind::kGate || node.slice < plan.slices.size(), "plan \"",
             plan.name, "\": node \"", node.name, "\" runs on slice ", node.slice, " of ",
             plan.slices.size());
  switch (node.kind) {
    case PlanNodeKind::kCall: check_call(plan, node); break;
    case PlanNodeKind::kTransfer:
      GW_REQUIRE(
          node.inputs.size() == 1 && node.results.size() == 1 &&
              plan.values[node.inputs[0]].local_type == plan.values[node.results[0]].local_type &&
              plan.slices[plan.values[node.inputs[0]].slice].mesh.devices() ==
                  plan.slices[node.slice].mesh.devices(),
          "plan \"", plan.name, "\": transfer \"", node.name,
          "\" needs equal local types on slices of equal size");
      break;
    case PlanNodeKind::kSource:
      GW_REQUIRE(node.results.size() == 1, "plan \"", plan.name, "\": source \"", node.name,
                 "\" must fill one value");
      break;
    case PlanNodeKind::kGate: break;
    case PlanNodeKind::kCommit:
      GW_REQUIRE(node.call < index && plan.nodes[node.call].kind == PlanNodeKind::kCall &&
                     plan.nodes[node.call].slice == node.slice,
                 "plan \"", plan.name, "\": node \"", node.name, "\" commits no earlier call");
      break;
  }
}

}  // namespace

void check_plan(const Plan& plan, uint32_t self, uint32_t devices) {
  GW_REQUIRE(self < plan.hosts.size(), "plan \"", plan.name, "\": this host is number ", self,
             " of ", plan.hosts.size());
  constexpr int64_t kRunsMax = 64;
  GW_REQUIRE(plan.runs_in_flight_max >= 1 && plan.runs_in_flight_max <= kRunsMax, "plan \"",
             plan.name, "\": runs in flight must be 1 to ", kRunsMax, ", got ",
             plan.runs_in_flight_max);
  for (const PlanSlice& slice : plan.slices) check_slice(plan, slice, self, devices);
  for (const PlanValue& value : plan.values) {
    GW_REQUIRE(value.slice < plan.slices.size(), "plan \"", plan.name, "\": value \"", value.name,
               "\" lies on slice ", value.slice, " of ", plan.slices.size());
    const auto local = local_type(value.type, plan.slices[value.slice].mesh, value.sharding);
    GW_REQUIRE(local && *local == value.local_type, "plan \"", plan.name, "\": value \"",
               value.name, "\" ", to_string(value.type), " is not ", to_string(value.local_type),
               " on each device");
  }
  check_values(plan, plan.inputs, "an input");
  check_values(plan, plan.outputs, "an output");
  for (const PlanState& state : plan.states) {
    check_values(plan, {state.value}, "a state");
    GW_REQUIRE(state.init != nullptr && state.init->parameters.empty() &&
                   state.init->results.size() == 1 &&
                   state.init->types[state.init->results[0]] == plan.values[state.value].local_type,
               "plan \"", plan.name, "\": the initialiser of state \"",
               plan.values[state.value].name, "\" does not make ",
               to_string(plan.values[state.value].local_type));
  }
  for (uint32_t i = 0; i < plan.nodes.size(); ++i) check_node(plan, i);
  for (uint32_t source : plan.sources) {
    GW_REQUIRE(source < plan.nodes.size() && plan.nodes[source].kind == PlanNodeKind::kSource,
               "plan \"", plan.name, "\": source ", source, " is no source node");
  }
}

}  // namespace gangway
