#include "ir/explain/plan_totals.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "ir/inspect/collectives.h"
#include "ir/plan/axis_links.h"
#include "ir/types/axis_list.h"
#include "runtime/base/cat.h"
#include "runtime/base/quote.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

const char* reach_of(LinkClass link) {
  switch (link) {
    case LinkClass::kHost: return "within a host";
    case LinkClass::kIsland: return "between hosts of an island";
    case LinkClass::kBetweenIslands: return "between islands";
  }
  return "?";
}

// The farthest of the mesh axes that `axes` names: "data,model".
LinkClass link_of(const Mesh& mesh, const std::vector<LinkClass>& links, const std::string& axes) {
  LinkClass farthest = LinkClass::kHost;
  for (const int axis : axes_of(mesh, axes))
    farthest = std::max(farthest, links[static_cast<size_t>(axis)]);
  return farthest;
}

}  // namespace

std::vector<CollectiveTotal> collective_totals(const Plan& plan) {
  std::map<std::tuple<uint32_t, Op, LinkClass>, CollectiveTotal> totals;
  for (const PlanNode& node : plan.nodes) {
    if (node.kind != PlanNodeKind::kCall) continue;
    const PlanSlice& slice = plan.slices[node.slice];
    const std::vector<LinkClass> links = axis_links(plan, slice);
    for (const CollectiveUse& use : collectives_of(*plan.functions[node.function].function)) {
      const LinkClass link = link_of(slice.mesh, links, use.axes);
      CollectiveTotal& total = totals[{node.slice, use.op, link}];
      total.slice = node.slice;
      total.op = use.op;
      total.link = link;
      total.tensors += use.times * static_cast<int64_t>(use.tensors.size());
      total.sent_bytes += use.sent_bytes();
    }
  }
  std::vector<CollectiveTotal> list;
  for (const auto& [key, total] : totals) list.push_back(total);
  return list;
}

std::vector<int64_t> state_bytes(const Plan& plan) {
  std::vector<int64_t> bytes(plan.slices.size(), 0);
  for (const PlanState& state : plan.states) {
    const PlanValue& value = plan.values[state.value];
    bytes[value.slice] += value.local_type.bytes();
  }
  return bytes;
}

std::string plan_totals_text(const Plan& plan, const std::vector<std::string>& slices) {
  const std::vector<int64_t> states = state_bytes(plan);
  const std::vector<CollectiveTotal> totals = collective_totals(plan);
  const auto bytes = [](int64_t count) { return format_bytes(static_cast<uint64_t>(count)); };
  std::string text;
  for (uint32_t slice = 0; slice < plan.slices.size(); ++slice) {
    std::string kinds;
    int64_t sent = 0;
    for (const CollectiveTotal& total : totals) {
      if (total.slice != slice) continue;
      sent += total.sent_bytes;
      kinds += cat(kinds.empty() ? ": " : ", ", to_string(total.op), " ", reach_of(total.link), " ",
                   bytes(total.sent_bytes), " (", total.tensors,
                   total.tensors == 1 ? " tensor)" : " tensors)");
    }
    text += cat(
        "each device of slice ", internal::quote(slices[slice]), " holds ", bytes(states[slice]),
        " of states; ",
        kinds.empty() ? "sends nothing in a run" : cat("sends ", bytes(sent), " in a run", kinds),
        "\n");
  }
  return text;
}

}  // namespace gangway
