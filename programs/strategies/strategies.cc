#include "programs/strategies/strategies.h"

#include <algorithm>
#include <set>

#include "programs/strategies/context_parallel.h"
#include "programs/strategies/data_parallel.h"
#include "programs/strategies/expert_parallel.h"
#include "programs/strategies/megatron.h"
#include "programs/strategies/sequence_parallel.h"
#include "programs/strategies/vocab_parallel.h"
#include "programs/strategies/zero.h"

namespace gangway::programs {
namespace {

constexpr std::string_view kStrategyNames[] = {
    "data_parallel",     "zero1",          "zero2",           "zero3",           "megatron",
    "sequence_parallel", "vocab_parallel", "expert_parallel", "context_parallel"};

std::set<std::string> parse(const std::string& names) {
  std::set<std::string> chosen;
  for (size_t at = 0; at <= names.size();) {
    const size_t plus = std::min(names.find('+', at), names.size());
    const std::string name = names.substr(at, plus - at);
    GW_REQUIRE(std::ranges::count(kStrategyNames, name) == 1, "strategy \"", names,
               "\": there is no \"", name, "\": expected some of ", strategy_names(),
               ", joined by +");
    GW_REQUIRE(chosen.insert(name).second, "strategy \"", names, "\": ", name, " is there twice");
    at = plus + 1;
  }
  return chosen;
}

class Checker {
 public:
  Checker(const std::string& names, const Mesh& mesh, const std::set<std::string>& chosen)
      : names_(names), mesh_(mesh), chosen_(chosen) {}

  // Requires that the mesh has the axis if a chosen strategy divides over it, and that one does if
  // the axis has several devices. An axis "expert" may also cut the batch alone.
  void require_axis(std::string_view axis, std::initializer_list<const char*> users) const {
    std::string any;
    bool is_used = false;
    for (const char* user : users) {
      any += cat(any.empty() ? "" : " or ", user);
      is_used |= chosen_.contains(user);
    }
    GW_REQUIRE(!is_used || mesh_.axis(axis) >= 0, what(), any, " divides over the axis \"", axis,
               "\", which the mesh ", to_string(mesh_), " lacks: expected --mesh ", axis, "=N");
    GW_REQUIRE(is_used || size_of(mesh_, axis) == 1 || axis == kExpertAxis, what(), "the axis \"",
               axis, "\" of the mesh ", to_string(mesh_), " is used by none: expected ", any,
               " too, or another name for the axis, along which the batch is then cut");
  }

  // Requires an axis over which ZeRO can cut the tensors that it keeps.
  void require_axis_to_keep_over() const {
    const bool is_used = std::ranges::any_of(
        chosen_, [](const std::string& name) { return name.starts_with("zero"); });
    GW_REQUIRE(!is_used || mesh_.axis(kDataAxis) >= 0 || mesh_.axis(kExpertAxis) >= 0, what(),
               "zero1, zero2 or zero3 divides over the axes \"", kDataAxis, "\" and \"",
               kExpertAxis, "\", of which the mesh ", to_string(mesh_),
               " has none: expected --mesh ", kDataAxis, "=N");
  }

  void require_together() const {
    GW_REQUIRE(!chosen_.contains("sequence_parallel") || chosen_.contains("megatron"), what(),
               "sequence_parallel divides what lies between the products of megatron: expected "
               "megatron+sequence_parallel");
    const auto is_zero = [](const std::string& name) { return name.starts_with("zero"); };
    GW_REQUIRE(std::ranges::count_if(chosen_, is_zero) <= 1, what(),
               "each stage of ZeRO contains those before it: expected one of zero1, zero2, zero3");
  }

  void require_divides(std::string_view axis, std::string_view of, int64_t amount) const {
    const int64_t size = size_of(mesh_, axis);
    GW_REQUIRE(amount % size == 0, what(), of, " must divide over the ", size,
               " devices of the axis \"", axis, "\": there are ", amount, "; expected ", axis, "=",
               fitting(amount, size), " or another model");
  }

