#include "ir/transforms/passes.h"

#include <utility>

#include "ir/graph/bodies.h"
#include "ir/plan/rates.h"
#include "ir/transforms/compile_record.h"
#include "ir/transforms/conversions/combine_all_reduces.h"
#include "ir/transforms/fusion/fuse_elementwise.h"
#include "ir/transforms/memory/own_results.h"
#include "ir/transforms/order_commit.h"
#include "ir/transforms/overlap/begin_early.h"
#include "ir/transforms/overlap/prefetch_gathers.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "ir/transforms/rewrite/join_losses.h"
#include "ir/transforms/rewrite/join_products.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/transforms/sections/cut_sections.h"
#include "ir/verify/verify.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

static_assert(kLinkClasses.size() == ConversionCosts::kDistances);

Sharding require_even(const Function& function, std::string_view what, const std::string& name,
                      const Type& type, Sharding sharding) {
  GW_REQUIRE(cuts_evenly(type, function.mesh, sharding), function.name, ": ", what, " \"", name,
             "\" ", to_string(type), " can't be cut as ", to_string(function.mesh, sharding),
             " over ", to_string(function.mesh));
  return canonical(function.mesh, std::move(sharding));
}

std::vector<Sharding> parameter_shardings(const Function& global) {
  std::vector<Sharding> shardings;
  for (ValueId p = 0; p < global.parameters.size(); ++p) {
    const Parameter& parameter = global.parameters[p];
    shardings.push_back(require_even(global, "parameter", parameter.name, global.types[p],
                                     resolve(global.mesh, parameter.placements)));
  }
  return shardings;
}

std::vector<Sharding> wanted_shardings(const Compilation& c) {
  const Function& global = c.global;
  std::vector<Sharding> wanted(global.results.size());
  for (size_t r = 0; r < c.context.result_placements.size() && r < wanted.size(); ++r) {
    if (c.context.result_placements[r].empty()) continue;
    wanted[r] =
        require_even(global, "result", global.result_names[r], global.types[global.results[r]],
                     resolve(global.mesh, c.context.result_placements[r]));
  }
  for (const auto& pair : c.context.in_place)
    wanted[pair.result] = c.parameter_shardings[pair.parameter];
  const uint32_t finite = c.context.finite_result;
  if (finite != kNone) wanted[finite] = canonical(global.mesh, replicated(global.mesh));
  return wanted;
}

// All axes cost what links of the kind of device do, wherever the slice lies, so that a strategy's
// collectives are the same on every slice.
ConversionCosts conversion_costs(const CallContext& context, const Mesh& mesh) {
  const DeviceRates& rates = rates_of(context.device_kind);
  constexpr double kPsPerSecond = 1e12;
  const auto ps_per_byte = static_cast<int64_t>(kPsPerSecond / rates.link_bytes_per_s);
  ConversionCosts costs{.launch_ps = rates.launch_ns * 1000,
                        .latency_ps = rates.collective_latency_ns * 1000,
                        .link_ps_per_byte = std::vector<int64_t>(mesh.axes.size(), ps_per_byte)};
  for (const LinkClass link : context.links) costs.distance.push_back(static_cast<int>(link));
  return costs;
}

void verify(Compilation& c) {
  require_valid(c.global);
  GW_REQUIRE(!c.global.local, c.global.name, ": compile takes a function in the global view");
  c.parameter_shardings = parameter_shardings(c.global);
  c.result_shardings = wanted_shardings(c);
}

void simplify_global(Compilation& c) {
  c.function = simplify(c.global, c.record == nullptr ? nullptr : &c.record->simplified);
}

void place(Compilation& c) {
  c.propagation = propagate_shardings(c.function, c.parameter_shardings, c.result_shardings);
}

void make_local(Compilation& c) {
  const ConversionCosts costs = conversion_costs(c.context, c.global.mesh);
  const auto records = c.record == nullptr ? RecordConversions::kNo : RecordConversions::kYes;
  const auto cut = [&] {
    return partition(c.function, c.propagation, c.parameter_shardings, c.result_shardings, costs,
                     records);
  };
  Partitioned partitioned = cut();
  if (c.context.alone && first_meeting(partitioned.function).function != nullptr) {
    // Each device computes all of it then, and keeps its part.
    c.propagation = propagate_shardings(c.function, c.parameter_shardings, {});
    partitioned = cut();
  }
  if (c.record != nullptr) {
    c.record->function = std::move(c.function);
    c.record->propagation = std::move(c.propagation);
    c.record->conversions = std::move(partitioned.conversions);
    c.record->function.shardings = c.record->propagation.shardings;
  }
  c.function = std::move(partitioned.function);
  c.result_shardings = std::move(partitioned.result_shardings);
}

void commit_last(Compilation& c) {
  Ordered ordered = order_commit(c.function, c.context.in_place);
  c.function = std::move(ordered.function);
  c.commit_begin = ordered.commit_begin;
}

void cut_in_sections(Compilation& c) {
  c.sections = cut_sections(c.function, c.commit_begin, rates_of(c.context.device_kind));
}

// A pass before `order_commit` has no commit point to move.
template <auto kPass>
Function local(const Function& function, NodeId&) {
  return kPass(function);
}
Function simplify_local(const Function& function) { return simplify(function); }

constexpr OnBodies kBodiesToo = OnBodies::kYes;
const Pass kPasses[] = {
    {"verify", verify, {}, "the function is valid, and its annotations cut evenly"},
    {"simplify", simplify_global, {}, "dead, repeated and identity nodes are removed"},
    {"propagate_shardings", place, {}, "every value is placed on every mesh axis"},
    {"partition",
     make_local,
     {},
     "types are one device's; collectives convert where a producer and a reader differ"},
    {"simplify_local", local<simplify_local>, {}, "what is dead or repeated on one device is gone"},
    {"join_products", local<join_products>, kBodiesToo,
     "sums of products become one product where that moves less"},
    {"join_losses", local<join_losses>, kBodiesToo,
     "a cross_entropy and its gradient become one node"},
    {"prefetch_gathers",
     local<prefetch_gathers>,
     {},
     "a loop gathers what its next iteration needs while it computes this one"},
    {"own_results", local<own_results>, kBodiesToo, "every result has a buffer of its own"},
    {"combine_all_reduces", local<combine_all_reduces>, kBodiesToo,
     "independent all-reduces become one node with several operands"},
    {"begin_collectives_early", local<begin_collectives_early>, kBodiesToo,
     "collectives that can run beside other nodes stand before them"},
    {"order_commit", commit_last, {}, "nodes that write state stand last, behind the commit point"},
    {"fuse_elementwise", fuse_elementwise, kBodiesToo,
     "chains of element-wise nodes become one `fusion` node"},
    {"remove_dead", remove_dead, kBodiesToo,
     "constants and broadcasts that chains have taken over are removed"},
    {"cut_sections",
     cut_in_sections,
     {},
     "it is known where a device may go over to another program's work"},
};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

void run_pass(const Pass& pass, Compilation& c) {
  if (const auto* whole = std::get_if<CompilationPass>(&pass.run)) return (*whole)(c);
  const LocalPass run = std::get<LocalPass>(pass.run);
  c.function = run(c.function, c.commit_begin);
  if (pass.on_bodies == OnBodies::kNo) return;
  c.function = map_bodies(std::move(c.function), [run](const Function& body) {
    auto end = static_cast<NodeId>(body.nodes.size());  // A body has no commit point.
    return run(body, end);
  });
}

}  // namespace gangway
