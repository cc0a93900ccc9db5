#include "executor/kernels/attention.h"

#include <gtest/gtest.h>

#include "executor/kernels/kernel_test.h"

namespace gangway {
namespace {

using namespace test;

struct Tensors {
  std::vector<double> out, lse, dq, dk, dv;
};

// One head after the other, with the whole matrix of scores.
Tensors reference(const AttentionShape& s, const Buffer& q, const Buffer& k, const Buffer& v,
                  const Buffer& dout, std::optional<int64_t> lead = std::nullopt) {
  const int64_t row = s.heads * s.head_dim, nq = s.batch * s.seq_q * row,
                nk = s.batch * s.seq_k * row;
  auto zeros = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n), 0); };
  Tensors t{zeros(nq), zeros(s.batch * s.heads * s.seq_q), zeros(nq), zeros(nk), zeros(nk)};
  const double scale = s.scale == 0 ? 1 / std::sqrt(static_cast<double>(s.head_dim)) : s.scale;
  auto index = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t u = 0; u < s.batch * s.heads; ++u) {
    const int64_t head = u % s.heads * s.head_dim;
    for (int64_t i = 0; i < s.seq_q; ++i) {
      const int64_t qi = (u / s.heads * s.seq_q + i) * row + head;
      const int64_t seen =
          s.causal ? std::clamp<int64_t>(i + 1 + lead.value_or(s.seq_k - s.seq_q), 0, s.seq_k)
                   : s.seq_k;
      auto kj = [&](int64_t j) { return (u / s.heads * s.seq_k + j) * row + head; };
      std::vector<double> p(index(seen));
      double sum = 0, delta = 0;
      for (int64_t j = 0; j < seen; ++j) {
        double score = 0;
        for (int64_t d = 0; d < s.head_dim; ++d) score += q.get(qi + d) * k.get(kj(j) + d);
        sum += p[index(j)] = std::exp(scale * score);
      }
      t.lse[index(u * s.seq_q + i)] = std::log(sum);
      for (int64_t j = 0; j < seen; ++j) {
        p[index(j)] /= sum;
        for (int64_t d = 0; d < s.head_dim; ++d)
          t.out[index(qi + d)] += p[index(j)] * v.get(kj(j) + d);
      }
      for (int64_t d = 0; d < s.head_dim; ++d) delta += dout.get(qi + d) * t.out[index(qi + d)];
      for (int64_t j = 0; j < seen; ++j) {
        double dp = 0;
        for (int64_t d = 0; d < s.head_dim; ++d) dp += dout.get(qi + d) * v.get(kj(j) + d);
        const double ds = p[index(j)] * (dp - delta) * scale;
        for (int64_t d = 0; d < s.head_dim; ++d) {
          t.dv[index(kj(j) + d)] += p[index(j)] * dout.get(qi + d);
          t.dq[index(qi + d)] += ds * k.get(kj(j) + d);
          t.dk[index(kj(j) + d)] += ds * q.get(qi + d);
        }
      }
    }
  }
  return t;
}

void check(const AttentionShape& s, std::mt19937& rng, std::optional<int64_t> lead = std::nullopt) {
  const int64_t row = s.heads * s.head_dim, nq = s.batch * s.seq_q * row,
                nk = s.batch * s.seq_k * row;
  const DType stat = s.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const Buffer q(s.dtype, randoms(rng, s.dtype, nq)), k(s.dtype, randoms(rng, s.dtype, nk)),
      v(s.dtype, randoms(rng, s.dtype, nk));
  const Buffer dout(s.dtype, randoms(rng, s.dtype, nq));
  const Tensors want = reference(s, q, k, v, dout, lead);
  check_everywhere(cat("b", s.batch, " h", s.heads, " q", s.seq_q, " k", s.seq_k, " d", s.head_dim,
                       " ", to_string(s.dtype), s.causal ? " causal" : ""),
                   [&](Parallel& par) {
                     Buffer out(s.dtype, nq), lse(stat, s.batch * s.heads * s.seq_q),
                         dq(s.dtype, nq), dk(s.dtype, nk), dv(s.dtype, nk);
                     Buffer forward = scratch_of(attention_scratch_bytes(s, par.threads()));
                     attention(par, s, q.data(), k.data(), v.data(), out.data(), lse.data(),
                               forward.data(), lead);
                     Buffer backward = scratch_of(attention_grad_scratch_bytes(s, par.threads()));
                     attention_grad(par, s,
                                    {q.data(), k.data(), v.data(), out.data(), lse.data(),
                                     dout.data(), dq.data(), dk.data(), dv.data()},
                                    backward.data(), lead);
                     return outputs(std::move(out), std::move(lse), std::move(dq), std::move(dk),
                                    std::move(dv));
                   },
                   {{want.out, 16, 0.2},
                    {want.lse, 30, 0.1},
                    {want.dq, 60, 0.1},
                    {want.dk, 60, 0.1},
                    {want.dv, 60, 0.1}});
}