  // The first axis of experts must cut each layer that has any, each further one at least one
  // layer.
  void require_cuts_experts(const std::vector<int64_t>& by_layer) const {
    const std::vector<std::string> axes = axes_of_experts(mesh_);
    for (const int64_t experts : by_layer)
      require_divides(axes.empty() ? kExpertAxis : axes[0], "experts of each layer", experts);
    for (const std::string& axis : axes) {
      const bool cuts_any = std::ranges::any_of(by_layer, [&](int64_t experts) {
        return experts > 0 && std::ranges::count(axes_that_divide(mesh_, axes, experts), axis) > 0;
      });
      GW_REQUIRE(cuts_any, what(), "the ", size_of(mesh_, axis), " devices of the axis \"", axis,
                 "\" divide the experts of no layer, which the axes before it cut; the most that a "
                 "layer has is ",
                 std::ranges::max(by_layer), ": expected sizes whose product divides them, or \"",
                 kDataAxis, "\" in place of \"", axis, "\"");
    }
  }

 private:
  std::string what() const { return cat("strategy \"", names_, "\": "); }

  // Returns the largest number up to `size` that divides `amount`.
  static int64_t fitting(int64_t amount, int64_t size) {
    while (amount % size != 0) --size;
    return size;
  }

  const std::string& names_;
  const Mesh& mesh_;
  const std::set<std::string>& chosen_;
};

void require_fits(const std::string& names, const std::set<std::string>& chosen, const Mesh& mesh,
                  const TransformerConfig& model) {
  const Checker check(names, mesh, chosen);
  check.require_together();
  check.require_axis(kModelAxis, {"megatron", "vocab_parallel"});
  check.require_axis(kContextAxis, {"context_parallel"});
  // A capacity is counted by groups of whole sequences, and "model" cuts sequences.
  const bool experts_on_model = chosen.contains("sequence_parallel") &&
                                mesh.axis(kExpertAxis) < 0 && model.moe.capacity_factor <= 0;
  if (!experts_on_model) check.require_axis(kExpertAxis, {"expert_parallel"});
  check.require_axis_to_keep_over();
  if (chosen.contains("megatron")) {
    check.require_divides(kModelAxis, "heads", model.heads);
    check.require_divides(kModelAxis, "hidden units", model.hidden);
  }
  if (chosen.contains("vocab_parallel"))
    check.require_divides(kModelAxis, "the vocabulary's tokens", model.vocab);
  if (chosen.contains("context_parallel"))
    check.require_divides(kContextAxis, "positions", model.seq);
  if (chosen.contains("sequence_parallel"))  // Cuts each of context parallelism's parts again.
    check.require_divides(kModelAxis, "a device's positions",
                          model.seq / size_of(mesh, kContextAxis));
  if (chosen.contains("expert_parallel")) {
    GW_REQUIRE(has_experts(model), "strategy \"", names,
               "\": the model has no experts: expected one that has, or no expert_parallel");
    check.require_cuts_experts(experts_by_layer(model));
  }
}

}  // namespace

std::string strategy_names() {
  std::string all;
  for (const std::string_view name : kStrategyNames) all += cat(all.empty() ? "" : ", ", name);
  return all;
}

Strategy strategy_of(const std::string& names, const Mesh& mesh, const TransformerConfig& model) {
  const std::set<std::string> chosen = parse(names);
  const StateTree parameters = transformer_parameters(model);
  require_fits(names, chosen, mesh, model);
  std::vector<Strategy> parts = {data_parallel(mesh)};
  if (chosen.contains("expert_parallel")) parts.push_back(expert_parallel(model.moe, mesh));
  if (chosen.contains("megatron")) parts.push_back(megatron());
  if (chosen.contains("sequence_parallel")) parts.push_back(sequence_parallel());
  if (chosen.contains("vocab_parallel")) parts.push_back(vocab_parallel());
  if (chosen.contains("context_parallel")) parts.push_back(context_parallel());
  Strategy strategy = combine(parts, mesh, parameters);
  for (int stage = 1; stage <= 3; ++stage) {
    if (chosen.contains(cat("zero", stage)))
      strategy = zero(stage, std::move(strategy), mesh, parameters);
  }
  return strategy;
}

}  // namespace gangway::programs
