#include "executor/devices/cuda/lower/many_tensors.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

// Largest result of a node that may lie between the first and the last node of one launch.
constexpr int64_t kSmallBytes = int64_t{64} << 10;

class Finder {
 public:
  Finder(const LocalFunction& local, const StepMap& steps)
      : local_(local), function_(*local.function), steps_(steps), roots_(function_.types.size()) {
    std::iota(roots_.begin(), roots_.end(), ValueId{0});
    for (const Node& node : function_.nodes) {
      if (row(node.op).shares_buffer) roots_[node.first_result] = roots_[node.inputs[0]];
    }
    for (const auto& pair : local.in_place)
      overwrites_[function_.results[pair.result]] = pair.parameter;
  }

  std::vector<Together> run() {
    for (NodeId id = 0; id < function_.nodes.size(); ++id) {
      const Node& node = function_.nodes[id];
      const std::string kind = kind_of(id);
      if (id == local_.commit_begin || ends_all(node, kind)) end_all();
      std::erase_if(open_, [&](auto& entry) {
        const bool ends = conflicts(node, entry.second);
        if (ends) end(std::move(entry.second));
        return ends;
      });
      if (kind.empty()) continue;
      Together& together = open_[kind];
      together.push_back(id);
      if (together.size() == kManyTensors) {
        end(std::move(together));
        open_.erase(kind);
      }
    }
    end_all();
    return std::move(found_);
  }

 private:
  // Nodes of one kind can be one launch. Empty for other ops than AdamW and sum of squares.
  std::string kind_of(NodeId id) const {
    const Node& node = function_.nodes[id];
    const auto dtype = [&](size_t input) { return function_.types[node.inputs[input]].dtype; };
    if (node.op == Op::sum_squares)
      return cat("squares ", to_string(dtype(0)), " ",
                 to_string(function_.types[node.first_result].dtype));
    if (node.op != Op::adamw) return {};
    // All nodes of a launch share these rates; weight decay may differ.
    std::string kind = cat("adamw ", to_string(dtype(0)), " ", to_string(dtype(3)));
    for (size_t rate = 4; rate < 8; ++rate) kind += cat(" ", node.inputs[rate]);
    for (const char* rate : {"beta1", "beta2", "eps"}) kind += cat(" ", node.attrs.real(rate));
    return kind;
  }

  bool ends_all(const Node& node, const std::string& kind) const {
    const OpRow& facts = row(node.op);
    if (facts.meets || facts.busy_ns != nullptr || steps_.body_of(node) != kNone) return true;
    if (!kind.empty() || facts.shares_buffer) return false;
    for (uint32_t r = 0; r < node.results; ++r)
      if (function_.types[node.first_result + r].bytes() > kSmallBytes) return true;
    return false;
  }

  // Whether `nodes` must run before this one, which reads a result of theirs or overwrites an
  // input.
  bool conflicts(const Node& node, const Together& nodes) const {
    return std::ranges::any_of(nodes, [&](NodeId earlier) {
      return reads_result(node, function_.nodes[earlier]) ||
             overwrites_input(node, function_.nodes[earlier]);
    });
  }
  bool reads_result(const Node& node, const Node& earlier) const {
    return std::ranges::any_of(node.inputs, [&](ValueId input) {
      const ValueId value = roots_[input];
      return value >= earlier.first_result && value < earlier.first_result + earlier.results;
    });
  }
  bool overwrites_input(const Node& node, const Node& earlier) const {
    for (uint32_t r = 0; r < node.results; ++r) {
      const auto at = overwrites_.find(node.first_result + r);
      if (at == overwrites_.end()) continue;
      for (const ValueId input : earlier.inputs)
        if (roots_[input] == at->second) return true;
    }
    return false;
  }

  void end(Together nodes) {
    if (nodes.size() > 1) found_.push_back(std::move(nodes));
  }
  void end_all() {
    for (auto& [kind, nodes] : open_) end(std::move(nodes));
    open_.clear();
  }

  const LocalFunction& local_;
  const Function& function_;
  const StepMap& steps_;
  std::vector<ValueId> roots_;
  std::map<ValueId, ValueId> overwrites_;  // A result, and the parameter whose bytes it takes.
  std::map<std::string, Together> open_;   // Keys are kinds.
  std::vector<Together> found_;
};

}  // namespace

std::vector<Together> find_together(const LocalFunction& local, const StepMap& steps) {
  return Finder(local, steps).run();
}

void lower_together(Lowering& call, std::span<const NodeId> nodes) {
  call.op() == Op::adamw ? lower_many_adamw(call, nodes) : lower_many_squares(call, nodes);
}

}  // namespace gangway::cuda
