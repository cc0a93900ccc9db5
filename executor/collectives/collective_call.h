// CollectiveCall: what the members of a group do together, once: the kind, each member's tensors,
// and how parts of them lie. Collective::begin(call, poisoned) takes one, of every kind.
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
// Members are numbered by their rank in the group. A tensor is row-major and dense. Where the parts
// of a dimension lie apart, since other dimensions come before it, the implementation strides over
// them: nobody packs before it calls.
//
// Uneven parts. Parts have ceil(rows / n) rows, so the last ones may be short or empty: what they
// lack is *padding*, and lies behind their rows. Nobody reads it, in a gather or as what is sent;
// where parts are written (kReduceScatter, the split dimension of kAllToAll, the rows behind those
// that came in kRaggedAllToAll) it is set to zero.
//
// Invariants
//  - A call is equal on all members but for addresses, `ragged.sizes` and what `out` a member has.
//  - `out` may be `in` in an all-reduce. In all other kinds the two share no byte.
//  - A reduce-scatter has the bits of an all-reduce: it combines in the same tree, so an all-gather
//    of its parts gives what an all-reduce of the same tensor gives.
//
// Threads: a value.
// Ownership: everything that it points to is the caller's, and lives until the collective is done.
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

// Which dimensions of `in` are cut, and how `out` differs. Dimensions that stay as they are are
// joined: `in` has dims[0..4], of which at most [1] and [3] are cut, in their order.
//
//   all_gather       concat    out has `whole` rows there, at most n times as many as `in`: what
//                              the last parts have beyond is dropped
//   reduce_scatter   split     out has `part` rows there
//   all_to_all       both      may be the same dimension, which then is dims[1]
struct CollectiveCut {
  static constexpr int kNotCut = -1;

  std::array<int64_t, 5> dims = {1, 1, 1, 1, 1};
  int split = kNotCut, concat = kNotCut;
  int64_t parts = 1;  // n, where `split` is cut.
  int64_t part = 0;   // ceil(dims[split] / n).
  int64_t whole = 0;  // Of dims[concat] in `out`.

  friend bool operator==(const CollectiveCut&, const CollectiveCut&) = default;
};

// For an operand of type `in`: as the attributes of the ops say.
CollectiveCut gather_cut(const Type& in, int dim, int64_t size);
CollectiveCut scatter_cut(const Type& in, int dim, uint32_t parts);
CollectiveCut all_to_all_cut(const Type& in, int split_dim, int concat_dim, uint32_t parts,
                             int64_t size);

// The rows of a kRaggedAllToAll. A size below zero counts as none, one beyond the rows that are
// left as those. Rows for which a receiver has no room are dropped; `received` says what was sent,
// so its sum tells of them. Where all must fit, nothing is moved then: the receiver has a
// failure(), and its peers are poisoned.
struct RaggedRows {
  int64_t row_elements = 0;
  int64_t rows = 0;                // Of `in`.
  int64_t bound = 0;               // Of `out`.
  bool must_fit = false;           // More rows than that poison the collective.
  const int32_t* sizes = nullptr;  // i32[n]: how many rows are for each member.
  int32_t* received = nullptr;     // i32[n]: how many came from each.
};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  // One, but for kAllReduce, which takes any number as one bucket. `elements` counts `in`.
  std::span<const CollectiveTensor> tensors;
  Reduction reduction = Reduction::kSum;
  CollectiveCut cut;
  RaggedRows ragged;
  std::span<const uint32_t> to;  // kPermute: by member, to whom it sends; a permutation.
  uint32_t root = 0;             // kBroadcast.
};

// Whether some of this member's `out` is padding: its part of the split dimension is short.
bool has_padding(const CollectiveCall& call, uint32_t rank);
// Of all that a member has as `in`, and of all that it gets as `out`.
int64_t in_bytes(const CollectiveCall& call);
int64_t out_bytes(const CollectiveCall& call);
// Sizes of ragged rows that can be kept to, whatever `given` says: none below zero, `rows` in all.
void keep_to_rows(const int32_t* given, int64_t rows, std::span<int32_t> kept);
// In which so many members tell one another sizes: of an i32 for each, `tensor`, which must live
// until it is done.
CollectiveCall sizes_call(const CollectiveTensor& tensor, uint32_t members);
// Of ragged rows once it is known how many came, where all must fit: rows_overflow(), or null.
std::shared_ptr<const Error> overflow_of(const CollectiveCall& call, uint32_t members);
// What the plan is told with CompiledFunction::add_need(), so that it sizes what members need.
int64_t bytes_needed(const CollectiveCall& call);

}  // namespace gangway
