#include "tests/conformance/collective_cases.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ir/types/number.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Coordinates of a row-major index.
std::vector<int64_t> coordinates(const Dims& dims, int64_t at) {
  std::vector<int64_t> index(dims.size());
  for (size_t d = dims.size(); d-- > 0; at /= dims[d]) index[d] = at % dims[d];
  return index;
}
int64_t place(const Dims& dims, const std::vector<int64_t>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < dims.size(); ++d) at = at * dims[d] + index[d];
  return at;
}

bool is_cut(CollectiveKind kind) {
  return kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kAllToAll;
}

int64_t size_in_bytes(const Type& type) { return static_cast<int64_t>(size_of(type.dtype)); }

}  // namespace

CollectiveCase::CollectiveCase(Rng& rng, CollectiveKind kind, uint32_t members,
                               int64_t elements_max)
    : kind_(kind), members_(members), seed_(rng.below(1'000'000)) {
  const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI32, DType::kBool};
  const bool reduces = kind == CollectiveKind::kReduceScatter;
  in_.dtype = dtypes[rng.below(reduces ? 4 : 5)];
  reduction_ = static_cast<Reduction>(rng.below(3));
  if (is_cut(kind)) draw_cut(rng, elements_max);
  if (kind == CollectiveKind::kRaggedAllToAll) draw_ragged(rng, elements_max);
  if (kind == CollectiveKind::kPermute) draw_permutation(rng);
  root_ = static_cast<uint32_t>(rng.below(members));
  if (!in_.dims.empty()) return;
  const int64_t sizes[] = {0, 1, 7, 1001, elements_max};
  in_.dims = {sizes[rng.below(5)]};
}

void CollectiveCase::draw_cut(Rng& rng, int64_t elements_max) {
  const int64_t n = members_;
  const int rank = static_cast<int>(1 + rng.below(3));
  const int64_t others[] = {0, 1, 2, 3, 5, 13};
  for (int d = 0; d < rank; ++d)
    in_.dims.push_back(others[rng.below(16) == 0 ? 0 : 1 + rng.below(5)]);
  dim_ = static_cast<int>(rng.below(static_cast<uint64_t>(rank)));
  to_dim_ = static_cast<int>(rng.below(static_cast<uint64_t>(rank)));
  const auto dim = static_cast<size_t>(dim_), to_dim = static_cast<size_t>(to_dim_);
  const int64_t rest = std::max<int64_t>(1, in_.elements() / std::max<int64_t>(1, in_.dims[dim]));
  // Sizes that are even, one row less or more than even, fewer than members, zero, and large.
  const int64_t sizes[] = {n, 3 * n, 3 * n - 1, 2 * n + 1, n / 2, 0, elements_max / rest};
  in_.dims[dim] = sizes[rng.below(7)];
  if (kind_ == CollectiveKind::kAllGather) in_.dims[dim] = ceil_div(in_.dims[dim], n);
  const bool same = kind_ == CollectiveKind::kAllGather || dim == to_dim;
  const int64_t part = kind_ == CollectiveKind::kAllGather ? in_.dims[dim]
                       : same                              ? ceil_div(in_.dims[dim], n)
                                                           : in_.dims[to_dim];
  size_ = part * n - static_cast<int64_t>(rng.below(static_cast<uint64_t>(part * n / 2 + 1)));
}

void CollectiveCase::draw_ragged(Rng& rng, int64_t elements_max) {
  const auto width = static_cast<int64_t>(1 + rng.below(5));
  const int64_t rows = std::max<int64_t>(1, elements_max / width / members_);
  const uint64_t most = rng.below(4) == 0 ? static_cast<uint64_t>(rows) : 6;
  rows_.assign(members_, std::vector<int32_t>(members_, 0));
  std::vector<int64_t> received(members_, 0), sent(members_, 0);
  for (uint32_t i = 0; i < members_; ++i) {
    for (uint32_t j = 0; j < members_; ++j) {
      if (rng.below(4) != 0)
        rows_[i][j] =
            static_cast<int32_t>(rng.below(std::min(most, static_cast<uint64_t>(rows)) + 1));
      sent[i] += rows_[i][j];
      received[j] += rows_[i][j];
    }
  }
  in_.dims = {std::ranges::max(sent) + static_cast<int64_t>(rng.below(3)), width};
  // Sometimes a receiver has no room for all.
  bound_ =
      std::max<int64_t>(0, std::ranges::max(received) + 3 - static_cast<int64_t>(rng.below(6)));
}