TEST(Attention, EqualsItsDefinitionForwardAndBackward) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (bool causal : {false, true}) {
      check({.dtype = dtype, .seq_q = 1, .seq_k = 1, .head_dim = 1, .causal = causal}, rng);
      check({.dtype = dtype,
             .batch = 2,
             .heads = 3,
             .seq_q = 7,
             .seq_k = 7,
             .head_dim = 5,
             .causal = causal},
            rng);
      check({.dtype = dtype,
             .batch = 1,
             .heads = 2,
             .seq_q = 70,
             .seq_k = 70,
             .head_dim = 32,
             .causal = causal,
             .scale = 0.3},
            rng);
      check({.dtype = dtype,
             .batch = 1,
             .heads = 1,
             .seq_q = 66,
             .seq_k = 130,
             .head_dim = 24,
             .causal = causal},
            rng);
    }
  }
}

// Blocks of queries and of keys, their last rows, and heads that are no whole number of pairs,
// vectors or panels.
TEST(Attention, CoversTheTailsOfItsBlocks) {
  std::mt19937 rng = seeded();
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (bool causal : {false, true}) {
      check({.dtype = dtype, .seq_q = 49, .seq_k = 49, .head_dim = 64, .causal = causal}, rng);
      check({.dtype = dtype, .heads = 2, .seq_q = 1, .seq_k = 65, .head_dim = 67, .causal = causal},
            rng);
      check({.dtype = dtype, .seq_q = 97, .seq_k = 64, .head_dim = 17, .causal = causal}, rng);
      check({.dtype = dtype, .seq_q = 51, .seq_k = 3, .head_dim = 130, .causal = causal}, rng);
      check({.dtype = dtype,
             .heads = 2,
             .seq_q = 130,
             .seq_k = 1101,
             .head_dim = 15,
             .causal = causal,
             .scale = -0.4},
            rng);
    }
  }
}

// Tensors of one head whose scores are whole sixteenths, and an offset that all of them share.
struct SharedOffset {
  SharedOffset(std::mt19937& rng, const AttentionShape& s)
      : dim(s.head_dim),
        q(DType::kF32, s.seq_q * dim),
        k(DType::kF32, s.seq_k * dim),
        v(DType::kF32, randoms(rng, DType::kF32, s.seq_k * dim)),
        dout(DType::kF32, randoms(rng, DType::kF32, s.seq_q * dim)),
        sixteenths(random_ints(rng, s.seq_k * dim, -16, 17)) {
    const std::vector<int32_t> signs = random_ints(rng, s.seq_q * dim, -1, 2);
    for (int64_t i = 0; i < s.seq_q * dim; ++i)
      q.set(i, i % dim == 0 ? 1.0 : signs[static_cast<size_t>(i)]);
    share(0);
  }
  void share(double offset) {
    for (size_t i = 0; i < sixteenths.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      k.set(at, at % dim == 0 ? offset : sixteenths[i] / 16.0);
    }
  }

  const int64_t dim;
  Buffer q, k, v, dout;
  const std::vector<int32_t> sixteenths;
};

