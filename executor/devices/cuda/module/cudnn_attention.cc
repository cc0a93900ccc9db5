#include "executor/devices/cuda/module/cudnn_attention.h"

#include <cmath>
#include <limits>

#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

using Sizes = GraphBuilder::Sizes;
using Tensor = GraphBuilder::Tensor;

constexpr cudnnDataType_t kBf16 = CUDNN_DATA_BFLOAT16, kF32 = CUDNN_DATA_FLOAT,
                          kI32 = CUDNN_DATA_INT32, kBool = CUDNN_DATA_BOOLEAN;
constexpr int64_t kHeadDimMax = 128, kHeadDimStep = 8;  // All kernels of cuDNN have these.
// Up to this version the gradient reads past the last keys unless they fill tiles of 128.
constexpr size_t kVersionOfTiledKeys = 91500;
constexpr int64_t kKeyTile = 128;
constexpr uint32_t kBlackwell = 100;
constexpr int64_t kOrderedBytesMax = int64_t{1} << 30;

// One shape's tensors, in cuDNN's order of dimensions: [batch, heads, positions, numbers].
class Attention {
 public:
  const Sizes scores, row;

  Attention(GraphBuilder& graph, const AttentionShape& shape)
      : scores{shape.batch, shape.heads, shape.seq_q, shape.seq_k},
        row{shape.batch, shape.heads, shape.seq_q, 1},
        g(graph),
        s(shape) {}

  Tensor queries(int64_t stride) { return positions(s.seq_q, stride); }
  Tensor keys(int64_t stride) { return positions(s.seq_k, stride); }
  // The keys' memory with positions last, which is the form of a product's second factor.
  Tensor keys_transposed(int64_t stride) {
    const Sizes by = strides(s.seq_k, stride);
    return g.memory({s.batch, s.heads, s.head_dim, s.seq_k}, {by[0], by[1], by[3], by[2]}, kBf16);
  }
  Tensor lse() { return g.memory(row, {s.heads * s.seq_q, s.seq_q, 1, 1}, kF32); }

  // op(x, y), or op(x), for each score, or for each row of them.
  Tensor each(cudnnPointwiseMode_t op, GraphBuilder::Inputs inputs) {
    return g.pointwise(op, inputs, g.inside(scores));
  }
  Tensor each_row(cudnnPointwiseMode_t op, GraphBuilder::Inputs inputs) {
    return g.pointwise(op, inputs, g.inside(row));
  }

  // -inf where a query must not see a key.
  Tensor masked(Tensor in) {
    if (!s.causal) return in;
    Tensor query = index(in, 2);
    const Tensor key = index(in, 3);
    if (s.seq_q != s.seq_k) {
      query = integer(CUDNN_POINTWISE_ADD, query, s.seq_k);
      query = integer(CUDNN_POINTWISE_SUB, query, s.seq_q);
    }
    const Tensor sees =
        g.pointwise(CUDNN_POINTWISE_CMP_GE, {query, key}, g.inside(scores, kBool), kBool);
    const Tensor nothing = g.number(-std::numeric_limits<float>::infinity());
    return each(CUDNN_POINTWISE_BINARY_SELECT, {in, nothing, sees});
  }

  Tensor scale() {
    const double given = s.scale;
    const double standard = 1 / std::sqrt(static_cast<double>(s.head_dim));
    return g.number(static_cast<float>(given != 0 ? given : standard));
  }
  // The scores in bf16, with queries last.
  Tensor scores_transposed(Tensor in) {
    const Sizes sizes = {s.batch, s.heads, s.seq_k, s.seq_q};
    const Sizes by = GraphBuilder::dense(scores);
    return g.reshape(in, g.inside(sizes, {by[0], by[1], by[3], by[2]}, kBf16));
  }
  Tensor keys_back(Tensor transposed, int64_t stride) {
    const Sizes sizes = {s.batch, s.heads, s.seq_k, s.head_dim};
    return g.reshape(transposed, g.inside(sizes, strides(s.seq_k, stride), kBf16));
  }

 private:
  Sizes strides(int64_t seq, int64_t stride) const {
    if (stride == 0) stride = s.heads * s.head_dim;
    return {seq * stride, s.head_dim, stride, 1};
  }
  Tensor positions(int64_t seq, int64_t stride) {
    return g.memory({s.batch, s.heads, seq, s.head_dim}, strides(seq, stride), kBf16);
  }
  Tensor index(Tensor in, int64_t axis) {
    return g.pointwise(CUDNN_POINTWISE_GEN_INDEX, {in}, g.inside(scores, kI32), kF32, axis);
  }
  Tensor integer(cudnnPointwiseMode_t op, Tensor in, int64_t value) {
    const Tensor number = g.number(static_cast<int32_t>(value));
    return g.pointwise(op, {in, number}, g.inside(scores, kI32), kI32);
  }

  GraphBuilder& g;
  const AttentionShape& s;
};

}  // namespace

