// The matrix products of one training step of a model, alone. They tell how much arithmetic the
// step needs, and how fast oneDNN does the same products on this machine.
//
// Why: tokens a second say little across machines. The share of the product rate that training
// reaches, measured in the same run, shows the cost of the rest of the step.
//
// Counted: every product of a weight, forward and for both gradients (6 operations a weight and
// token; a token meets top_k experts), and attention's products over the visible half of the
// scores (6 seq dim a layer and token). Not counted: everything else, and what is computed twice.
// Units: floating-point operations; a multiply-add is two.
#pragma once

#include <cstdint>
#include <vector>

#include "programs/models/transformer.h"

namespace gangway::bench {

// c[m, n] = a[m, k] x b[k, n], `count` times in a step; then its two gradients. `items` of them lie
// behind one another, each with its own b: experts, each with its mean share of the rows.
struct Product {
  int64_t m = 0, n = 0, k = 0, count = 1, items = 1;
};
std::vector<Product> weight_products(const programs::TransformerConfig& model, int64_t batch);

double step_flops(const programs::TransformerConfig& model, int64_t batch);

// Returns operations a second over all products of a step, `rounds` times, on `threads` threads.
double product_rate(const programs::TransformerConfig& model, int64_t batch, int threads,
                    int rounds);

}  // namespace gangway::bench
