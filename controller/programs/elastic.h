// Shrinking: the smaller meshes that a slice may have if too few devices are left for it, along
// the axes that its program calls elastic (RecoveryOptions::elastic).
//
// The first axis is halved as often as it can be in all programs of the slice, then the next one.
//
// Threads: a value.
// Errors: shrunk() throws kInvalid if no valid program results (ir/transforms/axis_size.h).
//
// Example (`place` finds devices for a shape, or none):
//   Shrinking shrinking(programs, whole, elastic);
//   while (place(shrinking.shape()).empty() && shrinking.next()) {
//   }
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ir/graph/program.h"
#include "protocol/slice_shape.h"

namespace gangway {

// A program, and the index of one of its slices.
struct ProgramOnSlice {
  std::shared_ptr<const Program> program;
  uint32_t slice = 0;
};

class Shrinking {
 public:
  // `on`: all programs that are compiled for the slice, which has this shape.
  Shrinking(std::vector<ProgramOnSlice> on, SliceShape shape, std::vector<std::string> elastic)
      : on_(std::move(on)), shape_(std::move(shape)), elastic_(std::move(elastic)) {}

  // The present shape, at first the one that was given.
  const SliceShape& shape() const { return shape_; }
  // Goes on to the next smaller shape. False: there is none, and the shape is as before.
  bool next();
  // The present sizes of axes that have another size than at first.
  const std::map<std::string, int64_t>& sizes() const { return sizes_; }
  // The program for the present shape.
  std::shared_ptr<const Program> shrunk(const ProgramOnSlice& one) const;

 private:
  bool halve(const std::string& axis);

  std::vector<ProgramOnSlice> on_;
  SliceShape shape_;
  std::vector<std::string> elastic_;
  size_t axis_ = 0;  // Index in `elastic_` of the axis that is being halved.
  std::map<std::string, int64_t> sizes_;
};

}  // namespace gangway
