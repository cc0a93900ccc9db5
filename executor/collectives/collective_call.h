// CollectiveCall: one collective operation of the members of a group: the kind, each member's
// tensors, and the layout of their parts. Collective::begin(call, poisoned) takes one, of every
// kind.
//
//   kind              in of member i              out of member j                       reads
//   kAllReduce        any number of tensors       the reduction of all members'         reduction
//   kAllGather        part i of a dimension       all parts, in order of members        cut
//   kReduceScatter    a tensor                    part j of the reduction of all        both
//   kAllToAll         n parts of one dimension    the members' parts j, one behind the  cut
//                                                 other along one dimension
//   kRaggedAllToAll   rows, sorted by receiver    the rows for j, sorted by sender      ragged
//   kPermute          a tensor                    that of the member that sends to j    to
//   kBroadcast        a tensor, of `root`         the same                              root
//
// Members are numbered by their rank in the group. A tensor is row-major and dense. If the parts of
// a dimension are not contiguous, since other dimensions come before it, the implementation strides
// over them: the caller need not pack.
//
// Uneven parts. Parts have ceil(rows / n) rows, so the last ones may be short or empty: the rows
// that they lack are *padding* behind their own rows. Padding is not read, in a gather or when
// sent. When parts are written (kReduceScatter, the split dimension of kAllToAll, the rows behind
// those that came in kRaggedAllToAll), padding is set to zero.
//
// Invariants
//  - A call is equal on all members except for addresses, `ragged.sizes` and the `out` of a member.
//  - `out` may be `in` in an all-reduce. In all other kinds the two share no byte.
//  - A reduce-scatter has the bits of an all-reduce: it combines in the same tree, so an all-gather
//    of its parts gives what an all-reduce of the same tensor gives.
//
// Threads: a value.
// Ownership: all memory that it points to is the caller's, and lives until the collective is done.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "executor/collectives/collective.h"
#include "executor/collectives/collective_kind.h"
#include "ir/types/type.h"
#include "runtime/base/error.h"

namespace gangway {

// Which dimensions of `in` are cut, and how `out` differs. Dimensions that are not cut are joined:
// `in` has dims[0..4], of which at most [1] and [3] are cut, in their order.
//
//   all_gather       concat    out has `whole` rows there, at most n times as many as `in`: rows
//                              of the last parts beyond that are dropped
//   reduce_scatter   split     out has `part` rows there
//   all_to_all       both      may be the same dimension, which then is dims[1]
struct CollectiveCut {
  static constexpr int kNotCut = -1;

  std::array<int64_t, 5> dims = {1, 1, 1, 1, 1};
  int split = kNotCut, concat = kNotCut;
  int64_t parts = 1;  // n, if `split` is cut.
  int64_t part = 0;   // ceil(dims[split] / n).
  int64_t whole = 0;  // Rows of dims[concat] in `out`.

  friend bool operator==(const CollectiveCut&, const CollectiveCut&) = default;
};

// The cut for an operand of type `in` and the attributes of the op.
CollectiveCut gather_cut(const Type& in, int dim, int64_t size);
CollectiveCut scatter_cut(const Type& in, int dim, uint32_t parts);
CollectiveCut all_to_all_cut(const Type& in, int split_dim, int concat_dim, uint32_t parts,
                             int64_t size);

// The rows of a kRaggedAllToAll. A size below zero counts as zero, and one beyond the remaining
// rows as all of these. Rows for which a receiver has no room are dropped; `received` has what was
// sent, so its sum shows that. With `must_fit` nothing is moved then: the receiver has a failure(),
// and its peers are poisoned.
struct RaggedRows {
  int64_t row_elements = 0;
  int64_t rows = 0;                // Rows of `in`.
  int64_t bound = 0;               // Rows of `out`.
  bool must_fit = false;           // More rows than that poison the collective.
  const int32_t* sizes = nullptr;  // i32[n]: how many rows are for each member.
  int32_t* received = nullptr;     // i32[n]: how many came from each.
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  // One tensor, except for kAllReduce, which takes any number as one bucket. `elements` counts
  // `in`.
  std::span<const CollectiveTensor> tensors;
  Reduction reduction = Reduction::kSum;
  CollectiveCut cut;
  RaggedRows ragged;
  std::span<const uint32_t> to;  // kPermute: the member that each member sends to.
  uint32_t root = 0;             // kBroadcast.
};

// Whether some of this member's `out` is padding: its part of the split dimension is short.
bool has_padding(const CollectiveCall& call, uint32_t rank);
// Bytes of all that a member has as `in`, and of all that it gets as `out`.
int64_t in_bytes(const CollectiveCall& call);
int64_t out_bytes(const CollectiveCall& call);
// Corrects the sizes of ragged rows: none is below zero, and they sum up to at most `rows`.
void keep_to_rows(const int32_t* given, int64_t rows, std::span<int32_t> kept);
// A call in which members exchange sizes, an i32 for each. `tensor` must live until it is done.
CollectiveCall sizes_call(const CollectiveTensor& tensor, uint32_t members);
// Called once the number of ragged rows is known, if all must fit: returns rows_overflow(), or
// null.
std::shared_ptr<const Error> overflow_of(const CollectiveCall& call, uint32_t members);
// Size of the call for CompiledFunction::add_need(), from which the plan sizes the members' memory.
int64_t bytes_needed(const CollectiveCall& call);

}  // namespace gangway
