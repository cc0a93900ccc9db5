// CollectiveCase: one collective of any kind but an all-reduce, drawn from a seed: shapes, types,
// even and uneven cuts, each member's input, and the result that it must get. Results are computed
// element by element from coordinates, and share no code with the implementation.
//
// Moved elements encode their member and index; reduced elements are small whole numbers, whose
// reduction is the same in every order of members.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "runtime/base/rng.h"

namespace gangway {

class CollectiveCase {
 public:
  CollectiveCase(Rng& rng, CollectiveKind kind, uint32_t members, int64_t elements_max);

  // A member's tensors. `out` holds garbage before the call.
  struct Data {
    std::vector<std::byte> in, out;
    std::vector<int32_t> sizes, received;
    CollectiveTensor tensor;  // The call's tensor.
  };
  Data data(uint32_t rank) const;
  // Points into `data`.
  CollectiveCall call(Data& data) const;
  bool is_right(uint32_t rank, const Data& data) const;

  // For a broadcast: the same case with another root.
  CollectiveCase from(uint32_t root) const;

  CollectiveKind kind() const { return kind_; }
  int64_t bytes() const;
  std::string text() const;

 private:
  using Index = std::vector<int64_t>;

  void draw_cut(Rng& rng, int64_t elements_max);
  void draw_ragged(Rng& rng, int64_t elements_max);
  void draw_permutation(Rng& rng);
  Type out_type() const;
  std::vector<std::byte> want(uint32_t rank) const;
  void add_ragged(uint32_t rank, std::vector<std::byte>& out) const;
  // Index of element `at` of member `from` in `out` of member `to`; -1 if it is not there.
  int64_t target(uint32_t from, uint32_t to, int64_t at) const;
  int64_t rows_for(uint32_t from, uint32_t to) const { return rows_[from][to]; }

  CollectiveKind kind_;
  uint32_t members_;
  uint64_t seed_ = 0;
  Type in_;
  int dim_ = 0, to_dim_ = 0;  // split_dim and concat_dim of an all_to_all.
  int64_t size_ = 0;          // Size of the concatenated dimension.
  Reduction reduction_ = Reduction::kSum;
  std::vector<uint32_t> to_;
  uint32_t root_ = 0;
  std::vector<std::vector<int32_t>> rows_;  // Number of rows, by sender and receiver.
  int64_t bound_ = 0;
};

// The largest of several draws. If `elements_max` is large, it takes more than one message between
// any two hosts.
CollectiveCase largest_case(Rng& rng, CollectiveKind kind, uint32_t members, int64_t elements_max);

}  // namespace gangway
