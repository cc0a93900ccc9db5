// CollectiveCase: one collective of any kind but an all-reduce, drawn from a seed: shapes, types,
// cuts that are even or not; what each member has, and what it must get, found element by element
// from coordinates, without a line of the implementation's.
//
// What is moved holds the member and the place that it came from; what is reduced are small whole
// numbers, whose reduction every order of members gives.
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

  // A member's tensors. `out` holds rubbish before.
  struct Data {
    std::vector<std::byte> in, out;
    std::vector<int32_t> sizes, received;
    CollectiveTensor tensor;  // Of the call.
  };
  Data data(uint32_t rank) const;
  // Points into `data`.
  CollectiveCall call(Data& data) const;
  bool is_right(uint32_t rank, const Data& data) const;

  // Of a broadcast: the same from another member.
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
  // Where element `at` of member `from` lies in `out` of member `to`; -1: nowhere.
  int64_t target(uint32_t from, uint32_t to, int64_t at) const;
  int64_t rows_for(uint32_t from, uint32_t to) const { return rows_[from][to]; }

  CollectiveKind kind_;
  uint32_t members_;
  uint64_t seed_ = 0;
  Type in_;
  int dim_ = 0, to_dim_ = 0;  // split_dim and concat_dim of an all_to_all.
  int64_t size_ = 0;          // Of the dimension that is put together.
  Reduction reduction_ = Reduction::kSum;
  std::vector<uint32_t> to_;
  uint32_t root_ = 0;
  std::vector<std::vector<int32_t>> rows_;  // By sender, by receiver.
  int64_t bound_ = 0;
};

// The largest of some draws: of many elements, it takes more than one message between any hosts.
CollectiveCase largest_case(Rng& rng, CollectiveKind kind, uint32_t members, int64_t elements_max);

// Small whole numbers, which every type of number holds.
void write_number(DType dtype, std::byte* at, double value);
double read_number(DType dtype, const std::byte* at);

}  // namespace gangway
