#include "ir/transforms/overlap/prefetch_gathers.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/transforms/overlap/moves.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "ir/types/limits.h"
#include "runtime/base/cat.h"

namespace gangway {
namespace {

// The part of a body that can run an iteration ahead.
struct Movable {
  std::vector<bool> nodes;  // Indexed by NodeId: collectives, and the nodes that lead to them.
  std::vector<ValueId> gathered;  // Results of these collectives that the rest of the body reads.
  std::vector<size_t> slices;     // The parameters whose next slices they need.
};

// Indexed by NodeId: whether it depends on slices of this iteration, and on no result of the
// iteration before.
std::vector<bool> of_slices(const Function& body, const ScanLayout& layout) {
  std::vector<bool> is_early(body.types.size(), false), is_slice(body.types.size(), false);
  for (size_t p = layout.carries; p < body.parameters.size(); ++p) {
    is_early[p] = true;
    is_slice[p] = p >= layout.first_stacked();
  }
  std::vector<bool> found(body.nodes.size(), false);
  for (NodeId id = 0; id < body.nodes.size(); ++id) {
    const Node& node = body.nodes[id];
    const auto early = [&](ValueId input) { return is_early[input]; };
    const auto slice = [&](ValueId input) { return is_slice[input]; };
    if (!only_moves(node) || !std::ranges::all_of(node.inputs, early)) continue;
    found[id] = std::ranges::any_of(node.inputs, slice);
    for (uint32_t r = 0; r < node.results; ++r) {
      is_early[node.first_result + r] = true;
      is_slice[node.first_result + r] = found[id];
    }
  }
  return found;
}

Movable movable(const Function& body, const ScanLayout& layout) {
  const std::vector<bool> early = of_slices(body, layout);
  const std::vector<NodeId> makers = producers(body);
  Movable found{.nodes = std::vector<bool>(body.nodes.size(), false), .gathered = {}, .slices = {}};
  std::vector<bool> needed(body.types.size(), false), read(body.types.size(), false);
  for (ValueId result : body.results) read[result] = true;
  for (auto id = static_cast<NodeId>(body.nodes.size()); id-- > 0;) {
    const Node& node = body.nodes[id];
    const bool meets = row(node.op).meets;
    found.nodes[id] = any_result(needed, node) || (early[id] && meets);
    // A node that leads to a collective stays in its own iteration too, if the rest reads it.
    const bool stays = !found.nodes[id] || (!meets && any_result(read, node));
    for (ValueId input : node.inputs) {
      needed[input] = needed[input] || found.nodes[id];
      read[input] = read[input] || stays;
    }
  }
  for (ValueId value = 0; value < body.types.size(); ++value) {
    const NodeId maker = makers[value];
    if (maker == kNone) {
      if (needed[value] && value >= layout.first_stacked()) found.slices.push_back(value);
    } else if (read[value] && found.nodes[maker] && row(body.nodes[maker].op).meets) {
      found.gathered.push_back(value);
    }
  }
  return found;
}

// The movable nodes once more, on values that stand for the body's parameters.
class Copier {
 public:
  Copier(const Function& body, const Movable& moves, Rewriter& out)
      : body_(body), moves_(moves), out_(out), now_(body.types.size(), kNone) {}

  void set(size_t parameter, ValueId value) { now_[parameter] = value; }
  // Copies the nodes; returns the copies of the gathered values. `info` gives a copy's info from
  // its node.
  template <class Info>
  std::vector<ValueId> run(const Info& info) {
    for (NodeId id = 0; id < body_.nodes.size(); ++id) {
      if (moves_.nodes[id]) out_.copy(body_, id, now_, info(id));
    }
    std::vector<ValueId> gathered;
    for (ValueId value : moves_.gathered) gathered.push_back(now_[value]);
    return gathered;
  }

 private:
  const Function& body_;
  const Movable& moves_;
  Rewriter& out_;
  std::vector<ValueId> now_;
};

// A body that reads what the iteration before gathered, and gathers for the next.
// Parameters: carries, gathered, invariants, slices, next slices.
class AheadBody {
 public:
  AheadBody(const Function& body, const ScanLayout& layout, const Movable& moves)
      : body_(body), layout_(layout), moves_(moves), shape_(with_parameters()), out_(shape_) {}

