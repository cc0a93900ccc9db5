#include "executor/collectives/collective_call.h"

#include <numeric>

#include "ir/plan/rows_overflow.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

// Product of the dimensions [first, last).
int64_t product(const Type& type, size_t first, size_t last) {
  int64_t n = 1;
  for (size_t d = first; d < last; ++d) n *= type.dims[d];
  return n;
}

// In the result dims[1] is dimension `dim`.
CollectiveCut cut_at(const Type& in, size_t dim) {
  CollectiveCut cut;
  cut.dims = {product(in, 0, dim), in.dims[dim], product(in, dim + 1, in.dims.size()), 1, 1};
  return cut;
}

}  // namespace

CollectiveCut gather_cut(const Type& in, int dim, int64_t size) {
  CollectiveCut cut = cut_at(in, static_cast<size_t>(dim));
  cut.concat = 1;
  cut.whole = size;
  return cut;
}

CollectiveCut scatter_cut(const Type& in, int dim, uint32_t parts) {
  CollectiveCut cut = cut_at(in, static_cast<size_t>(dim));
  cut.split = 1;
  cut.parts = parts;
  cut.part = ceil_div(cut.dims[1], int64_t{parts});
  return cut;
}

CollectiveCut all_to_all_cut(const Type& in, int split_dim, int concat_dim, uint32_t parts,
                             int64_t size) {
  const auto first = static_cast<size_t>(std::min(split_dim, concat_dim));
  const auto second = static_cast<size_t>(std::max(split_dim, concat_dim));
  CollectiveCut cut = cut_at(in, first);
  if (first != second) {
    cut.dims[2] = product(in, first + 1, second);
    cut.dims[3] = in.dims[second];
    cut.dims[4] = product(in, second + 1, in.dims.size());
  }
  cut.split = split_dim <= concat_dim ? 1 : 3;
  cut.concat = concat_dim <= split_dim ? 1 : 3;
  cut.parts = parts;
  cut.part = ceil_div(cut.dims[static_cast<size_t>(cut.split)], int64_t{parts});
  cut.whole = size;
  return cut;
}

// Every part before the first short one is full.
bool has_padding(const CollectiveCall& call, uint32_t rank) {
  if (call.cut.split == CollectiveCut::kNotCut) return false;
  const int64_t rows = call.cut.dims[static_cast<size_t>(call.cut.split)];
  return rows < call.cut.part * (rank + int64_t{1});
}

int64_t in_bytes(const CollectiveCall& call) {
  int64_t bytes = 0;
  for (const CollectiveTensor& tensor : call.tensors) bytes += bytes_of(tensor);
  return bytes;
}

int64_t out_bytes(const CollectiveCall& call) {
  if (call.tensors.empty() || call.kind == CollectiveKind::kAllReduce) return in_bytes(call);
  const auto size = static_cast<int64_t>(size_of(call.tensors[0].dtype));
  if (call.kind == CollectiveKind::kRaggedAllToAll)
    return call.ragged.bound * call.ragged.row_elements * size;
  std::array<int64_t, 5> dims = call.cut.dims;
  const bool cut = call.kind == CollectiveKind::kAllGather ||
                   call.kind == CollectiveKind::kReduceScatter ||
                   call.kind == CollectiveKind::kAllToAll;
  if (!cut) return in_bytes(call);
  if (call.cut.split != CollectiveCut::kNotCut)
    dims[static_cast<size_t>(call.cut.split)] = call.cut.part;
  if (call.cut.concat != CollectiveCut::kNotCut)
    dims[static_cast<size_t>(call.cut.concat)] = call.cut.whole;
  return dims[0] * dims[1] * dims[2] * dims[3] * dims[4] * size;
}

void keep_to_rows(const int32_t* given, int64_t rows, std::span<int32_t> kept) {
  for (size_t m = 0; m < kept.size(); ++m) {
    kept[m] = static_cast<int32_t>(std::clamp<int64_t>(given[m], 0, rows));
    rows -= kept[m];
  }
}

CollectiveCall sizes_call(const CollectiveTensor& tensor, uint32_t members) {
  CollectiveCall call{.kind = CollectiveKind::kAllToAll, .tensors = {&tensor, 1}};
  call.cut = {.dims = {1, members, 1, 1, 1},
              .split = 1,
              .concat = 1,
              .parts = members,
              .part = 1,
              .whole = members};
  return call;
}

std::shared_ptr<const Error> overflow_of(const CollectiveCall& call, uint32_t members) {
  if (!call.ragged.must_fit) return nullptr;
  const int32_t* received = call.ragged.received;
  const int64_t rows = std::accumulate(received, received + members, int64_t{0});
  if (rows <= call.ragged.bound) return nullptr;
  return std::make_shared<const Error>(rows_overflow(rows, call.ragged.bound));
}

int64_t bytes_needed(const CollectiveCall& call) {
  int64_t bytes = std::max(in_bytes(call), out_bytes(call));
  // Sizes of rows are sent even if there are no rows.
  if (call.kind == CollectiveKind::kRaggedAllToAll) bytes = std::max<int64_t>(bytes, 64);
  // A library reduces full parts.
  if (call.kind == CollectiveKind::kReduceScatter)
    bytes = std::max(bytes, call.cut.parts * out_bytes(call));
  return bytes;
}

}  // namespace gangway
