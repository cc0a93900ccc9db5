#include "ir/plan/plan_text.h"

#include "ir/plan/islands.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

const char* word(PlanStorage storage) {
  switch (storage) {
    case PlanStorage::kState: return "state";
    case PlanStorage::kInput: return "input";
    case PlanStorage::kTemporary: return "temporary";
    case PlanStorage::kOutput: return "output";
  }
  return "?";
}

std::string list(const std::vector<uint32_t>& values) {
  std::string text;
  for (uint32_t value : values) text += cat(text.empty() ? "%" : ", %", value);
  return text;
}

std::string list(const std::vector<PlanInput>& inputs) {
  std::string text;
  for (const PlanInput& input : inputs) text += cat(text.empty() ? "%" : ", %", input.value);
  return text;
}

std::string line(const Plan& plan, const PlanSlice& slice, size_t index) {
  std::string text = cat("  slice ", index, " ", to_string(slice.mesh), " on");
  for (const PlanRange& range : slice.ranges) {
    text += cat(" ", plan.hosts[range.host], ":", range.first);
    if (range.count > 1) text += cat("-", range.first + range.count - 1);
  }
  if (slice.ranks_per_device > 1) text += cat(", ", slice.ranks_per_device, " ranks on each");
  return text;
}

std::string line(const Plan& plan, const PlanValue& value, size_t index) {
  std::string text = cat("  %", index, " ", word(value.storage));
  if (!value.name.empty()) text += cat(" \"", value.name, "\"");
  text += cat(": ", to_string(value.type), " ",
              to_string(plan.slices[value.slice].mesh, value.sharding));
  if (value.local_type != value.type) text += cat(" -> ", to_string(value.local_type));
  if (value.slice != 0) text += cat(" on slice ", value.slice);
  return text;
}

std::string line(const Plan& plan, const PlanNode& node, size_t index) {
  std::string text = cat("  ", index, ": ", to_string(node.kind));
  if (node.kind == PlanNodeKind::kCommit) {
    text += cat(" ", node.call);
  } else {
    text +=
        cat(" ", node.kind == PlanNodeKind::kGate ? "" : node.name, "(", list(node.inputs), ")");
  }
  if (node.kind == PlanNodeKind::kCall) {
    const LocalFunction& local = plan.functions[node.function];
    text += cat(" [", commit_text(local.function->nodes.size(), local.commit_begin, local.sections),
                to_string(local.numerics), "]");
  }
  if (node.kind == PlanNodeKind::kSend) text += cat(" to ", node.peer);
  if (node.kind == PlanNodeKind::kReceive) text += cat(" from ", node.peer);
  if (!node.results.empty()) text += " -> " + list(node.results);
  if (node.slice != 0) text += cat(" on slice ", node.slice);
  if (!node.at.empty()) text += "  // " + node.at;
  return text;
}

}  // namespace

std::string_view to_string(PlanNodeKind kind) {
  switch (kind) {
    case PlanNodeKind::kCall: return "call";
    case PlanNodeKind::kSend: return "send";
    case PlanNodeKind::kReceive: return "receive";
    case PlanNodeKind::kSource: return "source";
    case PlanNodeKind::kGate: return "gate";
    case PlanNodeKind::kCommit: return "commit";
  }
  return "?";
}

std::string commit_text(size_t nodes, NodeId commit_begin,
                        const std::vector<LocalFunction::Section>& sections) {
  std::string text = cat(nodes, " nodes, commit at ", commit_begin);
  for (size_t i = 0; i < sections.size(); ++i) {
    text += cat(i == 0 ? ", sections " : ", ", sections[i].begin, ": ",
                (sections[i].modelled_ns + 500) / 1000, " us");
  }
  return text;
}

std::string to_text(const Plan& plan) {
  std::string text = cat("plan @", plan.name, " over");
  for (size_t i = 0; i < plan.hosts.size(); ++i) {
    text += " " + plan.hosts[i];
    if (spans_islands(plan)) text += " (" + plan.islands[i] + ")";
  }
  text += cat(", ", plan.runs_in_flight_max, " runs in flight",
              plan.dispatch == Dispatch::kSequential ? ", dispatched sequentially" : "",
              plan.overlaid ? ", overlaid\n" : "\n");
  for (size_t i = 0; i < plan.slices.size(); ++i) text += line(plan, plan.slices[i], i) + "\n";
  for (size_t i = 0; i < plan.values.size(); ++i) text += line(plan, plan.values[i], i) + "\n";
  for (size_t i = 0; i < plan.nodes.size(); ++i) text += line(plan, plan.nodes[i], i) + "\n";
  return text;
}

}  // namespace gangway