  Function run() {
    const size_t added = moves_.gathered.size();
    const auto now = [&](size_t p) {
      return static_cast<ValueId>(p < layout_.carries ? p : p + added);
    };
    Copier next(body_, moves_, out_);
    std::vector<ValueId> values(body_.types.size(), kNone);
    for (size_t p = 0; p < body_.parameters.size(); ++p) {
      values[p] = now(p);
      next.set(p, now(p));
    }
    for (size_t s = 0; s < moves_.slices.size(); ++s)
      next.set(moves_.slices[s], static_cast<ValueId>(body_.parameters.size() + added + s));
    const std::vector<ValueId> made = next.run([&](NodeId id) { return body_.infos[id]; });
    for (size_t g = 0; g < added; ++g)
      values[moves_.gathered[g]] = static_cast<ValueId>(layout_.carries + g);
    copy_rest(values);
    Function done = std::move(out_.target());
    for (size_t r = 0; r < layout_.carries; ++r) done.results.push_back(values[body_.results[r]]);
    done.results.insert(done.results.end(), made.begin(), made.end());
    for (size_t r = layout_.carries; r < body_.results.size(); ++r)
      done.results.push_back(values[body_.results[r]]);
    return done;
  }

 private:
  // No nodes: what the rewriter begins with.
  Function with_parameters() const {
    Function f{.name = body_.name, .mesh = body_.mesh, .local = true};
    f.locs = body_.locs;
    const auto add = [&](Parameter parameter, const Type& type) {
      f.parameters.push_back(std::move(parameter));
      f.types.push_back(type);
    };
    const auto add_own = [&](size_t begin, size_t end) {
      for (size_t p = begin; p < end; ++p) add(body_.parameters[p], body_.types[p]);
    };
    add_own(0, layout_.carries);
    for (size_t g = 0; g < moves_.gathered.size(); ++g)
      add({.name = name_of(g), .placements = {}}, body_.types[moves_.gathered[g]]);
    add_own(layout_.carries, body_.parameters.size());
    for (size_t slice : moves_.slices)
      add({.name = "next." + body_.parameters[slice].name, .placements = {}}, body_.types[slice]);
    f.result_names = body_.result_names;
    std::vector<std::string> names;
    for (size_t g = 0; g < moves_.gathered.size(); ++g) names.push_back(name_of(g));
    f.result_names.insert(f.result_names.begin() + static_cast<std::ptrdiff_t>(layout_.carries),
                          names.begin(), names.end());
    return f;
  }

  // Names are derived from values of the original body, so that no two are the same.
  std::string name_of(size_t gathered) const { return cat("gathered.", moves_.gathered[gathered]); }

  // Copies all nodes but the collectives that have moved, and the nodes that led to them alone.
  void copy_rest(std::vector<ValueId>& values) {
    std::vector<bool> needed(body_.types.size(), false);
    for (ValueId result : body_.results) needed[result] = true;
    std::vector<bool> stays(body_.nodes.size(), false);
    for (auto id = static_cast<NodeId>(body_.nodes.size()); id-- > 0;) {
      const Node& node = body_.nodes[id];
      const bool has_moved = moves_.nodes[id] && row(node.op).meets;
      for (uint32_t r = 0; r < node.results && !has_moved; ++r)
        stays[id] = stays[id] || needed[node.first_result + r];
      stays[id] = stays[id] || (!moves_.nodes[id] && node.results == 0);
      for (ValueId input : node.inputs) needed[input] = needed[input] || stays[id];
    }
    for (NodeId id = 0; id < body_.nodes.size(); ++id) {
      if (stays[id]) out_.copy(body_, id, values, body_.infos[id]);
    }
  }

  const Function& body_;
  const ScanLayout& layout_;
  const Movable& moves_;
  const Function shape_;
  Rewriter out_;
};

class Prefetcher {
 public:
  Function run(const Function& local) {
    Rewriter out(local);
    for (NodeId id = 0; id < local.nodes.size(); ++id) {
      if (local.nodes[id].op == Op::scan) {
        visit(out, id);
      } else {
        out.copy(id);
      }
    }
    return out.finish();
  }