void CollectiveCase::draw_permutation(Rng& rng) {
  to_.resize(members_);
  std::iota(to_.begin(), to_.end(), 0);
  for (uint32_t m = members_; m-- > 1;) std::swap(to_[m], to_[rng.below(m + 1)]);
}

Type CollectiveCase::out_type() const {
  Type out = in_;
  const auto dim = static_cast<size_t>(dim_), to_dim = static_cast<size_t>(to_dim_);
  if (kind_ == CollectiveKind::kAllGather) out.dims[dim] = size_;
  if (kind_ == CollectiveKind::kReduceScatter || kind_ == CollectiveKind::kAllToAll)
    out.dims[dim] = ceil_div(in_.dims[dim], int64_t{members_});
  if (kind_ == CollectiveKind::kAllToAll) out.dims[to_dim] = size_;
  if (kind_ == CollectiveKind::kRaggedAllToAll) out.dims[0] = bound_;
  return out;
}

CollectiveCase CollectiveCase::from(uint32_t root) const {
  CollectiveCase other = *this;
  other.root_ = root;
  return other;
}

int64_t CollectiveCase::bytes() const {
  Data any = data(0);
  return bytes_needed(call(any));
}

std::string CollectiveCase::text() const {
  return cat(to_string(kind_), " of ", to_string(in_), " to ", to_string(out_type()), " along ",
             dim_, " and ", to_dim_, ", root ", root_, ", ", members_, " members");
}

