#include "tests/numerics/reference_attention.h"

#include <cmath>
#include <cstddef>

namespace gangway::reference {
namespace {

// One head of one row of the batch: the places of its vectors and its probabilities.
struct Head {
  size_t first, stride, width;  // In q, k and v position t starts at first + t * stride.
  size_t scores;                // Start of the probabilities, [seq, seq].
  size_t seq;
  double scale;
};

template <class Visit>
void for_each_head(const AttentionShape& shape, Visit visit) {
  auto seq = static_cast<size_t>(shape.seq), dim = static_cast<size_t>(shape.dim);
  auto heads = static_cast<size_t>(shape.heads);
  size_t width = dim / heads;
  for (size_t b = 0; b < static_cast<size_t>(shape.batch); ++b) {
    for (size_t h = 0; h < heads; ++h) {
      visit(Head{.first = b * seq * dim + h * width,
                 .stride = dim,
                 .width = width,
                 .scores = (b * heads + h) * seq * seq,
                 .seq = seq,
                 .scale = 1 / std::sqrt(static_cast<double>(width))});
    }
  }
}

double dot(View a, View b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(Out out, double factor, View a) {
  for (size_t i = 0; i < out.size(); ++i) out[i] += factor * a[i];
}

template <class T>
std::span<T> vector_at(std::span<T> tensor, const Head& head, size_t t) {
  return tensor.subspan(head.first + t * head.stride, head.width);
}

}  // namespace

Vec attention(const AttentionShape& shape, AttentionTrace& trace) {
  Vec y(trace.q.size(), 0.0);
  trace.probabilities.assign(static_cast<size_t>(shape.batch * shape.heads * shape.seq * shape.seq),
                             0.0);
  for_each_head(shape, [&](const Head& head) {
    for (size_t t = 0; t < head.seq; ++t) {
      Vec scores(t + 1);
      for (size_t s = 0; s <= t; ++s) {
        scores[s] =
            head.scale * dot(vector_at(View(trace.q), head, t), vector_at(View(trace.k), head, s));
      }
      Out p = Out(trace.probabilities).subspan(head.scores + t * head.seq, t + 1);
      softmax(scores, p);
      for (size_t s = 0; s <= t; ++s) {
        add_scaled(vector_at(Out(y), head, t), p[s], vector_at(View(trace.v), head, s));
      }
    }
  });
  return y;
}

AttentionGradients attention_backward(const AttentionShape& shape, const AttentionTrace& trace,
                                      View dy) {
  AttentionGradients d = {Vec(dy.size(), 0.0), Vec(dy.size(), 0.0), Vec(dy.size(), 0.0)};
  for_each_head(shape, [&](const Head& head) {
    for (size_t t = 0; t < head.seq; ++t) {
      View p = View(trace.probabilities).subspan(head.scores + t * head.seq, t + 1);
      View dy_t = vector_at(dy, head, t);
      Vec d_p(t + 1), d_scores(t + 1);
      for (size_t s = 0; s <= t; ++s) {
        d_p[s] = dot(dy_t, vector_at(View(trace.v), head, s));
        add_scaled(vector_at(Out(d.v), head, s), p[s], dy_t);
      }
      softmax_backward(p, d_p, d_scores);
      for (size_t s = 0; s <= t; ++s) {
        double d_score = head.scale * d_scores[s];
        add_scaled(vector_at(Out(d.q), head, t), d_score, vector_at(View(trace.k), head, s));
        add_scaled(vector_at(Out(d.k), head, s), d_score, vector_at(View(trace.q), head, t));
      }
    }
  });
  return d;
}

}  // namespace gangway::reference