// Every score has the same number added, in f32, where 1e6 leaves steps of 1/16: scores are whole
// steps, so what they share is exact, and nothing depends on it.
TEST(Attention, AnOffsetCommonToAllScoresCostsTheGradientNoDigits) {
  std::mt19937 rng = seeded();
  for (bool causal : {false, true}) {
    const AttentionShape s{.seq_q = 60, .seq_k = 600, .head_dim = 8, .causal = causal, .scale = 1};
    const int64_t nq = s.seq_q * s.head_dim, nk = s.seq_k * s.head_dim;
    SharedOffset of(rng, s);
    Tensors want = reference(s, of.q, of.k, of.v, of.dout);
    for (const double offset : {0.0, 1e4, -1e4, 1e6}) {
      of.share(offset);
      check_everywhere(
          cat("at ", offset),
          [&](Parallel& par) {
            Buffer out(DType::kF32, nq), lse(DType::kF32, s.seq_q), dq(DType::kF32, nq),
                dk(DType::kF32, nk), dv(DType::kF32, nk);
            Buffer forward = scratch_of(attention_scratch_bytes(s, par.threads()));
            attention(par, s, of.q.data(), of.k.data(), of.v.data(), out.data(), lse.data(),
                      forward.data());
            Buffer backward = scratch_of(attention_grad_scratch_bytes(s, par.threads()));
            attention_grad(par, s,
                           {of.q.data(), of.k.data(), of.v.data(), out.data(), lse.data(),
                            of.dout.data(), dq.data(), dk.data(), dv.data()},
                           backward.data());
            // Column 0 of dq is not compared: it is the shared offset times the sum of a row's
            // gradients, which is 0 but for roundings.
            for (int64_t i = 0; i < nq; i += s.head_dim) dq.set(i, want.dq[static_cast<size_t>(i)]);
            return outputs(std::move(out), std::move(dq), std::move(dk), std::move(dv));
          },
          {{want.out, 16, 0.2}, {want.dq, 60, 0.1}, {want.dk, 60, 0.1}, {want.dv, 60, 0.1}});
    }
  }
}

// A ring without a mask calls the gradient so: logsumexp and out cover all keys, and each call has
// some of them.
TEST(Attention, PartsOfTheKeysGiveTheirTermsOfTheGradientWhereScoresAreLarge) {
  std::mt19937 rng = seeded();
  const AttentionShape all{.seq_q = 20, .seq_k = 64, .head_dim = 8, .scale = 1};
  AttentionShape half = all;
  half.seq_k = all.seq_k / 2;
  const int64_t nq = all.seq_q * all.head_dim, nk = all.seq_k * all.head_dim;
  SharedOffset of(rng, all);
  const Tensors want = reference(all, of.q, of.k, of.v, of.dout);
  of.share(1e4);
  Parallel par(1);
  Buffer out(DType::kF32, nq), lse(DType::kF32, all.seq_q);
  Buffer forward = scratch_of(attention_scratch_bytes(all, 1));
  attention(par, all, of.q.data(), of.k.data(), of.v.data(), out.data(), lse.data(),
            forward.data());
  std::vector<double> sums(static_cast<size_t>(nq));
  for (const int64_t first : {int64_t{0}, nk / 2}) {
    Buffer keys(DType::kF32, nk / 2), values(DType::kF32, nk / 2);
    for (int64_t i = 0; i < nk / 2; ++i) {
      keys.set(i, of.k.get(first + i));
      values.set(i, of.v.get(first + i));
    }
    Buffer dq(DType::kF32, nq), dk(DType::kF32, nk / 2), dv(DType::kF32, nk / 2);
    Buffer backward = scratch_of(attention_grad_scratch_bytes(half, 1));
    attention_grad(par, half,
                   {of.q.data(), keys.data(), values.data(), out.data(), lse.data(), of.dout.data(),
                    dq.data(), dk.data(), dv.data()},
                   backward.data());
    for (int64_t i = 0; i < nq; ++i) sums[static_cast<size_t>(i)] += dq.get(i);
    for (int64_t i = 0; i < nk / 2; ++i)
      EXPECT_NEAR(dv.get(i), want.dv[static_cast<size_t>(first + i)], 0.01) << "dv " << first + i;
  }
  for (int64_t i = 0; i < nq; ++i) {
    if (i % all.head_dim == 0) continue;
    EXPECT_NEAR(sums[static_cast<size_t>(i)], want.dq[static_cast<size_t>(i)], 0.01) << "dq " << i;
  }
}

