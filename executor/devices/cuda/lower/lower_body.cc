// scan and call: the commands of a body, once for each iteration.
//
// A card replays commands as graphs, and a graph has no loop whose addresses move: so a scan is as
// many commands as its body has, times its length. The body's arena, and one buffer more for each
// carry, lie in the scratchpad. Kernels and libraries count on tensors that begin where memory is
// allocated, so a slice or a row of a stacked result that does not is copied to and from a place
// that does.
#include <map>

#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/lower/places.h"
#include "ir/graph/bodies.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr size_t kCommandsMax = size_t{1} << 16;

class Unrolling {
 public:
  explicit Unrolling(Lowering& call)
      : call_(call), body_(*call.node().body), nodes_(body_.nodes.size()), loop_(call.node()) {
    lower_nodes();
    const int64_t arena = places_.arena_bytes();
    if (arena > 0) arena_ = call.scratch(arena);
    for (size_t c = 0; c < loop_.carries; ++c) spare_.push_back(call.scratch(call.in(c).bytes()));
  }

  void run() {
    for (size_t c = 0; c < loop_.carries && loop_.length == 0; ++c)
      call_.copy(call_.read(c), call_.write(c));
    for (int64_t i = 0; i < loop_.length; ++i) iterate(i);
  }

 private:
  void lower_nodes() {
    std::vector<int64_t> scratch(nodes_.size(), 0);
    size_t commands = 0;
    for (NodeId id = 0; id < nodes_.size(); ++id) {
      Lowering inner(call_.gpu, body_, id);
      if (!has_kernel(inner.op())) inner.refuse("it cannot stand in a body yet");
      lower(inner);
      commands += inner.commands.size();
      nodes_[id] = std::move(inner.commands);
      scratch[id] = inner.scratch_bytes;
      for (auto& kept : inner.keeps) call_.keep(std::move(kept));
    }
    if (commands > 0 && static_cast<size_t>(loop_.length) > kCommandsMax / commands) {
      call_.refuse(
          cat(loop_.length, " iterations of ", commands, " commands are more than ", kCommandsMax));
    }
    const LocalFunction local{.function = call_.node().body,
                              .commit_begin = static_cast<NodeId>(nodes_.size())};
    places_ =
        Places(body_, plan_memory(local, [&](const Function&, NodeId id) { return scratch[id]; }));
  }

  void iterate(int64_t i) {
    const int64_t row = loop_.reverse ? loop_.length - 1 - i : i;
    const size_t operands = call_.inputs();
    bases_.clear();
    for (size_t p = 0; p < operands; ++p) {
      Argument at = call_.read(p);
      if (p < loop_.carries && i > 0) at = carry_after(p, i - 1);
      if (p >= loop_.first_stacked()) {
        const Argument slice = row_of(at, row, body_.types[p].bytes());
        at = placed(slice, p);
        if (at.ref.of != slice.ref.of) call_.copy(slice, Lowering::as(at, AccessKind::kWrite));
      }
      bases_.push_back(at.ref);
    }
    std::vector<std::pair<Argument, Argument>> moved;
    for (uint32_t r = 0; r < call_.node().results; ++r) {
      Argument at = r < loop_.carries ? carry_after(r, i) : call_.write(r);
      if (r >= loop_.carries && loop_.stacks) {
        const Argument target = row_of(at, row, body_.types[body_.results[r]].bytes());
        at = placed(target, operands + r);
        if (at.ref.of != target.ref.of) moved.emplace_back(at, target);
      }
      bases_.push_back(at.ref);
    }
    bases_.push_back(arena_.ref);
    for (NodeId id = 0; id < nodes_.size(); ++id) add(id);
    for (auto& [from, to] : moved) call_.copy(Lowering::as(from, AccessKind::kRead), to);
  }

  static Argument row_of(const Argument& stacked, int64_t row, int64_t bytes) {
    return Lowering::part(stacked, row * bytes, bytes);
  }

  // The row where it lies, or the place where rows of base `base` are copied to.
  Argument placed(const Argument& row, size_t base) {
    if (row.ref.offset % kDeviceAlignment == 0) return row;
    const auto found = staging_.find(base);
    return found != staging_.end() ? found->second
                                   : staging_.emplace(base, call_.scratch(row.bytes)).first->second;
  }

  // The last iteration writes the result.
  Argument carry_after(size_t c, int64_t i) const {
    return (loop_.length - 1 - i) % 2 == 0 ? call_.write(c) : spare_[c];
  }

  void add(NodeId id) {
    const Node& node = body_.nodes[id];
    for (Command command : nodes_[id]) {
      for (Argument& argument : command.arguments) {
        if (!argument.is_tensor) continue;
        const Place place = place_of(node, id, argument.ref);
        const TensorRef& base = bases_[place.base];
        argument.ref = {base.of, base.index, base.offset + place.offset + argument.ref.offset};
      }
      call_.commands.push_back(std::move(command));
    }
  }

  Place place_of(const Node& node, NodeId id, const TensorRef& ref) const {
    switch (ref.of) {
      case TensorRef::kInput: return places_.of(node.inputs[ref.index]);
      case TensorRef::kResult: return places_.of(node.first_result + ref.index);
      case TensorRef::kScratch: break;
    }
    return places_.scratch(id);
  }

  Lowering& call_;
  const Function& body_;
  std::vector<std::vector<Command>> nodes_;  // Of the body, once.
  Places places_;
  const ScanLayout loop_;
  Argument arena_;
  std::vector<Argument> spare_;         // The other buffer of each carry.
  std::map<size_t, Argument> staging_;  // By base; used again in each iteration.
  std::vector<TensorRef> bases_;        // Of the iteration.
};

}  // namespace

void lower_body(Lowering& call) { Unrolling(call).run(); }

}  // namespace gangway::cuda
