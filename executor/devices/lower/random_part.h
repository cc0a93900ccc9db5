// The elements of a random tensor that a device draws: all of it, or, by the node's attributes, its
// own part of the whole.
//
// Element (i..., c) of the part [sizes..., cols] is number first + i... * strides... + c of the
// sequence, where `first` is the device's. Inner dimensions that are contiguous in the whole are
// joined in cols, and contiguous outer ones with one another.
// Threads: a value, immutable; safe anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/devices/lower/node_view.h"
#include "ir/boxes/boxes.h"

namespace gangway {

class RandomPart {
 public:
  explicit RandomPart(const NodeView& node);

  const std::vector<int64_t>& sizes() const { return sizes_; }
  const std::vector<int64_t>& strides() const { return strides_; }  // In elements of the whole.
  int64_t cols() const { return cols_; }
  // First elements of every device of the mesh; only one if all draw the same.
  std::vector<int64_t> firsts() const;

 private:
  int64_t first_of(int64_t mesh_device) const;

  Type whole_;
  MeshSharding cut_;
  bool is_whole_ = false;
  std::vector<int64_t> sizes_, strides_;  // Outer dimensions first.
  int64_t cols_ = 1;
  int64_t offset_ = 0;
};

}  // namespace gangway
