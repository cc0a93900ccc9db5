// Random functions over a batch, like data-parallel models, for properties of the graphs that the
// compiler makes of them.
//
// Parameters: rows of floats and of indices that are cut over "data" by their first dimension, and
// whole weights and tables. Nodes: element-wise chains, products, reductions over the batch and
// within a row, norms, lookups, sorting, attention, experts. Results: a few values, a loss, and the
// gradients of that loss.
//
// Invariant: discrete decisions (maxima, sorting, routing) never depend on a sum over the batch,
// whose rounding depends on the mesh; in an annotated function they depend on no sum at all.
// Threads: one generator, one thread; its functions depend on its seed alone.
#pragma once

#include <random>
#include <vector>

#include "ir/graph/function.h"
#include "tests/interpret/literal.h"

namespace gangway::tests {

inline constexpr int64_t kBatchRows = 8;

// `dtype`: the type of all its floats. `remat`: some stretches are rematerialisation regions;
// otherwise the function is the same.
Function random_batch_function(std::mt19937_64& random, const Mesh& mesh, DType dtype,
                               bool remat = false);

// A similar function over any mesh: parameters have random placements and priorities, and about a
// quarter of the values inside are annotated. Some annotations may conflict.
Function random_annotated_function(std::mt19937_64& random, const Mesh& mesh, DType dtype,
                                   bool remat);

// Arguments for the function: floats in [-1, 1], indices below 5.
std::vector<Literal> random_arguments(std::mt19937_64& random, const Function& function);

}  // namespace gangway::tests
