#include "tests/numerics/reference_moe.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

namespace gangway::reference {
namespace {

size_t index(int value) { return static_cast<size_t>(value); }

// Row `row` of a matrix with `columns` columns.
template <class T>
std::span<T> row_of(std::span<T> matrix, int row, int columns) {
  return matrix.subspan(index(row) * index(columns), index(columns));
}

FeedForward expert_block(const FeedForward& block, const MoeWeights& weights, int expert) {
  int size = block.dim * block.hidden;
  FeedForward result = block;
  result.up = row_of(weights.up, expert, size);
  result.gate = weights.gate.empty() ? View() : row_of(weights.gate, expert, size);
  result.down = row_of(weights.down, expert, size);
  return result;
}

// Probabilities, the chosen experts and their weights, for every token.
void route(const MoeConfig& config, View logits, MoeTrace& trace) {
  int experts = config.experts, k = config.top_k;
  trace.probabilities.resize(logits.size());
  trace.margin = std::numeric_limits<double>::infinity();
  for (int t = 0; t < trace.tokens; ++t) {
    Out p = row_of(Out(trace.probabilities), t, experts);
    trace.log_sum.push_back(softmax(row_of(logits, t, experts), p));
    std::vector<int> order(index(experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&p](int a, int b) { return p[index(a)] > p[index(b)]; });
    double sum = 0;
    for (int j = 0; j < k; ++j) sum += p[index(order[index(j)])];
    for (int j = 0; j < k; ++j) {
      int e = order[index(j)];
      trace.expert.push_back(e);
      trace.weight.push_back(p[index(e)] / (config.renormalise ? sum : 1));
    }
    for (int j = 0; j < k && j + 1 < experts; ++j) {
      double gap = p[index(order[index(j)])] - p[index(order[index(j + 1)])];
      trace.margin = std::min(trace.margin, gap);
    }
  }
}

// Gives slots to pairs in token order and then choice order, group by group.
void take_slots(const MoeConfig& config, MoeTrace& trace) {
  trace.pairs.resize(index(config.experts));
  trace.chosen.assign(index(config.groups), std::vector<int64_t>(index(config.experts), 0));
  int pairs_per_group = trace.tokens * config.top_k / config.groups;
  for (int pair = 0; pair < trace.tokens * config.top_k; ++pair) {
    size_t expert = index(trace.expert[index(pair)]);
    int64_t& taken = trace.chosen[index(pair / pairs_per_group)][expert];
    if (config.capacity == 0 || taken < config.capacity) {
      trace.pairs[expert].push_back(pair);
    } else {
      ++trace.dropped;
    }
    ++taken;
  }
}

// f_e * experts / groups: the factor of the mean probability P_e in the balance loss.
double balance_factor(const MoeConfig& config, const MoeTrace& trace, int group, int expert) {
  double pairs = static_cast<double>(trace.tokens) * config.top_k / config.groups;
  double share = static_cast<double>(trace.chosen[index(group)][index(expert)]) / pairs;
  return share * config.experts / config.groups;
}

void auxiliary_losses(const MoeConfig& config, MoeTrace& trace) {
  int tokens_per_group = trace.tokens / config.groups;
  for (int t = 0; t < trace.tokens; ++t) {
    double log_sum = trace.log_sum[index(t)];
    trace.z += log_sum * log_sum / trace.tokens;
    View p = row_of(View(trace.probabilities), t, config.experts);
    int group = t / tokens_per_group;
    for (int e = 0; e < config.experts; ++e) {
      trace.balance += balance_factor(config, trace, group, e) * p[index(e)] / tokens_per_group;
    }
  }
}

// Adds the gradient of the chosen probabilities of one token, given the gradient of its weights.
void weights_backward(const MoeConfig& config, View weight, View d_weight, View p,
                      std::span<const int> expert, Out d_p) {
  if (!config.renormalise) {
    for (size_t j = 0; j < weight.size(); ++j) d_p[index(expert[j])] += d_weight[j];
    return;
  }
  double sum = 0, mean = 0;
  for (size_t j = 0; j < weight.size(); ++j) {
    sum += p[index(expert[j])];
    mean += weight[j] * d_weight[j];
  }
  for (size_t j = 0; j < weight.size(); ++j) d_p[index(expert[j])] += (d_weight[j] - mean) / sum;
}

// Goes back through the experts: adds to the gradients of their weights and of x, and returns the
// gradient of the gate weights.
Vec experts_backward(const MoeConfig& config, const FeedForward& block, const MoeWeights& weights,
                     const MoeTrace& trace, View dy, const MoeGradients& gradients, Out dx) {
  Vec d_weight(trace.weight.size(), 0.0);
  int size = block.dim * block.hidden;
  for (int e = 0; e < config.experts; ++e) {
    const std::vector<int>& pairs = trace.pairs[index(e)];
    Vec d_output;
    for (size_t i = 0; i < pairs.size(); ++i) {
      View token_dy = row_of(dy, pairs[i] / config.top_k, block.dim);
      View output = row_of(View(trace.outputs[index(e)]), static_cast<int>(i), block.dim);
      double& d = d_weight[index(pairs[i])];
      for (size_t c = 0; c < token_dy.size(); ++c) d += token_dy[c] * output[c];
      for (double v : token_dy) d_output.push_back(v * trace.weight[index(pairs[i])]);
    }
    FeedForwardGradients own = {
        .up = row_of(gradients.up, e, size),
        .gate = weights.gate.empty() ? Out() : row_of(gradients.gate, e, size),
        .down = row_of(gradients.down, e, size)};
    Vec d_rows = feed_forward_backward(expert_block(block, weights, e), trace.blocks[index(e)],
                                       d_output, own);
    for (size_t i = 0; i < pairs.size(); ++i) {
      add_to(row_of(dx, pairs[i] / config.top_k, block.dim),
             row_of(View(d_rows), static_cast<int>(i), block.dim));
    }
  }
  return d_weight;
}

}  // namespace

Vec moe_forward(const MoeConfig& config, const FeedForward& block, const MoeWeights& weights, Vec x,
                MoeTrace& trace) {
  trace.tokens = static_cast<int>(x.size()) / block.dim;
  trace.x = std::move(x);
  Vec logits = matmul(trace.x, weights.router, trace.tokens, block.dim, config.experts);
  route(config, logits, trace);
  take_slots(config, trace);
  auxiliary_losses(config, trace);

  Vec y(trace.x.size(), 0.0);
  trace.blocks.resize(index(config.experts));
  for (int e = 0; e < config.experts; ++e) {
    const std::vector<int>& pairs = trace.pairs[index(e)];
    Vec rows;
    for (int pair : pairs) {
      View token = row_of(View(trace.x), pair / config.top_k, block.dim);
      rows.insert(rows.end(), token.begin(), token.end());
    }
    trace.outputs.push_back(
        feed_forward(expert_block(block, weights, e), std::move(rows), trace.blocks[index(e)]));
    for (size_t i = 0; i < pairs.size(); ++i) {
      Out token = row_of(Out(y), pairs[i] / config.top_k, block.dim);
      View output = row_of(View(trace.outputs.back()), static_cast<int>(i), block.dim);
      double weight = trace.weight[index(pairs[i])];
      for (size_t c = 0; c < token.size(); ++c) token[c] += weight * output[c];
    }
  }
  return y;
}

Vec moe_backward(const MoeConfig& config, const FeedForward& block, const MoeWeights& weights,
                 const MoeTrace& trace, View dy, MoeGradients gradients) {
  Vec dx(trace.x.size(), 0.0);
  Vec d_weight = experts_backward(config, block, weights, trace, dy, gradients, dx);
  int tokens_per_group = trace.tokens / config.groups;
  Vec d_logits(trace.probabilities.size());
  for (int t = 0; t < trace.tokens; ++t) {
    View p = row_of(View(trace.probabilities), t, config.experts);
    Vec d_p(index(config.experts), 0.0);
    weights_backward(config, row_of(View(trace.weight), t, config.top_k),
                     row_of(View(d_weight), t, config.top_k), p,
                     row_of(std::span(trace.expert), t, config.top_k), d_p);
    for (int e = 0; e < config.experts; ++e) {
      d_p[index(e)] += config.balance_coefficient *
                       balance_factor(config, trace, t / tokens_per_group, e) / tokens_per_group;
    }
    Out d_logit = row_of(Out(d_logits), t, config.experts);
    softmax_backward(p, d_p, d_logit);
    double d_log_sum = config.z_coefficient * 2 * trace.log_sum[index(t)] / trace.tokens;
    for (int e = 0; e < config.experts; ++e) d_logit[index(e)] += d_log_sum * p[index(e)];
  }
  add_outer(gradients.router, trace.x, d_logits, trace.tokens, block.dim, config.experts);
  add_to(dx, matmul_transposed(d_logits, weights.router, trace.tokens, config.experts, block.dim));
  return dx;
}

}  // namespace gangway::reference
