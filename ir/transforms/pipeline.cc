#include "ir/transforms/pipeline.h"

#include <algorithm>
#include <utility>

#include "ir/graph/bodies.h"
#include "ir/plan/rates.h"
#include "ir/transforms/compile_record.h"
#include "ir/transforms/conversions/combine_all_reduces.h"
#include "ir/transforms/conversions/keep_rows_there.h"
#include "ir/transforms/conversions/sorted_rows.h"
#include "ir/transforms/fusion/fuse_elementwise.h"
#include "ir/transforms/memory/own_results.h"
#include "ir/transforms/order_commit.h"
#include "ir/transforms/overlap/begin_early.h"
#include "ir/transforms/overlap/prefetch_gathers.h"
#include "ir/transforms/rewrite/body_uses.h"
#include "ir/transforms/rewrite/join_losses.h"
#include "ir/transforms/rewrite/join_products.h"
#include "ir/transforms/rewrite/pack_attention.h"
#include "ir/transforms/rewrite/simplify.h"
#include "ir/transforms/sections/cut_sections.h"
#include "ir/verify/verify.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

static_assert(kLinkClasses.size() == ConversionCosts::kDistances);

std::vector<Sharding> parameter_shardings(const Function& global) {
  std::vector<Sharding> shardings;
  for (ValueId p = 0; p < global.parameters.size(); ++p) {
    const Parameter& parameter = global.parameters[p];
    Sharding sharding = resolve(global.mesh, parameter.placements);
    GW_REQUIRE(cuts_evenly(global.types[p], global.mesh, sharding), global.name, ": parameter \"",
               parameter.name, "\" ", to_string(global.types[p]), " can't be cut as ",
               to_string(global.mesh, sharding), " over ", to_string(global.mesh));
    shardings.push_back(std::move(sharding));
  }
  return shardings;
}

// An empty one stays open.
void make_canonical(const Mesh& mesh, std::vector<Sharding>& shardings) {
  for (Sharding& sharding : shardings) sharding = canonical(mesh, std::move(sharding));
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

Function join(const Function& function) { return join_losses(join_products(function)); }

Function finish_collectives(Function function) {
  return begin_collectives_early(combine_all_reduces(own_results(std::move(function))));
}

// Bodies have no commit point.
Function fuse_body(const Function& body) {
  auto end = static_cast<NodeId>(body.nodes.size());
  const Function fused = fuse_elementwise(body, end);
  return remove_dead(fused, end);
}

}  // namespace

Compiled compile_function(const Function& global, const CallContext& context,
                          const PassWatch& watch, CompileRecord* record) {
  const auto begin = [&](std::string_view pass) {
    if (watch) watch(pass);
  };
  begin("verify");
  require_valid(global);
  GW_REQUIRE(!global.local, global.name, ": compile takes a function in the global view");
  Compiled compiled;
  compiled.parameter_shardings = parameter_shardings(global);
  std::vector<Sharding> wanted(global.results.size());
  for (size_t r = 0; r < context.result_placements.size() && r < wanted.size(); ++r) {
    if (context.result_placements[r].empty()) continue;
    wanted[r] = resolve(global.mesh, context.result_placements[r]);
    const Type& type = global.types[global.results[r]];
    GW_REQUIRE(cuts_evenly(type, global.mesh, wanted[r]), global.name, ": result \"",
               global.result_names[r], "\" ", to_string(type), " can't be cut as ",
               to_string(global.mesh, wanted[r]), " over ", to_string(global.mesh));
  }
  for (const auto& pair : context.in_place)
    wanted[pair.result] = compiled.parameter_shardings[pair.parameter];
  if (context.finite_result != kNone) wanted[context.finite_result] = replicated(global.mesh);

  make_canonical(global.mesh, compiled.parameter_shardings);
  make_canonical(global.mesh, wanted);

  begin("simplify");
  SimplifiedFunctions kept;
  Function simplified = simplify(global, record == nullptr ? nullptr : &kept);
  begin("propagate shardings");
  Propagation propagation = propagate_shardings(simplified, compiled.parameter_shardings, wanted);
  begin("partition");
  const ConversionCosts costs = conversion_costs(context, global.mesh);
  const auto records = record == nullptr ? RecordConversions::kNo : RecordConversions::kYes;
  Partitioned partitioned =
      partition(simplified, propagation, compiled.parameter_shardings, wanted, costs, records);
  if (context.alone && first_meeting(partitioned.function).function != nullptr) {
    // Each device computes all of it then, and keeps its part.
    propagation = propagate_shardings(simplified, compiled.parameter_shardings, {});
    partitioned =
        partition(simplified, propagation, compiled.parameter_shardings, wanted, costs, records);
  }
  if (record != nullptr) {
    *record = {.function = std::move(simplified),
               .simplified = std::move(kept),
               .propagation = std::move(propagation),
               .conversions = std::move(partitioned.conversions)};
    record->function.shardings = record->propagation.shardings;
  }
  compiled.result_shardings = std::move(partitioned.result_shardings);
  begin("combine collectives");
  Function local = keep_rows_there(simplify(partitioned.function));
  local = pack_attention(map_bodies(leave_sorted_rows(local), leave_sorted_rows));
  local = prefetch_gathers(map_bodies(join(local), join));
  Function combined = finish_collectives(map_bodies(local, finish_collectives));
  Ordered ordered = order_commit(combined, context.in_place);
  NodeId commit_begin = ordered.commit_begin;
  begin("fuse");
  Function fused = fuse_elementwise(ordered.function, commit_begin);
  // Constants and broadcasts that were pulled into chains are dead now.
  Function final = map_bodies(remove_dead(fused, commit_begin), fuse_body);
  compiled.local = {.function = std::make_shared<const Function>(std::move(final)),
                    .commit_begin = commit_begin,
                    .in_place = context.in_place,
                    .finite_result = context.finite_result};
  begin("cut sections");
  compiled.local.sections = cut_sections(compiled.local, rates_of(context.device_kind));
  return compiled;
}

}  // namespace gangway
