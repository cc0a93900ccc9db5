// The passes from a global function to what one device runs, in their order; one pass per file.
//
//   verify                the input is a valid global function with annotated parameters
//   simplify              dead, repeated and identity nodes are removed (again after partition)
//   propagate_shardings   every value is placed on every mesh axis; explain() can say why
//   partition             local types; conversions where producer and consumer differ: collectives.
//                         From here on bodies of scans and calls are local functions too
//   pack_attention        queries, keys and values become one product that attention reads
//   join_products         sums of products become one product where that moves less
//   join_losses           a cross_entropy and its gradient become one node
//   prefetch_gathers      a loop gathers what its next iteration needs while it computes this one
//   own_results           every result has a buffer of its own
//   combine_all_reduces   independent all-reduces become one node with several operands
//   begin_collectives_early  what can run beside other nodes stands before them
//   order_commit          nodes that write state go last, behind the commit point
//   fuse_elementwise      chains of element-wise nodes become one `fusion` node
//   remove_dead           nodes whose work a chain has taken over are removed
//   cut_sections          where a device may go over to another program's work
//
// Memory is planned later, by the host that knows the device (memory/plan_memory.h), since kernels
// differ in their scratchpads.
// Threads: pure functions.
// Errors: kInvalid with the user's line.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/function.h"
#include "ir/plan/islands.h"
#include "ir/plan/plan.h"

namespace gangway {

// Facts about a function that come from its program.
struct CallContext {
  std::vector<LocalFunction::InPlace> in_place;  // State updates.
  uint32_t finite_result = kNone;
  // The annotated placements. An empty entry takes whatever propagation gives, but is never
  // partial. In-place results have the sharding of their parameter.
  std::vector<AxisPlacements> result_placements;
  std::string device_kind = "cpu";  // Sections are cut by its rates (ir/plan/rates.h).
  // Link class of each mesh axis, from where its devices are (ir/plan/axis_links.h); empty: all
  // alike. It decides between conversions of equal cost, and nothing else.
  std::vector<LinkClass> links = {};
  // Devices can't meet while they install, so no collective may be in it: an initialiser.
  bool alone = false;
};

struct CompileRecord;  // compile_record.h

struct Compiled {
  LocalFunction local;
  std::vector<Sharding> parameter_shardings;
  std::vector<Sharding> result_shardings;
};

// Called with the name of each pass that may take long before the pass begins, for kPassesTold
// passes. An exception from it ends the compile.
using PassWatch = std::function<void(std::string_view pass)>;
inline constexpr size_t kPassesTold = 7;

// `record` receives the decisions of the passes; null: no record is kept.
Compiled compile_function(const Function& global, const CallContext& context,
                          const PassWatch& watch = {}, CompileRecord* record = nullptr);

}  // namespace gangway