 private:
  void visit(Rewriter& out, NodeId id) {
    const Node& old = out.source().nodes[id];
    const ScanLayout layout(old);
    const Movable moves = movable(*old.body, layout);
    if (layout.length < 2 || layout.ahead > 0 || moves.gathered.empty()) return out.copy(id);
    const size_t added = moves.gathered.size();
    if (old.inputs.size() + added + moves.slices.size() > kInputsMax ||
        old.results + added > kResultsMax)
      return out.copy(id);

    Node node{.op = Op::scan, .attrs = old.attrs};
    node.attrs.set("carries", static_cast<int64_t>(layout.carries + moves.gathered.size()));
    node.attrs.set("ahead", static_cast<int64_t>(moves.gathered.size()));
    node.attrs.set("next", static_cast<int64_t>(moves.slices.size()));
    const std::vector<ValueId> first = gathered_before(out, id, layout, moves);
    for (size_t i = 0; i < layout.carries; ++i) node.inputs.push_back(out.at(old.inputs[i]));
    node.inputs.insert(node.inputs.end(), first.begin(), first.end());
    for (size_t i = layout.carries; i < old.inputs.size(); ++i)
      node.inputs.push_back(out.at(old.inputs[i]));
    for (size_t slice : moves.slices) node.inputs.push_back(out.at(old.inputs[slice]));
    node.body = body(old.body, layout, moves);

    std::vector<Type> types;
    for (ValueId value : first) types.push_back(out.target().types[value]);
    const auto results = out.source().types.begin() + old.first_result;
    types.insert(types.begin(), results, results + static_cast<std::ptrdiff_t>(layout.carries));
    types.insert(types.end(), results + static_cast<std::ptrdiff_t>(layout.carries),
                 results + old.results);
    const ValueId made = out.append(std::move(node), types, out.source().infos[id]);
    for (uint32_t r = 0; r < old.results; ++r) {
      const auto shift = static_cast<ValueId>(r < layout.carries ? 0 : first.size());
      out.set(old.first_result + r, made + r + shift);
    }
  }

  // The gathered tensors of the first iteration, computed before the loop.
  static std::vector<ValueId> gathered_before(Rewriter& out, NodeId id, const ScanLayout& layout,
                                              const Movable& moves) {
    const Node& scan = out.source().nodes[id];
    NodeInfo info = out.source().infos[id];
    info.origin = id;
    info.reason = Reason::kPartition;
    Copier first(*scan.body, moves, out);
    for (size_t i = layout.carries; i < layout.first_stacked(); ++i)
      first.set(i, out.at(scan.inputs[i]));
    for (size_t slice : moves.slices)
      first.set(slice, row_of(out, out.at(scan.inputs[slice]), layout, info));
    return first.run([&](NodeId) { return info; });
  }

  // The slice that the first iteration sees of a stacked tensor.
  static ValueId row_of(Rewriter& out, ValueId stacked, const ScanLayout& layout, NodeInfo info) {
    Type type = out.target().types[stacked];
    std::vector<int64_t> starts(type.dims.size(), 0), strides(type.dims.size(), 1);
    starts[0] = layout.reverse ? layout.length - 1 : 0;
    std::vector<int64_t> limits(type.dims.begin(), type.dims.end());
    limits[0] = starts[0] + 1;
    type.dims[0] = 1;
    Node slice{.op = Op::slice, .inputs = {stacked}};
    slice.attrs = {{"starts", starts}, {"limits", limits}, {"strides", strides}};
    const ValueId row = out.append(std::move(slice), {type}, info);
    type.dims.erase(type.dims.begin());
    Node reshape{.op = Op::reshape, .inputs = {row}};
    reshape.attrs = {{"dims", std::vector<int64_t>(type.dims.begin(), type.dims.end())}};
    return out.append(std::move(reshape), {type}, info);
  }

  std::shared_ptr<const Function> body(const std::shared_ptr<const Function>& of,
                                       const ScanLayout& layout, const Movable& moves) {
    std::shared_ptr<const Function>& made = bodies_[{of.get(), layout.carries, layout.invariants}];
    if (made == nullptr)
      made = std::make_shared<const Function>(AheadBody(*of, layout, moves).run());
    return made;
  }

  using BodyKey = std::tuple<const Function*, size_t, size_t>;
  std::map<BodyKey, std::shared_ptr<const Function>> bodies_;
};

}  // namespace

Function prefetch_gathers(const Function& local) {
  Prefetcher prefetcher;
  const auto run = [&](const Function& function) { return prefetcher.run(function); };
  return run(map_bodies(local, run));
}

}  // namespace gangway
