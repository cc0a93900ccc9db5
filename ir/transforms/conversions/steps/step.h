// Step: one edge of the graph of layouts (conversions/layout.h), one local op on every device; and
// StepKind: all that is known of a kind of edge. Each kind has a file of its own in this folder,
// kinds.cc lists them.
//
// A kind says which steps lead away from a layout, what a member then sends, and which attributes
// the local op has. To add a kind: a file like its neighbours, its golden test, a line in kinds.cc.
//
// Shapes: a step takes one device's part under the layout before to its part under `after`
// (local_dims); rows of a part behind the tensor's end are zero before and after.
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/op_table/op.h"
#include "ir/transforms/conversions/layout.h"
#include "ir/types/attrs.h"

namespace gangway::conversions {

struct Step {
  Op op = Op::shard_slice;
  Axes axes;        // The members of one group differ along these; outer first.
  Axes to;          // permute: the same axes in the order in which receivers count.
  int dim = -1;     // The dimension that loses its cut by `axes`, or -1.
  int to_dim = -1;  // The dimension that gains it, or -1.
  Reduction reduction = Reduction::kSum;  // Reduction of the terms along `axes`.
  Layout after;
};

// The ends and limits of one conversion.
struct Conversion {
  const Type& global;
  const Mesh& mesh;
  Layout to;
  // The axes whose placement differs, and those that cut a dimension inside of such a one:
  // ascending. All other axes stay as they are.
  Axes moving;
  // For each dimension: number of its outermost cuts that stay.
  std::vector<size_t> kept;
  // Every step is offered. Else, with many axes to move: permutations that end the conversion, and
  // of the sets of axes each axis alone and all together.
  bool exhaustive = true;

  bool moves(int axis) const;
  int64_t rows(const Layout& at, size_t dim) const;  // Rows of one device's part.
  // The innermost `count` axes that cut a dimension, and the rows that they cut.
  std::span<const int> innermost(const Layout& at, size_t dim, size_t count) const;
  int64_t rows_cut_by(const Layout& at, size_t dim, size_t count) const;
  // Number of cuts of a dimension that move.
  size_t movable(const Layout& at, size_t dim) const { return at.cuts[dim].size() - kept[dim]; }
  Axes moving_partial(const Layout& at) const;
  Axes moving_replicated(const Layout& at) const;
  int64_t local_bytes(const Layout& at) const;
};

// Sets of `axes`, ascending: what one reduction can be over.
std::vector<Axes> subsets(const Conversion& conversion, const Axes& axes);
// Lists of `axes`: what one dimension can be cut by.
std::vector<Axes> ordered_subsets(const Conversion& conversion, const Axes& axes);
// The rows of other members' parts, of `rows` that are cut in `parts` of one size; of the member
// that has the smallest part itself.
int64_t rows_of_others(int64_t rows, int64_t parts);
// The bytes of one row of a device's part, all other dimensions being whole.
int64_t row_bytes(const Conversion& conversion, const Layout& at, size_t dim);
std::string names_of(const Mesh& mesh, const Axes& axes);  // "data,model"

struct StepKind {
  Op op;
  bool sends = false;  // False: the devices do not meet.
  void (*offer)(const Conversion&, const Layout& at, std::vector<Step>& out);
  // Bytes that the member sends that sends most. Rows that a part lacks, and rows that are dropped,
  // are not sent.
  int64_t (*bytes)(const Conversion&, const Layout& before, const Step&);
  Attrs (*attrs)(const Mesh&, const Step&, const Dims& local_after);
};

extern const StepKind kSlice, kAllGather, kAllToAll, kPermute, kReduceScatter, kAllReduce,
    kKeepFirst;

// In the order in which a tie between two paths is settled.
std::span<const StepKind* const> step_kinds();
const StepKind& kind_of(Op op);

}  // namespace gangway::conversions
