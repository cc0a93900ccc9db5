// Finds the cheapest conversion by trying everything: it applies every op of a conversion, with
// every meaningful attribute, to every layout of a tensor, and looks up the devices' results among
// all layouts. It shares no code with the planner.
//
// Threads: one thread.
// Cost: shardings x ops x shardings of equal parts; for small tensors on meshes of up to 8 devices.
#pragma once

#include <vector>

#include "ir/transforms/conversions/conversion_costs.h"
#include "tests/conversions/held_parts.h"

namespace gangway::tests {

// Every sharding of a tensor of this rank, each in one spelling. All partial axes have the same
// reduction.
std::vector<Sharding> all_shardings(const Mesh& mesh, int rank);

class BruteForce {
 public:
  BruteForce(const Type& type, const Mesh& mesh, const std::vector<Sharding>& shardings);

  // The least cost from one sharding to another, by ops that move only axes which have to move;
  // -1: none was found.
  int64_t least_cost(size_t from, size_t to, const ConversionCosts& costs) const;

  size_t edges() const { return edges_.size(); }

 private:
  struct Edge {
    size_t from = 0, to = 0;
    uint32_t axes = 0;   // A bit for each axis that the op names.
    int64_t bytes = -1;  // Bytes that the busiest sender sends. -1: no device sends.
    bool is_op = true;   // False: the same parts fit both layouts, without an op.
    friend auto operator<=>(const Edge&, const Edge&) = default;
  };

  void try_op(size_t from, Op op, const Attrs& attrs, uint32_t axes);
  void try_all_of(size_t from);
  void try_group(size_t from, const std::vector<size_t>& axes);
  void try_permutations(size_t from, const std::vector<size_t>& axes);
  uint32_t moving(size_t from, size_t to) const;

  const Type& type_;
  const Mesh& mesh_;
  const std::vector<Sharding>& shardings_;
  std::vector<HeldAs> held_;
  HeldParts parts_;             // The parts that are tried now.
  std::vector<int64_t> whole_;  // The tensor of the parts.
  std::vector<Edge> edges_;
};

}  // namespace gangway::tests
