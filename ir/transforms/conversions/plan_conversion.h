// Finds the local ops that take a value from one sharding to another over the same mesh: the
// shortest path in the graph of shardings.
//
// Edges (steps/, one file for each kind):
//
//   slice            replicate -> shard         nothing is sent
//   gather           shard     -> replicate     the innermost cuts of a dimension
//   all-to-all       shard(i)  -> shard(j)      the innermost cuts of i become those of j
//   permute          axes exchange their places; cuts change their order
//   reduce-scatter   partial   -> shard
//   all-reduce       partial   -> replicate
//   keep_first       replicate -> partial(sum)  nothing is sent
//
// A new cut is always the innermost of its dimension. Several axes move in one step where their
// cuts are flat (layout.h). Uneven cuts need no edges of their own: parts are ceil-sized and what
// lies behind the end is zero, which every edge keeps so; where a shortcut would be wrong for them
// the path goes around it.
//
// The length of a path is the sum of its steps' costs (conversion_costs.h); of equal ones the path
// with fewer steps, then the one whose kinds come first in the list above, then the one that sends
// less between far devices: it gathers along a far axis first, while parts are small. Which axes
// are reduced first does not depend on that, so that sums have the same bits. Only axes whose
// placement differs move, and those that cut a dimension inside of such a one: what is the same on
// both sides is left where it is, also where idle axes could share the work.
//
// With up to kAxesSearchedMax axes to move the path is a shortest one. With more, every axis takes
// its old place, its new one or none on the way; and where that leaves more than kLayoutsMax
// layouts to look at, the conversion gathers, reduces and cuts again, one axis at a time.
//
// A replicated value is a partial maximum (minimum) as it stands, so the last `after` may replicate
// where `to` is partial(max).
//
// A planner that has looked at kEdgesMax edges searches no more, and goes that way too.
//
// Threads: values and pure functions; a planner belongs to one thread.
// Errors: kInvalid when a sharding does not fit the type, or mixes two reductions.
// Cost: a search looks at the shardings that are nearer than the wanted one, at most kLayoutsMax of
// them; a planner remembers what it found.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "ir/op_table/op.h"
#include "ir/transforms/conversions/conversion_costs.h"
#include "ir/transforms/conversions/layout.h"
#include "ir/types/attrs.h"

namespace gangway {

inline constexpr size_t kAxesSearchedMax = 3;
inline constexpr uint64_t kEdgesMax = uint64_t{1} << 21;
inline constexpr size_t kLayoutsMax = 1500;  // All of three axes and eight dimensions: 1256.

// One local op on every device.
struct ConversionStep {
  Op op = Op::shard_slice;
  Attrs attrs;
  std::vector<int> axes;  // Mesh axes along which its members differ, outer first.
  int dim = -1;           // The dimension that loses its cut by these axes, or -1.
  int to_dim = -1;        // The dimension that gains it, or -1.
  Sharding after;
  int64_t bytes = 0;  // Bytes that the member sends that sends most.
};

struct ConversionPath {
  std::vector<ConversionStep> steps;
  int64_t cost_ps = 0;
};

// The conversions of one compile: each is looked for once.
class ConversionPlanner {
 public:
  ConversionPlanner(Mesh mesh, ConversionCosts costs, uint64_t edges_max = kEdgesMax)
      : mesh_(std::move(mesh)), costs_(std::move(costs)), edges_max_(edges_max) {}

  // Stays valid while the planner lives.
  const ConversionPath& plan(const Type& global, const Sharding& from, const Sharding& to);
  // How many edges it has looked at.
  uint64_t edges_seen() const { return edges_seen_; }

 private:
  using Key = std::tuple<DType, Dims, conversions::Layout, conversions::Layout>;

  Mesh mesh_;
  ConversionCosts costs_;
  uint64_t edges_max_;
  std::map<Key, ConversionPath> known_;
  uint64_t edges_seen_ = 0;
};

}  // namespace gangway
