#include "executor/devices/cuda/lower/view_fusion.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/cuda/lower/product_fusion.h"
#include "executor/devices/cuda/lower/rewrite_local.h"
#include "executor/devices/lower/strided.h"
#include "ir/transforms/rewrite/rewrite.h"
#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

// A tensor that is kept for a chain may be at most this many times as large as the part that the
// chain reads.
constexpr int64_t kKeptTimes = 3;
constexpr size_t kStripBytes = 16;  // Bytes that a thread reads at a time.

class ViewFuser {
 public:
  // Nodes from `end` on stay as they are.
  ViewFuser(const Function& from, NodeId end, Bodies& bodies)
      : from_(from),
        end_(end),
        bodies_(bodies),
        makers_(producers(from)),
        readers_(readers(from)) {}

  Rewritten run() {
    for (NodeId id = 0; id < end_; ++id) taken_.push_back(is_taken(id));
    taken_.resize(from_.nodes.size(), false);
    return bodies_.write(from_, [this](Rewriter& out, NodeId id) {
      if (taken_[id]) return true;
      const bool views =
          std::ranges::any_of(from_.nodes[id].inputs, [&](ValueId v) { return taken(v); });
      if (views) append(out, id);
      return views;
    });
  }

 private:
  bool taken(ValueId value) const { return makers_[value] != kNone && taken_[makers_[value]]; }

  // Whether all readers of the view can read the tensor itself.
  bool is_taken(NodeId id) const {
    const Node& node = from_.nodes[id];
    if (!is_view(node.op)) return false;
    const std::vector<ValueReader>& uses = readers_[node.first_result];
    if (uses.empty()) return false;
    const auto reads = [&](const ValueReader& reader) {
      return reader.node != kNone && reader.node < end_ &&
             reads_dense(reader.node, node.first_result);
    };
    return std::ranges::all_of(uses, reads) && fits(id, uses.size()) &&
           is_kept(id, uses.back().node);
  }

  // Whether the user is a chain, or an op that may become one, that takes the value element by
  // element.
  bool reads_dense(NodeId user, ValueId value) const {
    const Node& node = from_.nodes[user];
    if (from_.types[value].dims != out_type(node).dims) return false;
    if (node.op != Op::fusion) {
      const bool copies =
          node.op == Op::convert && from_.types[value].dtype == out_type(node).dtype;
      return row(node.op).family == OpFamily::kElementwise && !copies &&
             out_type(node).elements() >= kOwnKernel;
    }
    if (node.attrs.find(kProductAttr) != nullptr) return false;
    const Function& body = *node.body;
    for (ValueId p = 0; p < node.inputs.size(); ++p) {
      if (node.inputs[p] != value) continue;
      bool used = false;
      for (const Node& inner : body.nodes) {
        const bool uses = std::ranges::find(inner.inputs, p) != inner.inputs.end();
        if (uses && row(inner.op).family != OpFamily::kElementwise) return false;
        used = used || uses;
      }
      if (!used || std::ranges::find(body.results, p) != body.results.end()) return false;
    }
    return true;
  }

  const Type& out_type(const Node& node) const { return from_.types[node.first_result]; }

  bool fits(NodeId id, size_t uses) const {
    const Type& type = out_type(from_.nodes[id]);
    const StridedCopy copy = plain_move(NodeView{from_, id}).copy;
    int64_t row = 1, stride = 1;  // Elements and stride of the last dimensions that lie as one.
    for (size_t d = copy.sizes.size(); d-- > 0;) {
      if (copy.sizes[d] == 1) continue;
      if (row == 1) stride = copy.src_strides[d];
      if (copy.src_strides[d] != stride * row) break;
      row *= copy.sizes[d];
    }
    const auto strip = static_cast<int64_t>(kStripBytes / size_of(type.dtype));
    const bool narrows = row % strip != 0 && type.elements() % strip == 0;
    return !narrows && (uses == 1 || stride <= 1);
  }

  // Whether the tensor is kept until the last chain in any case, or is small enough to be kept for
  // it.
  bool is_kept(NodeId id, NodeId last) const {
    const ValueId tensor = from_.nodes[id].inputs[0];
    if (tensor < from_.parameters.size()) return true;
    if (from_.types[tensor].bytes() <= kKeptTimes * out_type(from_.nodes[id]).bytes()) return true;
    return std::ranges::any_of(readers_[tensor],
                               [&](const ValueReader& r) { return r.node >= last; });
  }

  // The body of a fusion of one element-wise op. It has as many parameters as the op has operands.
  Function body_of(NodeId id) const {
    const Node& node = from_.nodes[id];
    Function body;
    body.name = "fused";
    body.mesh = from_.mesh;
    body.local = true;
    Node inner{.op = node.op, .attrs = node.attrs, .results = node.results};
    for (ValueId p = 0; p < node.inputs.size(); ++p) {
      body.parameters.push_back({cat("p", p), {}});
      body.types.push_back(from_.types[node.inputs[p]]);
      inner.inputs.push_back(p);
    }
    inner.first_result = static_cast<ValueId>(body.types.size());
    body.types.push_back(out_type(node));
    body.results = {inner.first_result};
    body.result_names = {"r0"};
    body.nodes.push_back(std::move(inner));
    body.infos.resize(1);
    return body;
  }

  // Appends the node as a fusion whose body has the views that the node's operands were.
  void append(Rewriter& out, NodeId id) const {
    const Node& node = from_.nodes[id];
    const Function before = node.op == Op::fusion ? *node.body : body_of(id);
    Rewriter body(before);
    Node fusion{.op = Op::fusion};
    for (ValueId p = 0; p < node.inputs.size(); ++p) {
      const ValueId operand = node.inputs[p];
      fusion.inputs.push_back(out.at(taken(operand) ? viewed(operand) : operand));
      if (!taken(operand)) continue;
      Node view{.op = from_.nodes[makers_[operand]].op,
                .inputs = {p},
                .attrs = from_.nodes[makers_[operand]].attrs};
      body.target().types[p] = from_.types[viewed(operand)];
      body.set(p, body.append(std::move(view), {from_.types[operand]}, {}));
    }
    for (NodeId inner = 0; inner < before.nodes.size(); ++inner) body.copy(inner);
    fusion.body = std::make_shared<const Function>(body.finish());
    const auto first = from_.types.begin() + node.first_result;
    ValueId made = out.append(std::move(fusion), {first, first + node.results}, from_.infos[id]);
    for (uint32_t r = 0; r < node.results; ++r) out.set(node.first_result + r, made++);
  }

  // The tensor that the view reads.
  ValueId viewed(ValueId value) const { return from_.nodes[makers_[value]].inputs[0]; }

  const Function& from_;
  const NodeId end_;
  Bodies& bodies_;
  const std::vector<NodeId> makers_;
  const std::vector<std::vector<ValueReader>> readers_;  // Indexed by ValueId, ascending.
  std::vector<bool> taken_;                              // Views, by NodeId.
};

}  // namespace

LocalFunction fuse_views(const LocalFunction& local) {
  return rewrite_local(local, [](const Function& from, NodeId end, Bodies& bodies) {
    return ViewFuser(from, end, bodies).run();
  });
}

}  // namespace gangway::cuda
