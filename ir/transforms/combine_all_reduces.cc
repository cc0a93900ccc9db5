#include "ir/transforms/combine_all_reduces.h"

#include <algorithm>
#include <map>
#include <queue>

#include "ir/transforms/rewrite.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// How many all-reduces lie on the longest path to each node; equal levels are independent.
std::vector<int> levels(const Function& function, const std::vector<NodeId>& makers) {
  std::vector<int> level(function.nodes.size(), 0);
  for (NodeId id = 0; id < function.nodes.size(); ++id) {
    for (ValueId input : function.nodes[id].inputs) {
      NodeId maker = makers[input];
      if (maker != kNone) level[id] = std::max(level[id], level[maker]);
    }
    level[id] += function.nodes[id].op == Op::all_reduce;
  }
  return level;
}

using Key = std::tuple<int, std::string, std::string>;

}  // namespace

Function combine_all_reduces(const Function& local) {
  std::vector<NodeId> makers = producers(local);
  std::vector<int> level = levels(local, makers);
  std::map<Key, std::vector<NodeId>> buckets;
  for (NodeId id = 0; id < local.nodes.size(); ++id) {
    const Node& node = local.nodes[id];
    if (node.op != Op::all_reduce) continue;
    buckets[{level[id], node.attrs.text("axes"), node.attrs.text("reduction")}].push_back(id);
  }
  // A bucket stands where its last member stood; everything else keeps its order as far as operands
  // allow.
  std::vector<NodeId> bucket_of(local.nodes.size(), kNone);  // The last member's id.
  std::map<NodeId, const std::vector<NodeId>*> members;
  for (const auto& [key, ids] : buckets) {
    for (NodeId id : ids) bucket_of[id] = ids.back();
    members[ids.back()] = &ids;
  }
  auto unit = [&](NodeId id) { return bucket_of[id] == kNone ? id : bucket_of[id]; };
  std::vector<int> waiting(local.nodes.size(), 0);
  std::vector<std::vector<NodeId>> users(local.nodes.size());
  for (NodeId id = 0; id < local.nodes.size(); ++id) {
    for (ValueId input : local.nodes[id].inputs) {
      if (makers[input] == kNone) continue;
      ++waiting[unit(id)];
      users[unit(makers[input])].push_back(unit(id));
    }
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (NodeId id = 0; id < local.nodes.size(); ++id) {
    if (unit(id) == id && waiting[id] == 0) ready.push(id);
  }
  Rewriter out(local);
  size_t placed = 0;
  while (!ready.empty()) {
    NodeId id = ready.top();
    ready.pop();
    if (bucket_of[id] == kNone) {
      out.copy(id);
      ++placed;
    } else {
      Node node{.op = Op::all_reduce, .attrs = local.nodes[id].attrs};
      std::vector<Type> types;
      for (NodeId member : *members[id]) {
        for (ValueId input : local.nodes[member].inputs) {
          node.inputs.push_back(out.at(input));
          types.push_back(local.types[input]);
        }
      }
      ValueId first = out.append(std::move(node), types, local.infos[id]);
      for (NodeId member : *members[id]) {
        const Node& old = local.nodes[member];
        for (uint32_t r = 0; r < old.results; ++r) out.set(old.first_result + r, first++);
        ++placed;
      }
    }
    for (NodeId user : users[id]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  GW_ASSERT(placed == local.nodes.size(), "combined all-reduces form a cycle");
  return out.finish();
}

}  // namespace gangway
