// References of attention: one query of one head at a time.
#include <cmath>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

// Sizes of a call, and where an element of a head lies in [batch, seq, dim].
struct Shape {
  size_t batch, queries, keys, dim, heads, width;
  double scale;

  explicit Shape(const EvaluateCall& e)
      : batch(as_size(e.dims(0)[0])),
        queries(as_size(e.dims(0)[1])),
        keys(as_size(e.dims(1)[1])),
        dim(as_size(e.dims(0)[2])),
        heads(as_size(e.attrs().integer("heads"))),
        width(dim / heads),
        scale(e.attrs().real("scale")) {
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width));
  }
  size_t query(size_t b, size_t h, size_t i) const { return (b * queries + i) * dim + h * width; }
  size_t key(size_t b, size_t h, size_t j) const { return (b * keys + j) * dim + h * width; }
  size_t row(size_t b, size_t h, size_t i) const { return (b * heads + h) * queries + i; }
};

double inner(const double* a, const double* b, size_t n) {
  double sum = 0;
  for (size_t c = 0; c < n; ++c) sum += a[c] * b[c];
  return sum;
}

template <class Visit>
void each_query(const Shape& s, Visit visit) {
  for (size_t b = 0; b < s.batch; ++b) {
    for (size_t h = 0; h < s.heads; ++h) {
      for (size_t i = 0; i < s.queries; ++i) visit(b, h, i);
    }
  }
}

// Attends to the first `seen` keys; gives the logsumexp of the scores.
double attend(const EvaluateCall& e, const Shape& s, size_t b, size_t h, size_t i, size_t seen) {
  const double* q = e.x(0).data() + s.query(b, h, i);
  Doubles score(seen);
  double top = -INFINITY, sum = 0;
  for (size_t j = 0; j < seen; ++j) {
    score[j] = inner(q, e.x(1).data() + s.key(b, h, j), s.width) * s.scale;
    top = std::fmax(top, score[j]);
  }
  for (double x : score) sum += std::exp(x - top);
  for (size_t j = 0; j < seen; ++j) {
    double p = std::exp(score[j] - top) / sum;
    for (size_t c = 0; c < s.width; ++c)
      e.y()[s.query(b, h, i) + c] += p * e.x(2)[s.key(b, h, j) + c];
  }
  return top + std::log(sum);
}

void attention(const EvaluateCall& e) {
  Shape s(e);
  bool causal = e.attrs().flag("causal");
  each_query(s, [&](size_t b, size_t h, size_t i) {
    e.y(1)[s.row(b, h, i)] = attend(e, s, b, h, i, causal ? i + 1 : s.keys);
  });
}

void attention_decode(const EvaluateCall& e) {
  Shape s(e);
  double length = std::fmin(std::fmax(e.x(3)[0], 0), static_cast<double>(s.keys));
  each_query(
      s, [&](size_t b, size_t h, size_t i) { attend(e, s, b, h, i, static_cast<size_t>(length)); });
}

void attention_grad(const EvaluateCall& e) {
  Shape s(e);
  bool causal = e.attrs().flag("causal");
  each_query(s, [&](size_t b, size_t h, size_t i) {
    size_t at = s.query(b, h, i);
    const double *q = e.x(0).data() + at, *dout = e.x(5).data() + at;
    double delta = inner(e.x(3).data() + at, dout, s.width);
    for (size_t j = 0; j < (causal ? i + 1 : s.keys); ++j) {
      size_t kv = s.key(b, h, j);
      const double *k = e.x(1).data() + kv, *v = e.x(2).data() + kv;
      double p = std::exp(inner(q, k, s.width) * s.scale - e.x(4)[s.row(b, h, i)]);
      double dscore = p * (inner(dout, v, s.width) - delta) * s.scale;
      for (size_t c = 0; c < s.width; ++c) {
        e.y(0)[at + c] += dscore * k[c];
        e.y(1)[kv + c] += dscore * q[c];
        e.y(2)[kv + c] += p * dout[c];
      }
    }
  });
}

}  // namespace

std::vector<ReferenceRow> attention_references() {
  return {{Op::attention, attention},
          {Op::attention_grad, attention_grad},
          {Op::attention_decode, attention_decode}};
}

}  // namespace gangway::internal
