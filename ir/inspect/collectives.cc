#include "ir/inspect/collectives.h"

#include <map>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/types/axis_list.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

// How often nodes of a function run; those that work for the next iteration do not in the last.
struct Times {
  int64_t all = 1;
  int64_t ahead = 1;
};

void collect(const Function& function, const std::vector<bool>& is_ahead, Times times,
             std::vector<CollectiveUse>& uses) {
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    const Node& node = function.nodes[id];
    const int64_t runs = !is_ahead.empty() && is_ahead[id] ? times.ahead : times.all;
    if (shares_body(node.op)) {
      const ScanLayout loop(node);
      collect(*node.body, ahead_nodes(*node.body, loop),
              {.all = runs * loop.length, .ahead = runs * (loop.length - 1)}, uses);
    }
    if (row(node.op).meets && runs > 0) {
      uses.push_back(collective_of(function, id));
      uses.back().times = runs;
    }
  }
}

}  // namespace

int64_t CollectiveUse::sent_bytes() const {
  if (op == Op::permute || op == Op::collective_broadcast) return times * bytes;
  const int64_t ways = op == Op::all_reduce ? 2 : 1;
  return times * ways * bytes * (members - 1) / members;
}

CollectiveUse collective_of(const Function& local, NodeId id) {
  const Node& node = local.nodes[id];
  CollectiveUse use{.op = node.op, .axes = node.attrs.text("axes")};
  use.members = members_along(local.mesh, axes_of(local.mesh, use.axes));
  // A ragged exchange has the sizes of its rows besides.
  const size_t tensors = node.op == Op::all_reduce ? node.inputs.size() : 1;
  for (size_t i = 0; i < tensors; ++i) {
    use.tensors.push_back(local.types[node.inputs[i]]);
    use.bytes += use.tensors.back().bytes();
  }
  if (node.op == Op::all_gather) use.bytes = local.types[node.first_result].bytes();
  return use;
}

std::vector<CollectiveUse> collectives_of(const Function& local) {
  std::vector<CollectiveUse> uses;
  collect(local, {}, {}, uses);
  return uses;
}

std::string summary_of(const std::vector<CollectiveUse>& uses) {
  struct Total {
    int64_t tensors = 0, bytes = 0, sent = 0;
  };
  std::map<std::pair<std::string, std::string>, Total> totals;
  for (const CollectiveUse& use : uses) {
    Total& total = totals[{std::string(to_string(use.op)), use.axes}];
    total.tensors += use.times * static_cast<int64_t>(use.tensors.size());
    total.bytes += use.times * use.bytes;
    total.sent += use.sent_bytes();
  }
  std::string text;
  for (const auto& [what, total] : totals) {
    text += cat(what.first, " over ", what.second, ": ", total.tensors,
                total.tensors == 1 ? " tensor, " : " tensors, ", total.bytes, " bytes whole, ",
                total.sent, " sent by each device\n");
  }
  return text;
}

}  // namespace gangway