TEST(Attention, QueriesThatSeeNoKeyGiveZerosAndNoGradient) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    check({.dtype = dtype, .heads = 2, .seq_q = 9, .seq_k = 4, .head_dim = 8, .causal = true}, rng);
    check({.dtype = dtype, .seq_q = 60, .seq_k = 7, .head_dim = 8, .causal = true}, rng);
    check({.dtype = dtype, .batch = 0, .heads = 2, .seq_q = 9, .seq_k = 4, .head_dim = 8}, rng);
  }
}

TEST(Attention, AStartGivenAtRunTimeSaysWhatQueriesSee) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (int64_t lead : {-1, 0, 40, -75, 1000}) {
      check({.dtype = dtype, .heads = 2, .seq_q = 70, .seq_k = 66, .head_dim = 8, .causal = true},
            rng, lead);
    }
  }
}

TEST(Attention, ReadsViewsOfOneProjection) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    const AttentionShape dense{.dtype = dtype,
                               .batch = 2,
                               .heads = 2,
                               .seq_q = 10,
                               .seq_k = 10,
                               .head_dim = 9,
                               .causal = true};
    AttentionShape view = dense;
    view.stride_q = view.stride_k = view.stride_v = 55;  // One element that belongs to none.
    const Buffer qkv(dtype, randoms(rng, dtype, 2 * 10 * 55));
    Buffer parts[3] = {{dtype, 360}, {dtype, 360}, {dtype, 360}};
    for (int64_t i = 0; i < 1100; ++i) {
      if (i % 55 < 54) parts[i % 55 / 18].set(i / 55 * 18 + i % 55 % 18, qkv.get(i));
    }
    const Tensors want = reference(dense, parts[0], parts[1], parts[2], parts[0]);
    check_everywhere("views",
                     [&](Parallel& par) {
                       Buffer out(dtype, 360);
                       Buffer scratch = scratch_of(attention_scratch_bytes(view, par.threads()));
                       auto* x = static_cast<const std::byte*>(qkv.data());
                       const size_t part = 18 * size_of(dtype);
                       attention(par, view, x, x + part, x + 2 * part, out.data(), nullptr,
                                 scratch.data());
                       return outputs(std::move(out));
                     },
                     {{want.out, 16}});
  }
}

TEST(Attention, DecodingSeesTheValidPartOfTheCache) {
  std::mt19937 rng = seeded();
  for (DType dtype : kFloats) {
    for (int64_t length : {0, 1, 37, 50, 99}) {
      AttentionShape s{
          .dtype = dtype, .batch = 2, .heads = 2, .seq_q = 1, .seq_k = 50, .head_dim = 20};
      const int64_t row = 40, valid = std::min<int64_t>(length, 50);
      const Buffer q(dtype, randoms(rng, dtype, 2 * row));
      Buffer k(dtype, 2 * 50 * row), v(dtype, 2 * 50 * row);  // NaN where not valid.
      Buffer short_k(dtype, 2 * valid * row), short_v(dtype, 2 * valid * row);
      for (int64_t i = 0; i < 2 * valid * row; ++i) {
        short_k.set(i, randoms(rng, dtype, 1)[0]);
        short_v.set(i, randoms(rng, dtype, 1)[0]);
        const int64_t at = i / (valid * row) * 50 * row + i % (valid * row);
        k.set(at, short_k.get(i));
        v.set(at, short_v.get(i));
      }
      AttentionShape exact = s;
      exact.seq_k = valid;
      const Tensors want = reference(exact, q, short_k, short_v, q);
      check_everywhere(cat("length ", length),
                       [&](Parallel& par) {
                         Buffer out(dtype, 2 * row);
                         Buffer scratch =
                             scratch_of(attention_decode_scratch_bytes(s, par.threads()));
                         attention_decode(par, s, length, q.data(), k.data(), v.data(), out.data(),
                                          scratch.data());
                         return outputs(std::move(out));
                       },
                       {{want.out, 16}});
    }
  }
}

}  // namespace
}  // namespace gangway