CollectiveCase::Data CollectiveCase::data(uint32_t rank) const {
  Data data;
  const int64_t size = size_in_bytes(in_);
  data.in.resize(static_cast<size_t>(in_.bytes()));
  data.out.assign(static_cast<size_t>(out_type().bytes()), std::byte{0xA5});
  for (int64_t i = 0; i < in_.elements(); ++i) {
    std::byte* at = data.in.data() + i * size;
    if (kind_ == CollectiveKind::kReduceScatter) {
      Rng rng(seed_ + rank, static_cast<uint64_t>(i));
      store_number(in_.dtype, static_cast<double>(rng.below(17)) - 8, at);
      continue;
    }
    // A prime, so that the lowest byte alone tells members apart.
    const uint64_t bits = seed_ + rank * uint64_t{1'000'003} + static_cast<uint64_t>(i);
    if (in_.dtype == DType::kBool) {
      *at = static_cast<std::byte>(bits * 2'654'435'761u >> 17 & 1);
    } else {
      // These bits are no NaN in a float.
      const uint64_t value = bits & (in_.dtype == DType::kBF16 ? 0x3fff : 0x3fff'ffff);
      std::memcpy(at, &value, static_cast<size_t>(size));
    }
  }
  if (kind_ == CollectiveKind::kRaggedAllToAll) data.sizes = rows_[rank];
  data.received.assign(data.sizes.size(), -1);
  return data;
}

CollectiveCall CollectiveCase::call(Data& data) const {
  data.tensor = {data.in.data(), data.out.data(), in_.elements(), in_.dtype};
  CollectiveCall call{.kind = kind_,
                      .tensors = {&data.tensor, 1},
                      .reduction = reduction_,
                      .cut = {},
                      .ragged = {},
                      .to = to_,
                      .root = root_};
  if (kind_ == CollectiveKind::kAllGather) call.cut = gather_cut(in_, dim_, size_);
  if (kind_ == CollectiveKind::kReduceScatter) call.cut = scatter_cut(in_, dim_, members_);
  if (kind_ == CollectiveKind::kAllToAll)
    call.cut = all_to_all_cut(in_, dim_, to_dim_, members_, size_);
  if (kind_ == CollectiveKind::kRaggedAllToAll)
    call.ragged = {.row_elements = in_.dims[1],
                   .rows = in_.dims[0],
                   .bound = bound_,
                   .sizes = data.sizes.data(),
                   .received = data.received.data()};
  return call;
}

int64_t CollectiveCase::target(uint32_t from, uint32_t to, int64_t at) const {
  if (kind_ == CollectiveKind::kPermute) return to_[from] == to ? at : -1;
  if (kind_ == CollectiveKind::kBroadcast) return from == root_ ? at : -1;
  const Type out = out_type();
  std::vector<int64_t> index = coordinates(in_.dims, at);
  int64_t& split = index[static_cast<size_t>(dim_)];
  if (kind_ != CollectiveKind::kAllGather) {
    const int64_t part = out.dims[static_cast<size_t>(dim_)];
    const int64_t rows = kind_ == CollectiveKind::kAllToAll && dim_ == to_dim_
                             ? ceil_div(in_.dims[static_cast<size_t>(dim_)], int64_t{members_})
                             : part;
    if (split / rows != to) return -1;
    split %= rows;
    if (kind_ == CollectiveKind::kReduceScatter) return place(out.dims, index);
    const int64_t each = dim_ == to_dim_ ? rows : in_.dims[static_cast<size_t>(to_dim_)];
    index[static_cast<size_t>(to_dim_)] += each * from;
    return index[static_cast<size_t>(to_dim_)] < size_ ? place(out.dims, index) : -1;
  }
  split += in_.dims[static_cast<size_t>(dim_)] * from;
  return split < size_ ? place(out.dims, index) : -1;
}

void CollectiveCase::add_ragged(uint32_t rank, std::vector<std::byte>& out) const {
  const auto row = static_cast<size_t>(in_.dims[1] * size_in_bytes(in_));
  size_t at = 0;
  for (uint32_t from = 0; from < members_; ++from) {
    const Data given = data(from);
    size_t read = 0;
    for (uint32_t to = 0; to < rank; ++to) read += static_cast<size_t>(rows_for(from, to)) * row;
    for (int64_t r = 0; r < rows_for(from, rank) && at + row <= out.size(); ++r, at += row) {
      std::copy_n(given.in.begin() + static_cast<std::ptrdiff_t>(read), row,
                  out.begin() + static_cast<std::ptrdiff_t>(at));
      read += row;
    }
  }
}

std::vector<std::byte> CollectiveCase::want(uint32_t rank) const {
  const Type type = out_type();
  const int64_t size = size_in_bytes(type);
  std::vector<std::byte> out(static_cast<size_t>(type.bytes()), std::byte{0});
  if (kind_ == CollectiveKind::kRaggedAllToAll) return add_ragged(rank, out), out;
  for (uint32_t from = 0; from < members_; ++from) {
    const Data given = data(from);
    for (int64_t i = 0; i < in_.elements(); ++i) {
      const int64_t at = target(from, rank, i);
      if (at < 0) continue;
      const std::byte* value = given.in.data() + i * size;
      std::byte* to = out.data() + at * size;
      if (kind_ != CollectiveKind::kReduceScatter || from == 0) {
        std::copy_n(value, size, to);
        continue;
      }
      const double a = load_number(type.dtype, to), b = load_number(type.dtype, value);
      store_number(type.dtype,
                   reduction_ == Reduction::kSum   ? a + b
                   : reduction_ == Reduction::kMax ? std::max(a, b)
                                                   : std::min(a, b),
                   to);
    }
  }
  return out;
}

bool CollectiveCase::is_right(uint32_t rank, const Data& data) const {
  if (kind_ == CollectiveKind::kRaggedAllToAll) {
    for (uint32_t from = 0; from < members_; ++from) {
      if (data.received[from] != rows_[from][rank]) return false;
    }
  }
  return data.out == want(rank);
}

CollectiveCase largest_case(Rng& rng, CollectiveKind kind, uint32_t members, int64_t elements_max) {
  CollectiveCase largest(rng, kind, members, elements_max);
  for (int draw = 0; draw < 12; ++draw) {
    CollectiveCase next(rng, kind, members, elements_max);
    if (next.bytes() > largest.bytes()) largest = std::move(next);
  }
  return largest;
}

}  // namespace gangway
