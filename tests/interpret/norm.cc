// References of softmax, the norms and cross-entropy, row by row as they are defined.
#include <algorithm>
#include <cmath>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

// The logarithm of the sum of exp(x - largest).
double log_of_sum(const double* x, size_t n, double largest) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exp(x[i] - largest);
  return std::log(sum);
}

void softmax(const EvaluateCall& e) {
  Rows in(e.in[0]);
  for (size_t row = 0; row < in.rows; ++row) {
    const double* x = e.x().data() + row * in.width;
    double largest = *std::max_element(x, x + in.width);
    double log_sum = log_of_sum(x, in.width, largest);
    for (size_t i = 0; i < in.width; ++i)
      e.y()[row * in.width + i] = std::exp(x[i] - largest - log_sum);
  }
}

void softmax_grad(const EvaluateCall& e) {
  Rows in(e.in[0]);
  for (size_t row = 0; row < in.rows; ++row) {
    const double *y = e.x(0).data() + row * in.width, *dy = e.x(1).data() + row * in.width;
    double inner = 0;
    for (size_t i = 0; i < in.width; ++i) inner += y[i] * dy[i];
    for (size_t i = 0; i < in.width; ++i) e.y()[row * in.width + i] = y[i] * (dy[i] - inner);
  }
}

// The mean that is subtracted from a row (0 without centring), and the factor of the row.
struct Moments {
  double mean = 0, scale = 0;
};

Moments moments(const EvaluateCall& e, const double* x, size_t n, bool centre) {
  Moments m;
  for (size_t i = 0; centre && i < n; ++i) m.mean += x[i] / static_cast<double>(n);
  double square = 0;
  for (size_t i = 0; i < n; ++i) square += (x[i] - m.mean) * (x[i] - m.mean);
  m.scale = 1 / std::sqrt(square / static_cast<double>(n) + e.attrs().real("eps"));
  return m;
}

template <bool kCentre>
void norm(const EvaluateCall& e) {
  Rows in(e.in[0]);
  for (size_t row = 0; row < in.rows; ++row) {
    const double* x = e.x().data() + row * in.width;
    Moments m = moments(e, x, in.width, kCentre);
    for (size_t i = 0; i < in.width; ++i) {
      double y = (x[i] - m.mean) * m.scale * e.x(1)[i];
      e.y()[row * in.width + i] = y + (kCentre ? e.x(2)[i] : 0);
    }
  }
}

template <bool kCentre>
void norm_grad(const EvaluateCall& e) {
  Rows in(e.in[0]);
  auto n = static_cast<double>(in.width);
  for (size_t row = 0; row < in.rows; ++row) {
    const double *x = e.x().data() + row * in.width, *dy = e.x(2).data() + row * in.width;
    Moments m = moments(e, x, in.width, kCentre);
    double mean_h = 0, mean_hx = 0;  // h = dy * weight; x below is normalised.
    for (size_t i = 0; i < in.width; ++i) {
      double h = dy[i] * e.x(1)[i], normal = (x[i] - m.mean) * m.scale;
      mean_h += kCentre ? h / n : 0;
      mean_hx += h * normal / n;
      e.y(1)[i] += dy[i] * normal;
      if (kCentre) e.y(2)[i] += dy[i];
    }
    for (size_t i = 0; i < in.width; ++i) {
      double h = dy[i] * e.x(1)[i], normal = (x[i] - m.mean) * m.scale;
      e.y(0)[row * in.width + i] = m.scale * (h - mean_h - normal * mean_hx);
    }
  }
}

void cross_entropy(const EvaluateCall& e) {
  Rows in(e.in[0]);
  for (size_t row = 0; row < in.rows; ++row) {
    const double* x = e.x().data() + row * in.width;
    double label = e.x(1)[row], largest = *std::max_element(x, x + in.width);
    double log_sum = log_of_sum(x, in.width, largest);
    bool counts = label >= 0 && label < static_cast<double>(in.width);
    e.y(0)[row] = counts ? log_sum - (x[static_cast<size_t>(label)] - largest) : std::nan("");
    e.y(1)[row] = log_sum;
  }
}

// Writes the gradient of the logits to result `y`, given the log_sum of each row.
void dlogits(const EvaluateCall& e, const std::vector<double>& log_sum,
             const std::vector<double>& dloss, size_t y) {
  Rows in(e.in[0]);
  for (size_t row = 0; row < in.rows; ++row) {
    double label = e.x(1)[row], by = dloss[row];
    if (label < 0 || label >= static_cast<double>(in.width)) by = std::nan("");
    const double* x = e.x().data() + row * in.width;
    double largest = *std::max_element(x, x + in.width);
    for (size_t i = 0; i < in.width; ++i) {
      double hit = static_cast<double>(i) == label;
      e.y(y)[row * in.width + i] = (std::exp(x[i] - largest - log_sum[row]) - hit) * by;
    }
  }
}

void cross_entropy_grad(const EvaluateCall& e) { dlogits(e, e.x(2), e.x(3), 0); }

void cross_entropy_and_grad(const EvaluateCall& e) {
  cross_entropy(e);
  dlogits(e, e.y(1), e.x(2), 2);
}

}  // namespace

std::vector<ReferenceRow> norm_references() {
  return {{Op::softmax, softmax},
          {Op::softmax_grad, softmax_grad},
          {Op::rms_norm, norm<false>},
          {Op::rms_norm_grad, norm_grad<false>},
          {Op::layer_norm, norm<true>},
          {Op::layer_norm_grad, norm_grad<true>},
          {Op::cross_entropy, cross_entropy},
          {Op::cross_entropy_grad, cross_entropy_grad},
          {Op::cross_entropy_and_grad, cross_entropy_and_grad}};
}

}  // namespace gangway::internal
