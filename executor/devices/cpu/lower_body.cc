// scan and call: the kernels of a body, in a loop.
//
// The body's arena, the places of its tensors and one buffer for each carry lie in the scratchpad
// of the node, whatever the number of iterations. A carry is read from one buffer and written to
// the other, of which one is the result's; slices and rows of stacked results are where they stand.
#include <algorithm>
#include <cstring>
#include <memory>

#include "executor/devices/cpu/kernel.h"
#include "executor/devices/lower/places.h"
#include "ir/graph/bodies.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cpu {
namespace {

class BodyKernels {
 public:
  BodyKernels(std::shared_ptr<const Function> body, const LowerCall& of) : body_(std::move(body)) {
    const auto nodes = static_cast<NodeId>(body_->nodes.size());
    std::vector<Kernel> kernels(nodes);
    std::vector<int64_t> scratch(nodes, 0);
    for (NodeId id = 0; id < nodes; ++id) {
      const LowerCall inner{{*body_, id}, of.threads};
      if (!has_kernel(inner.op())) not_on_cpu(inner, "it cannot stand in a body yet");
      Lowered lowered = lower(inner);
      kernels[id] = std::move(lowered.kernel);
      scratch[id] = lowered.scratch_bytes;
    }
    const LocalFunction local{.function = body_, .commit_begin = nodes};
    places_ =
        Places(*body_, plan_memory(local, [&](const Function&, NodeId id) { return scratch[id]; }));
    for (NodeId id = 0; id < nodes; ++id) add(id, std::move(kernels[id]));
  }

  const Places& places() const { return places_; }

  void run(const KernelArgs& args, std::byte* const* bases) const {
    for (const Step& step : steps_) {
      const Place* operands = operands_.data() + step.first_operand;
      step.kernel(
          {args.par, bases, operands, operands + step.inputs, step.scratch, args.mesh_device});
    }
  }

 private:
  struct Step {
    uint32_t first_operand = 0;  // Inputs, then results, in operands_.
    uint32_t inputs = 0;
    Kernel kernel;
    Place scratch;
  };

  void add(NodeId id, Kernel kernel) {
    const Node& node = body_->nodes[id];
    steps_.push_back({static_cast<uint32_t>(operands_.size()),
                      static_cast<uint32_t>(node.inputs.size()), std::move(kernel),
                      places_.scratch(id)});
    for (ValueId input : node.inputs) operands_.push_back(places_.of(input));
    for (uint32_t r = 0; r < node.results; ++r)
      operands_.push_back(places_.of(node.first_result + r));
  }

  std::shared_ptr<const Function> body_;
  Places places_;
  std::vector<Step> steps_;
  std::vector<Place> operands_;
};

// A scan; a call is one iteration that carries nothing.
class Loop {
 public:
  explicit Loop(const LowerCall& call)
      : kernels_(call.node().body, call),
        operands_(call.inputs()),
        results_(call.node().results),
        loop_(call.node()) {
    const Function& body = *call.node().body;
    for (size_t i = 0; i < operands_; ++i) parameter_bytes_.push_back(body.types[i].bytes());
    for (ValueId result : body.results) result_bytes_.push_back(body.types[result].bytes());
    arena_ =
        align_up(int64_t{kernels_.places().bases()} * int64_t{sizeof(std::byte*)}, kArenaAlignment);
    scratch_bytes_ = arena_ + align_up(kernels_.places().arena_bytes(), kArenaAlignment);
    for (size_t c = 0; c < loop_.carries; ++c) {
      spare_.push_back(scratch_bytes_);
      scratch_bytes_ += align_up(parameter_bytes_[c], kArenaAlignment);
    }
  }

  int64_t scratch_bytes() const { return scratch_bytes_; }

  void run(const KernelArgs& args) const {
    for (size_t c = 0; c < loop_.carries && loop_.length == 0; ++c)
      std::memmove(args.out(c), args.in(c), static_cast<size_t>(parameter_bytes_[c]));
    auto* scratch = static_cast<std::byte*>(args.scratch_data());
    auto** bases = reinterpret_cast<std::byte**>(scratch);
    for (int64_t i = 0; i < loop_.length; ++i) {
      bind(args, scratch, bases, i);
      kernels_.run(args, bases);
    }
  }

 private:
  void bind(const KernelArgs& args, std::byte* scratch, std::byte** bases, int64_t i) const {
    const int64_t row = loop_.reverse ? loop_.length - 1 - i : i;
    for (size_t p = 0; p < operands_; ++p) {
      bases[p] = args.at(args.inputs[p]);
      if (p < loop_.carries && i > 0) bases[p] = carry_after(args, scratch, p, i - 1);
      if (p >= loop_.first_stacked()) bases[p] += row * parameter_bytes_[p];
    }
    for (size_t r = 0; r < results_; ++r) {
      std::byte*& base = bases[operands_ + r];
      base = args.at(args.results[r]);
      if (r < loop_.carries) {
        base = carry_after(args, scratch, r, i);
      } else if (loop_.stacks) {
        base += row * result_bytes_[r];
      }
    }
    bases[operands_ + results_] = scratch + arena_;
  }

  // The last iteration writes the result.
  std::byte* carry_after(const KernelArgs& args, std::byte* scratch, size_t c, int64_t i) const {
    return (loop_.length - 1 - i) % 2 == 0 ? args.at(args.results[c]) : scratch + spare_[c];
  }

  BodyKernels kernels_;
  size_t operands_, results_;
  const ScanLayout loop_;
  std::vector<int64_t> parameter_bytes_, result_bytes_;
  int64_t arena_ = 0;           // In the scratchpad, behind the bases.
  std::vector<int64_t> spare_;  // The other buffer of each carry, behind the arena.
  int64_t scratch_bytes_ = 0;
};

}  // namespace

Lowered lower_body(const LowerCall& call) {
  auto loop = std::make_shared<const Loop>(call);
  return {[loop](const KernelArgs& args) { loop->run(args); }, loop->scratch_bytes()};
}

}  // namespace gangway::cpu