std::string why_not_cudnn(const AttentionShape& s, AttentionPass pass, size_t version) {
  if (s.dtype != DType::kBF16) return cat(to_string(s.dtype), ": it has kernels for bf16");
  if (s.head_dim % kHeadDimStep != 0 || s.head_dim > kHeadDimMax)
    return cat("heads of ", s.head_dim, ": it has kernels for multiples of ", kHeadDimStep,
               " up to ", kHeadDimMax);
  for (const int64_t stride : {s.stride_q, s.stride_k, s.stride_v, s.stride_out}) {
    if (stride % kHeadDimStep != 0)
      return cat("a stride of ", stride, ": it reads ", kHeadDimStep, " numbers at once");
  }
  if (s.seq_k == 0) return "no keys";
  if (s.causal && s.seq_q > s.seq_k) return "queries that see no key";
  if (pass == AttentionPass::kGradient) {
    if (s.seq_q == 1 && s.seq_k == 1) return "one position";
    if (version <= kVersionOfTiledKeys && s.seq_k % kKeyTile != 0)
      return cat(s.seq_k, " keys: before 9.16 it wants whole tiles of ", kKeyTile);
  }
  return {};
}

void build_attention(GraphBuilder& g, const AttentionShape& s) {
  Attention of(g, s);
  const Tensor q = of.queries(s.stride_q), k = of.keys_transposed(s.stride_k);
  const Tensor v = of.keys(s.stride_v), out = of.queries(s.stride_out), lse = of.lse();

  Tensor scores = g.matmul(q, k, g.inside(of.scores));
  scores = of.each(CUDNN_POINTWISE_MUL, {scores, of.scale()});
  scores = of.masked(scores);
  const Tensor most = g.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, g.inside(of.row));
  const Tensor less = of.each(CUDNN_POINTWISE_SUB, {scores, most});
  const Tensor weights = of.each(CUDNN_POINTWISE_EXP, {less});
  const Tensor sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, g.inside(of.row));
  const Tensor log = of.each_row(CUDNN_POINTWISE_LOG, {sum});
  g.pointwise(CUDNN_POINTWISE_ADD, {most, log}, lse);
  const Tensor shares =
      g.pointwise(CUDNN_POINTWISE_DIV, {weights, sum}, g.inside(of.scores, kBf16));
  g.matmul(shares, v, out);
}

// On Blackwell cuDNN has ordered sums in old kernels alone.
GradientSums gradient_sums(const AttentionShape& s, uint32_t architecture) {
  if (s.deterministic == false) return GradientSums::kAsTheyCome;
  const int64_t bytes = 2 * s.batch * s.heads * s.seq_q * s.seq_k;
  return architecture < kBlackwell && bytes <= kOrderedBytesMax ? GradientSums::kOrdered
                                                                : GradientSums::kAsTheyCome;
}

void build_attention_grad(GraphBuilder& g, const AttentionShape& s, GradientSums sums) {
  Attention of(g, s);
  const Tensor q = of.queries(s.stride_q), k = of.keys_transposed(s.stride_k);
  const Tensor v = of.keys_transposed(s.stride_v), out = of.queries(s.stride_out), lse = of.lse();
  const Tensor dout = of.queries(s.stride_out), dq = of.queries(s.stride_q);
  const Tensor dk = of.keys(s.stride_k), dv = of.keys(s.stride_v);
  const Sizes queries = {s.batch, s.heads, s.seq_q, s.head_dim};

  // delta = the sum over a head of dout * out
  const Tensor both = g.pointwise(CUDNN_POINTWISE_MUL, {dout, out}, g.inside(queries));
  const Tensor added = g.reduce(CUDNN_REDUCE_TENSOR_ADD, both, g.inside(of.row));
  const Tensor delta = g.pointwise(CUDNN_POINTWISE_MUL, {added, g.number(1.0f)}, g.scratch(of.row));

  // shares = exp(scale * q k^T - lse);  dv = shares^T dout
  const Tensor scale = of.scale();
  Tensor scores = g.matmul(q, k, g.inside(of.scores));
  scores = of.each(CUDNN_POINTWISE_MUL, {scores, scale});
  scores = of.each(CUDNN_POINTWISE_SUB, {scores, lse});
  scores = of.masked(scores);
  const Tensor shares = of.each(CUDNN_POINTWISE_EXP, {scores});
  g.matmul(of.scores_transposed(shares), dout, dv);

  // dscores = scale * shares * (dout v^T - delta);  dk = dscores^T q;  dq = dscores k
  Tensor dscores = g.matmul(dout, v, g.inside(of.scores));
  dscores = of.each(CUDNN_POINTWISE_SUB, {dscores, delta});
  dscores = of.each(CUDNN_POINTWISE_MUL, {dscores, shares});
  dscores = of.each(CUDNN_POINTWISE_MUL, {dscores, scale});
  g.matmul(of.scores_transposed(dscores), q, dk);
  const Tensor keys = of.keys_back(k, s.stride_k);
  if (sums == GradientSums::kOrdered) {
    g.matmul(dscores, keys, dq);
  } else {
    g.pointwise(CUDNN_POINTWISE_IDENTITY, {g.matmul(dscores, keys, g.scratch(queries))}, dq);
  }
}

}  // namespace gangway::cuda
