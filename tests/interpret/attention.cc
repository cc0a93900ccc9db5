// References of attention: one query of one head at a time.
#include <algorithm>
#include <cmath>

#include "tests/interpret/reference.h"

namespace gangway::internal {
namespace {

// Sizes of a call, and the positions of heads in [batch, seq, dim].
struct Shape {
  size_t batch, queries, keys, dim, heads, width;
  double scale;

  explicit Shape(const OpCall& call)
      : batch(as_size(call.inputs[0].dims[0])),
        queries(as_size(call.inputs[0].dims[1])),
        keys(as_size(call.inputs[1].dims[1])),
        dim(as_size(call.inputs[0].dims[2])),
        heads(as_size(call.attrs.integer("heads"))),
        width(dim / heads),
        scale(call.attrs.real("scale")) {
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

// The number of keys that query i sees. Starts may come behind the `fixed` operands.
size_t keys_seen(const OpCall& call, const std::vector<Literal>& in, const Shape& s, size_t fixed,
                 size_t i) {
  if (!call.attrs.flag("causal")) return s.keys;
  double lead = static_cast<double>(s.keys) - static_cast<double>(s.queries);
  if (in.size() > fixed) lead = in[fixed].values[0] - in[fixed + 1].values[0];
  const double seen = static_cast<double>(i) + 1 + lead;
  return static_cast<size_t>(std::clamp(seen, 0.0, static_cast<double>(s.keys)));
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
  const Shape s(e.call);
  each_query(s, [&](size_t b, size_t h, size_t i) {
    e.y(1)[s.row(b, h, i)] = attend(e, s, b, h, i, keys_seen(e.call, e.in, s, 3, i));
  });
}

void attention_decode(const EvaluateCall& e) {
  const Shape s(e.call);
  double length = std::fmin(std::fmax(e.x(3)[0], 0), static_cast<double>(s.keys));
  each_query(
      s, [&](size_t b, size_t h, size_t i) { attend(e, s, b, h, i, static_cast<size_t>(length)); });
}

void attention_grad(const EvaluateCall& e) {
  const Shape s(e.call);
  each_query(s, [&](size_t b, size_t h, size_t i) {
    size_t at = s.query(b, h, i);
    const double *q = e.x(0).data() + at, *dout = e.x(5).data() + at;
    double delta = inner(e.x(3).data() + at, dout, s.width);
    for (size_t j = 0; j < keys_seen(e.call, e.in, s, 6, i); ++j) {
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

// Returns a third of each row: [batch, seq, 3, dim] -> [batch, seq, dim].
Literal third(const Literal& packed, size_t index) {
  Literal part = packed;
  const size_t width = as_size(packed.type.dims[3]), row = 3 * width;
  part.type.dims.erase(part.type.dims.begin() + 2);
  for (size_t i = 0; i < part.values.size() / 3; ++i)
    part.values[i] = packed.values[i / width * row + index * width + i % width];
  part.values.resize(part.values.size() / 3);
  return part;
}

struct Unpacked {
  std::vector<Literal> in;
  std::vector<Type> types;

  explicit Unpacked(const std::vector<Literal>& packed) {
    for (size_t i = 0; i < 3; ++i) in.push_back(third(packed[0], i));
    in.insert(in.end(), packed.begin() + 1, packed.end());
    for (const Literal& literal : in) types.push_back(literal.type);
  }
  OpCall call(Op op, const OpCall& of) const { return {op, types, of.attrs}; }
};

void packed_attention(const EvaluateCall& e) {
  const Unpacked operands(e.in);
  const OpCall call = operands.call(Op::attention, e.call);
  attention({call, operands.in, e.out});
}

void packed_attention_grad(const EvaluateCall& e) {
  const Unpacked operands(e.in);
  const OpCall call = operands.call(Op::attention_grad, e.call);
  std::vector<Literal> out;
  for (size_t i = 0; i < 3; ++i)
    out.push_back({operands.types[i], Doubles(operands.in[i].values.size())});
  attention_grad({call, operands.in, out});
  const size_t width = as_size(operands.types[0].dims[2]);
  for (size_t i = 0; i < e.y().size(); ++i)
    e.y()[i] = out[i / width % 3].values[i / width / 3 * width + i % width];
}

}  // namespace

double attention_flops(const OpCall& call, const std::vector<Literal>& in) {
  const bool packed = call.op == Op::packed_attention || call.op == Op::packed_attention_grad;
  if (packed) {
    const bool is_forward = call.op == Op::packed_attention;
    const Unpacked operands(in);
    return attention_flops(operands.call(is_forward ? Op::attention : Op::attention_grad, call),
                           operands.in);
  }
  const bool forward = call.op == Op::attention;
  if (!forward && call.op != Op::attention_grad) return 0;
  const Shape s(call);
  double pairs = 0;
  for (size_t i = 0; i < s.queries; ++i)
    pairs += static_cast<double>(keys_seen(call, in, s, forward ? 3 : 6, i));
  // Products of queries and keys, each a multiplication and an addition.
  return pairs * static_cast<double>(s.batch * s.dim) * 2 * (forward ? 2 : 5);
}

std::vector<ReferenceRow> attention_references() {
  return {{Op::attention, attention},
          {Op::attention_grad, attention_grad},
          {Op::attention_decode, attention_decode},
          {Op::packed_attention, packed_attention},
          {Op::packed_attention_grad, packed_attention_grad}};
}

}  // namespace gangway::internal
