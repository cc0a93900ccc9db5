#include "ir/transforms/conversions/combine_all_reduces.h"

#include <algorithm>
#include <map>
#include <queue>

#include "ir/transforms/rewrite/rewrite.h"
#include "ir/types/limits.h"
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

// The node that computes the last of its operands.
NodeId ready_after(const Function& function, const std::vector<NodeId>& makers, NodeId id) {
  NodeId last = 0;
  for (ValueId input : function.nodes[id].inputs) {
    if (makers[input] != kNone) last = std::max(last, makers[input]);
  }
  return last;
}

int64_t operand_bytes(const Function& function, NodeId id) {
  int64_t bytes = 0;
  for (ValueId input : function.nodes[id].inputs) bytes += function.types[input].bytes();
  return bytes;
}

// Independent ones in the order in which their operands are computed, cut into buckets.
std::vector<std::vector<NodeId>> cut_into_buckets(const Function& function,
                                                  const std::vector<NodeId>& makers,
                                                  std::vector<NodeId> ids) {
  std::stable_sort(ids.begin(), ids.end(), [&](NodeId a, NodeId b) {
    return ready_after(function, makers, a) < ready_after(function, makers, b);
  });
  std::vector<std::vector<NodeId>> buckets;
  int64_t room = 0;
  size_t places = 0;  // For operands.
  for (NodeId id : ids) {
    const int64_t bytes = operand_bytes(function, id);
    const size_t operands = function.nodes[id].inputs.size();
    if (buckets.empty() || bytes > room || operands > places) {
      buckets.emplace_back();
      room = kBucketBytesMax;
      places = kInputsMax;
    }
    buckets.back().push_back(id);
    room -= bytes;
    places -= operands;
  }
  return buckets;
}

}  // namespace

Function combine_all_reduces(const Function& local) {
  std::vector<NodeId> makers = producers(local);
  std::vector<int> level = levels(local, makers);
  std::map<Key, std::vector<NodeId>> independent;
  for (NodeId id = 0; id < local.nodes.size(); ++id) {
    const Node& node = local.nodes[id];
    if (node.op != Op::all_reduce) continue;
    independent[{level[id], node.attrs.text("axes"), node.attrs.text("reduction")}].push_back(id);
  }
  // A bucket stands as soon as its operands are there; everything else keeps its order as far as
  // operands allow.
  std::vector<NodeId> bucket_of(local.nodes.size(), kNone);  // The last member's id.
  std::map<NodeId, std::vector<NodeId>> members;
  for (auto& [key, ids] : independent) {
    for (std::vector<NodeId>& bucket : cut_into_buckets(local, makers, std::move(ids))) {
      const NodeId last = bucket.back();
      for (NodeId id : bucket) bucket_of[id] = last;
      members[last] = std::move(bucket);
    }
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
  using Place = std::pair<NodeId, NodeId>;  // The position that a node would like, and the node.
  std::priority_queue<Place, std::vector<Place>, std::greater<>> ready;
  const auto push = [&](NodeId id) {
    ready.push({bucket_of[id] == kNone ? id : ready_after(local, makers, id), id});
  };
  for (NodeId id = 0; id < local.nodes.size(); ++id) {
    if (unit(id) == id && waiting[id] == 0) push(id);
  }
  Rewriter out(local);
  size_t placed = 0;
  while (!ready.empty()) {
    const NodeId id = ready.top().second;
    ready.pop();
    if (bucket_of[id] == kNone) {
      out.copy(id);
      ++placed;
    } else {
      Node node{.op = Op::all_reduce, .attrs = local.nodes[id].attrs};
      std::vector<Type> types;
      for (NodeId member : members.at(id)) {
        for (ValueId input : local.nodes[member].inputs) {
          node.inputs.push_back(out.at(input));
          types.push_back(local.types[input]);
        }
      }
      ValueId first = out.append(std::move(node), types, local.infos[id]);
      for (NodeId member : members.at(id)) {
        const Node& old = local.nodes[member];
        for (uint32_t r = 0; r < old.results; ++r) out.set(old.first_result + r, first++);
        ++placed;
      }
    }
    for (NodeId user : users[id]) {
      if (--waiting[user] == 0) push(user);
    }
  }
  GW_ASSERT(placed == local.nodes.size(), "combined all-reduces form a cycle");
  return out.finish();
}

}  // namespace gangway
