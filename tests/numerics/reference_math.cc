#include "tests/numerics/reference_math.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace gangway::reference {
namespace {

constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kGeluCubic = 0.044715;

size_t at(int row, int column, int columns) {
  return static_cast<size_t>(row) * static_cast<size_t>(columns) + static_cast<size_t>(column);
}

}  // namespace

Vec matmul(View a, View b, int m, int k, int n) {
  Vec out(at(m, 0, n), 0.0);
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) out[at(i, j, n)] += a[at(i, p, k)] * b[at(p, j, n)];
    }
  }
  return out;
}

Vec matmul_transposed(View a, View b, int m, int n, int k) {
  Vec out(at(m, 0, k), 0.0);
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) out[at(i, p, k)] += a[at(i, j, n)] * b[at(p, j, n)];
    }
  }
  return out;
}

void add_outer(Out out, View a, View b, int m, int k, int n) {
  for (int i = 0; i < m; ++i) {
    for (int p = 0; p < k; ++p) {
      for (int j = 0; j < n; ++j) out[at(p, j, n)] += a[at(i, p, k)] * b[at(i, j, n)];
    }
  }
}

void add_to(Out out, View a) {
  for (size_t i = 0; i < out.size(); ++i) out[i] += a[i];
}

double softmax(View logits, Out probabilities) {
  double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += probabilities[i] = std::exp(logits[i] - top);
  for (double& p : probabilities) p /= sum;
  return top + std::log(sum);
}

void softmax_backward(View probabilities, View d_probabilities, Out d_logits) {
  double mean = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) mean += probabilities[i] * d_probabilities[i];
  for (size_t i = 0; i < probabilities.size(); ++i) {
    d_logits[i] = probabilities[i] * (d_probabilities[i] - mean);
  }
}

Vec rms_norm(View x, View weight, double epsilon) {
  Vec y(x.size());
  size_t dim = weight.size();
  for (size_t row = 0; row < x.size(); row += dim) {
    double squares = 0;
    for (size_t i = 0; i < dim; ++i) squares += x[row + i] * x[row + i];
    double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + epsilon);
    for (size_t i = 0; i < dim; ++i) y[row + i] = x[row + i] * scale * weight[i];
  }
  return y;
}

Vec rms_norm_backward(View x, View weight, double epsilon, View dy, Out d_weight) {
  Vec dx(x.size());
  size_t dim = weight.size();
  for (size_t row = 0; row < x.size(); row += dim) {
    double squares = 0, along = 0;
    for (size_t i = 0; i < dim; ++i) {
      squares += x[row + i] * x[row + i];
      along += dy[row + i] * weight[i] * x[row + i];
    }
    double scale = 1 / std::sqrt(squares / static_cast<double>(dim) + epsilon);
    double pull = along * scale * scale * scale / static_cast<double>(dim);
    for (size_t i = 0; i < dim; ++i) {
      dx[row + i] = dy[row + i] * weight[i] * scale - x[row + i] * pull;
      d_weight[i] += dy[row + i] * x[row + i] * scale;
    }
  }
  return dx;
}

double activate(Activation activation, double x) {
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}

double activate_derivative(Activation activation, double x) {
  if (activation == Activation::kSilu) {
    double sigmoid = 1 / (1 + std::exp(-x));
    return sigmoid * (1 + x * (1 - sigmoid));
  }
  double t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * kGeluCubic * x * x);
}

Vec feed_forward(const FeedForward& block, Vec x, FeedForwardTrace& trace) {
  int rows = static_cast<int>(x.size()) / block.dim;
  trace.x = std::move(x);
  trace.up = matmul(trace.x, block.up, rows, block.dim, block.hidden);
  if (!block.gate.empty()) {
    trace.gate = matmul(trace.x, block.gate, rows, block.dim, block.hidden);
  }
  trace.hidden.resize(trace.up.size());
  for (size_t i = 0; i < trace.up.size(); ++i) {
    trace.hidden[i] = block.gate.empty() ? activate(block.activation, trace.up[i])
                                         : activate(block.activation, trace.gate[i]) * trace.up[i];
  }
  return matmul(trace.hidden, block.down, rows, block.hidden, block.dim);
}

Vec feed_forward_backward(const FeedForward& block, const FeedForwardTrace& trace, View dy,
                          FeedForwardGradients gradients) {
  int rows = static_cast<int>(dy.size()) / block.dim;
  add_outer(gradients.down, trace.hidden, dy, rows, block.hidden, block.dim);
  Vec d_hidden = matmul_transposed(dy, block.down, rows, block.dim, block.hidden);
  Vec d_up(d_hidden.size()), d_gate(block.gate.empty() ? 0 : d_hidden.size());
  for (size_t i = 0; i < d_hidden.size(); ++i) {
    if (block.gate.empty()) {
      d_up[i] = d_hidden[i] * activate_derivative(block.activation, trace.up[i]);
    } else {
      d_up[i] = d_hidden[i] * activate(block.activation, trace.gate[i]);
      d_gate[i] = d_hidden[i] * trace.up[i] * activate_derivative(block.activation, trace.gate[i]);
    }
  }
  add_outer(gradients.up, trace.x, d_up, rows, block.dim, block.hidden);
  Vec dx = matmul_transposed(d_up, block.up, rows, block.hidden, block.dim);
  if (!block.gate.empty()) {
    add_outer(gradients.gate, trace.x, d_gate, rows, block.dim, block.hidden);
    add_to(dx, matmul_transposed(d_gate, block.gate, rows, block.hidden, block.dim));
  }
  return dx;
}

}  // namespace gangway::reference
