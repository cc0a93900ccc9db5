// Bucket: the tensors of one all-reduce as one row of bytes, so that a range of it can be cut, sent
// and combined without visiting tensors one by one.
//
// There are two rows, which hold the same elements in the same order: as they are stored, and as
// partials (rank_tree.h). Every tensor begins at a multiple of 64 bytes in both. Cuts are made in
// *lines* of 64 bytes of the row of partials, so no element is cut, and threads that work on two
// ranges share no cache line.
//
// Threads: a value. Cost: keeps its capacity from one bucket to the next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/collectives/hosts/rank_tree.h"
#include "runtime/base/align.h"

namespace gangway {

inline constexpr int64_t kLineBytes = 64;

struct LineRange {
  int64_t begin = 0, end = 0;

  int64_t lines() const { return end - begin; }
  // Part `index` of `parts` equal ones, up to a line; the same on all hosts.
  LineRange part(int64_t first, int64_t last, int64_t parts) const {
    return {begin + lines() * first / parts, begin + lines() * last / parts};
  }
};

class Bucket {
 public:
  // A piece of one tensor.
  struct Piece {
    size_t tensor = 0;
    int64_t first = 0, count = 0;     // Elements.
    int64_t stored = 0, partial = 0;  // Where it begins in the two rows.
  };

  void set(std::span<const CollectiveTensor> tensors) {
    tensors_.assign(tensors.begin(), tensors.end());
    places_.clear();
    stored_bytes_ = partial_bytes_ = 0;
    for (const CollectiveTensor& tensor : tensors_) {
      places_.push_back({stored_bytes_, partial_bytes_});
      stored_bytes_ += align_up(tensor.elements * stored_size(tensor), kLineBytes);
      partial_bytes_ += align_up(tensor.elements * partial_bytes_of(tensor.dtype), kLineBytes);
    }
  }

  std::span<const CollectiveTensor> tensors() const { return tensors_; }
  // Sizes of the two rows.
  int64_t stored_bytes() const { return stored_bytes_; }
  int64_t partial_bytes() const { return partial_bytes_; }
  LineRange lines() const { return {0, partial_bytes_ / kLineBytes}; }
  static int64_t stored_size(const CollectiveTensor& tensor) {
    return static_cast<int64_t>(size_of(tensor.dtype));
  }

  // body(piece) for each piece in the range, in order.
  template <class Body>
  void for_each(const LineRange& range, Body body) const {
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const int64_t size = partial_bytes_of(tensors_[t].dtype);
      const auto element_at = [&](int64_t line) {
        return std::clamp<int64_t>((line * kLineBytes - places_[t].partial) / size, 0,
                                   tensors_[t].elements);
      };
      const int64_t first = element_at(range.begin), count = element_at(range.end) - first;
      if (count <= 0) continue;
      body(Piece{t, first, count, places_[t].stored + first * stored_size(tensors_[t]),
                 places_[t].partial + first * size});
    }
  }
  // Bytes of all elements, without the gaps between tensors.
  int64_t partial_bytes(const LineRange& range) const {
    int64_t bytes = 0;
    for_each(range, [&](const Piece& piece) {
      bytes += piece.count * partial_bytes_of(tensors_[piece.tensor].dtype);
    });
    return bytes;
  }
  int64_t stored_bytes(const LineRange& range) const {
    int64_t bytes = 0;
    for_each(range, [&](const Piece& piece) {
      bytes += piece.count * stored_size(tensors_[piece.tensor]);
    });
    return bytes;
  }

 private:
  struct Place {
    int64_t stored, partial;
  };
  std::vector<CollectiveTensor> tensors_;
  std::vector<Place> places_;
  int64_t stored_bytes_ = 0, partial_bytes_ = 0;
};

}  // namespace gangway
