// Attention by Gangway's own kernels, on the emulated device.
#include "executor/devices/cuda/lower/own_operation.h"

#include <array>
#include <cmath>

#include "tests/cuda_kernels/op_kernel.h"
#include "tests/interpret/interpret.h"
#include "tests/op_table/cases.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

using cuda::OwnOperation;

AttentionShape shape_of(const OpRun& run) {
  const Type &q = run.in_type(0), &k = run.in_type(1);
  const int64_t heads = run.attrs().integer("heads");
  return {.dtype = q.dtype,
          .batch = q.dims[0],
          .heads = heads,
          .seq_q = q.dims[1],
          .seq_k = k.dims[1],
          .head_dim = q.dims[2] / heads,
          .causal = run.attrs().flag("causal"),
          .scale = run.attrs().real("scale")};
}

void attend(OpRun& run) {
  run.run_own(OwnOperation::attention(run.gpu().driver, shape_of(run), run.inputs() > 3),
              run.inputs());
}
void attend_back(OpRun& run) {
  run.run_own(OwnOperation::attention_grad(run.gpu().driver, shape_of(run), run.inputs() > 6),
              run.inputs());
}

TEST(OwnOperations, Attention) { check_op(Op::attention, attend); }
TEST(OwnOperations, AttentionGrad) { check_op(Op::attention_grad, attend_back); }

// These shapes are larger than the op table's small cases: they take several tiles, none of them
// full.
class Large : public ::testing::TestWithParam<std::tuple<DType, bool, uint64_t>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  void check(Op op, const Attrs& attrs, const std::vector<Literal>& inputs,
             const std::function<void(OpRun&)>& program) {
    check_case(op, attrs, inputs, seed_, program);
  }
  Literal any(Dims dims) {
    return op_table::random_literal({dtype(), std::move(dims)}, op_table::Fill::kAny, rng_);
  }

  const uint64_t seed_ = tests::test_seed() + std::get<2>(GetParam());
  Rng rng_{seed_, 5};
};

TEST_P(Large, AttentionOfSeveralTiles) {
  const Attrs attrs{{"heads", int64_t{2}}, {"scale", 0.0}, {"causal", std::get<1>(GetParam())}};
  const auto start = [](double at) { return Literal{i32(), {at}}; };
  // The op runs without starts, and with some.
  for (const std::vector<Literal>& starts :
       {std::vector<Literal>{}, {start(0), start(0)}, {start(40), start(8)}}) {
    std::vector<Literal> inputs = {any({1, 37, 18}), any({1, 37, 18}), any({1, 37, 18})};
    inputs.insert(inputs.end(), starts.begin(), starts.end());
    check(Op::attention, attrs, inputs, attend);
    std::vector<Type> types;
    for (const Literal& in : inputs) types.push_back(in.type);
    std::vector<Literal> made = evaluate({Op::attention, types, attrs}, inputs);
    made.push_back(any({1, 37, 18}));
    inputs.insert(inputs.begin() + 3, made.begin(), made.end());
    check(Op::attention_grad, attrs, inputs, attend_back);
  }
}

INSTANTIATE_TEST_SUITE_P(OwnOperations, Large,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBF16),
                                            ::testing::Bool(), ::testing::Values(0, 1)));

class OwnOperationAlone : public ::testing::Test {
 protected:
  OwnOperationAlone() : gpu_(machine_) {}
  std::vector<float> numbers(int64_t n) {
    std::vector<float> made(static_cast<size_t>(n));
    for (float& x : made) x = static_cast<float>(rng_.uniform()) - 0.5f;
    return made;
  }

  Rng rng_{tests::test_seed(), 6};
  EmulatedMachine machine_{{.seed = tests::test_seed()}};
  Gpu gpu_;
};

TEST_F(OwnOperationAlone, AttentionOfViewsOfOneProjectionHasTheBitsOfDenseTensors) {
  const int64_t seq = 9, dim = 8;
  const std::vector<float> all = numbers(seq * 3 * dim);
  std::vector<float> parts[3];
  for (size_t part = 0; part < 3; ++part) {
    for (int64_t i = 0; i < seq; ++i) {
      const auto row = all.begin() + (3 * i + static_cast<int64_t>(part)) * dim;
      parts[part].insert(parts[part].end(), row, row + dim);
    }
  }
  const auto attend = [&](float* q, float* k, float* v, int64_t stride) {
    AttentionShape shape{.heads = 2, .seq_q = seq, .seq_k = seq, .head_dim = 4, .causal = true};
    shape.stride_q = shape.stride_k = shape.stride_v = stride;
    const OwnOperation own = OwnOperation::attention(gpu_.driver, shape).take();
    float *out = gpu_.buffer<float>(seq * dim), *lse = gpu_.buffer<float>(2 * seq);
    void* tensors[] = {q, k, v, out, lse};
    EXPECT_TRUE(own.run(gpu_.driver, gpu_.at("attention"), tensors, nullptr).ok());
    return gpu_.download(out, seq * dim);
  };
  float* one = gpu_.upload(all);
  EXPECT_EQ(attend(one, one + dim, one + 2 * dim, 3 * dim),
            attend(gpu_.upload(parts[0]), gpu_.upload(parts[1]), gpu_.upload(parts[2]), 0));
  EXPECT_EQ(machine_.report_text(), "");
}

// The kernels use the matrix unit. q, k and v, and their gradients, are columns of one matrix.
TEST_F(OwnOperationAlone, AttentionInBf16OfViewsHasTheBitsOfDenseTensors) {
  const int64_t seq = 70, dim = 48, heads = 2;
  using Elements = std::vector<uint16_t>;
  const auto rounded = [&](int64_t n) {
    Elements made;
    for (const float x : numbers(n)) made.push_back(cuda::narrow<cuda::bf16>(x).bits);
    return made;
  };
  const auto part = [&](const Elements& all, int64_t which) {
    Elements made;
    for (int64_t i = 0; i < seq; ++i) {
      const auto row = all.begin() + (3 * i + which) * dim;
      made.insert(made.end(), row, row + dim);
    }
    return made;
  };
  const auto attend = [&](const std::array<uint16_t*, 3>& in, const std::array<uint16_t*, 3>& grads,
                          uint16_t* dout, int64_t stride) {
    AttentionShape shape{.dtype = DType::kBF16,
                         .heads = heads,
                         .seq_q = seq,
                         .seq_k = seq,
                         .head_dim = dim / heads,
                         .causal = true};
    shape.stride_q = shape.stride_k = shape.stride_v = stride;
    auto* out = gpu_.buffer<uint16_t>(seq * dim);
    auto* lse = gpu_.buffer<float>(heads * seq);
    const auto run = [&](const OwnOperation& own, std::vector<void*> tensors) {
      void* scratch = gpu_.buffer<std::byte>(own.scratch_bytes + 1);
      EXPECT_TRUE(own.run(gpu_.driver, gpu_.at("attention"), tensors, scratch).ok());
    };
    run(OwnOperation::attention(gpu_.driver, shape).take(), {in[0], in[1], in[2], out, lse});
    run(OwnOperation::attention_grad(gpu_.driver, shape).take(),
        {in[0], in[1], in[2], out, lse, dout, grads[0], grads[1], grads[2]});
    return gpu_.download(out, seq * dim);
  };
  const Elements all = rounded(seq * 3 * dim);
  uint16_t *one = gpu_.upload(all), *dout = gpu_.upload(rounded(seq * dim));
  uint16_t* grad = gpu_.upload(Elements(all.size()));
  const Elements out =
      attend({one, one + dim, one + 2 * dim}, {grad, grad + dim, grad + 2 * dim}, dout, 3 * dim);
  std::array<uint16_t*, 3> in = {}, grads = {};
  for (size_t i = 0; i < 3; ++i) {
    in[i] = gpu_.upload(part(all, static_cast<int64_t>(i)));
    grads[i] = gpu_.buffer<uint16_t>(seq * dim);
  }
  EXPECT_EQ(out, attend(in, grads, dout, 0));
  const Elements of_views = gpu_.download(grad, seq * 3 * dim);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(part(of_views, static_cast<int64_t>(i)), gpu_.download(grads[i], seq * dim)) << i;
  EXPECT_EQ(machine_.report_text(), "");
}

// The matrix unit's kernels move eight elements at a time, and take the largest score before it is
// scaled.
TEST_F(OwnOperationAlone, AttentionInBf16TakesTheMatrixUnitWhereItsKernelsCan) {
  const auto is_launched_as = [&](const AttentionShape& shape, const std::string& kernel) {
    const OwnOperation own = OwnOperation::attention(gpu_.driver, shape).take();
    ASSERT_EQ(own.commands.size(), 1u);
    EXPECT_EQ(own.commands[0].kernel.bits, gpu_.driver.kernel({}, kernel).take().bits) << kernel;
  };
  const AttentionShape fits{
      .dtype = DType::kBF16, .heads = 3, .seq_q = 7, .seq_k = 7, .head_dim = 40};
  is_launched_as(fits, "attention_bf16_64");
  AttentionShape other = fits;
  other.dtype = DType::kF32;
  is_launched_as(other, "attention_f32");
  other = fits;
  other.head_dim = 36;
  is_launched_as(other, "attention_bf16");
  other.head_dim = 136;
  is_launched_as(other, "attention_bf16");
  other = fits;
  other.stride_k = 3 * 40 + 4;
  is_launched_as(other, "attention_bf16");
  other = fits;
  other.scale = -1;
  is_launched_as(other, "attention_bf16");
}

// The ops need as many queries as keys; the operation does not.
TEST_F(OwnOperationAlone, FewerQueriesThanKeysGiveWhatTheCpuGives) {
  const AttentionShape s{.batch = 2, .seq_q = 35, .seq_k = 41, .head_dim = 6, .causal = true};
  const int64_t nq = s.batch * s.seq_q * s.head_dim, nk = s.batch * s.seq_k * s.head_dim;
  const auto zeros = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n)); };
  const std::vector<float> q = numbers(nq), k = numbers(nk), v = numbers(nk), dout = numbers(nq);
  std::vector<float> out = zeros(nq), lse = zeros(s.batch * s.seq_q), dq = out, dk = k, dv = k;
  Parallel par(1);
  std::vector<std::byte> scratch(attention_grad_scratch_bytes(s, 1) + 64);
  attention(par, s, q.data(), k.data(), v.data(), out.data(), lse.data(), scratch.data());
  attention_grad(par, s,
                 {q.data(), k.data(), v.data(), out.data(), lse.data(), dout.data(), dq.data(),
                  dk.data(), dv.data()},
                 scratch.data());

  const OwnOperation back = OwnOperation::attention_grad(gpu_.driver, s).take();
  float *got_q = gpu_.buffer<float>(nq), *got_k = gpu_.buffer<float>(nk);
  float *got_v = gpu_.buffer<float>(nk), *got_out = gpu_.buffer<float>(nq);
  float *qs = gpu_.upload(q), *ks = gpu_.upload(k), *vs = gpu_.upload(v);
  float* sums = gpu_.buffer<float>(s.batch * s.seq_q);
  void* forward[] = {qs, ks, vs, got_out, sums};
  ASSERT_TRUE(OwnOperation::attention(gpu_.driver, s)
                  .take()
                  .run(gpu_.driver, gpu_.at("attention"), forward, nullptr)
                  .ok());
  void* tensors[] = {qs, ks, vs, got_out, sums, gpu_.upload(dout), got_q, got_k, got_v};
  auto* space = gpu_.buffer<std::byte>(back.scratch_bytes);
  ASSERT_TRUE(back.run(gpu_.driver, gpu_.at("gradient"), tensors, space).ok());
  const auto compare = [&](const float* data, const std::vector<float>& want, const char* name) {
    const std::vector<float> got = gpu_.download(data, static_cast<int64_t>(want.size()));
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5) << name << i;
  };
  compare(got_out, out, "out ");
  compare(sums, lse, "lse ");
  compare(got_q, dq, "dq ");
  compare(got_k, dk, "dk ");
  compare(got_v, dv, "dv ");
  EXPECT_EQ(machine_.report_text(), "");
}

// The gradients of one head whose scale is 1, in double. The first element of all keys adds the
// same offset to all scores of a row: it changes no weight, and is left out.
struct Gradients {
  std::vector<double> dq, dk, dv;
};
Gradients gradients_of(const AttentionShape& s, const std::vector<float>& q,
                       const std::vector<float>& k, const std::vector<float>& v,
                       const std::vector<float>& dout) {
  const auto dim = static_cast<size_t>(s.head_dim), queries = static_cast<size_t>(s.seq_q),
             keys = static_cast<size_t>(s.seq_k);
  Gradients made{std::vector<double>(q.size()), std::vector<double>(k.size()),
                 std::vector<double>(v.size())};
  for (size_t i = 0; i < queries; ++i) {
    const size_t seen = s.causal ? i + 1 + keys - queries : keys;
    std::vector<double> weights(seen), along(seen);
    double total = 0, delta = 0;
    for (size_t j = 0; j < seen; ++j) {
      double score = 0;
      for (size_t c = 1; c < dim; ++c) score += double{q[i * dim + c]} * k[j * dim + c];
      for (size_t c = 0; c < dim; ++c) along[j] += double{dout[i * dim + c]} * v[j * dim + c];
      total += weights[j] = std::exp(score);
    }
    for (double& weight : weights) weight /= total;
    for (size_t j = 0; j < seen; ++j) delta += weights[j] * along[j];
    for (size_t j = 0; j < seen; ++j) {
      const double of_score = weights[j] * (along[j] - delta);
      for (size_t c = 0; c < dim; ++c) {
        made.dq[i * dim + c] += of_score * k[j * dim + c];
        made.dk[j * dim + c] += of_score * q[i * dim + c];
        made.dv[j * dim + c] += weights[j] * dout[i * dim + c];
      }
    }
  }
  return made;
}

// Near 1e6 steps of f32 are 1/16. Scores are whole sixteenths, so their common offset is exact.
TEST_F(OwnOperationAlone, AnOffsetCommonToAllScoresCostsTheGradientNoDigits) {
  for (const bool causal : {false, true}) {
    const AttentionShape s{.seq_q = 35, .seq_k = 41, .head_dim = 6, .causal = causal, .scale = 1};
    const auto dim = static_cast<size_t>(s.head_dim);
    const int64_t nq = s.seq_q * s.head_dim, nk = s.seq_k * s.head_dim;
    std::vector<float> q = numbers(nq), sixteenths = numbers(nk);
    const std::vector<float> v = numbers(nk), dout = numbers(nq);
    for (size_t i = 0; i < q.size(); ++i) q[i] = i % dim == 0 ? 1 : std::round(q[i] * 2);
    for (float& x : sixteenths) x = std::round(x * 32) / 16;
    for (const float offset : {0.0f, 1e4f, -1e4f, 1e6f}) {
      SCOPED_TRACE(offset);
      std::vector<float> k = sixteenths;
      for (size_t i = 0; i < k.size(); i += dim) k[i] = offset;
      const Gradients want = gradients_of(s, q, k, v, dout);
      float *qs = gpu_.upload(q), *ks = gpu_.upload(k), *vs = gpu_.upload(v);
      float *out = gpu_.buffer<float>(nq), *lse = gpu_.buffer<float>(s.seq_q);
      float *dq = gpu_.buffer<float>(nq), *dk = gpu_.buffer<float>(nk),
            *dv = gpu_.buffer<float>(nk);
      const auto run = [&](const OwnOperation& own, std::vector<void*> tensors) {
        void* scratch = gpu_.buffer<std::byte>(own.scratch_bytes + 1);
        ASSERT_TRUE(own.run(gpu_.driver, gpu_.at("attention"), tensors, scratch).ok());
      };
      run(OwnOperation::attention(gpu_.driver, s).take(), {qs, ks, vs, out, lse});
      run(OwnOperation::attention_grad(gpu_.driver, s).take(),
          {qs, ks, vs, out, lse, gpu_.upload(dout), dq, dk, dv});
      const auto compare = [&](const float* data, const std::vector<double>& right,
                               const char* name, bool has_first) {
        const std::vector<float> got = gpu_.download(data, static_cast<int64_t>(right.size()));
        for (size_t i = 0; i < right.size(); ++i) {
          if (!has_first && i % dim == 0) continue;
          ASSERT_NEAR(got[i], right[i], 2e-5) << name << i;
        }
      };
      // The first elements of dq are not compared: each is the common offset times the sum of a
      // row's gradients, which is 0 but for roundings.
      compare(dq, want.dq, "dq ", false);
      compare(dk, want.dk, "dk ", true);
      compare(dv, want.dv, "dv ", true);
    }
  }
  EXPECT_EQ(machine_.report_text(), "");
}

// A ring without a mask does the same: each call has some of the keys, and logsumexp and out are
// those of all keys.
TEST_F(OwnOperationAlone, PartsOfTheKeysGiveTheirTermsOfTheGradientWhereScoresAreLarge) {
  const AttentionShape all{.seq_q = 20, .seq_k = 64, .head_dim = 6, .scale = 1};
  AttentionShape half = all;
  half.seq_k = all.seq_k / 2;
  const int64_t nq = all.seq_q * all.head_dim, nk = all.seq_k * all.head_dim;
  std::vector<float> q = numbers(nq), k = numbers(nk);
  const std::vector<float> v = numbers(nk), dout = numbers(nq);
  for (size_t i = 0; i < q.size(); i += 6) q[i] = 1;
  for (size_t i = 0; i < k.size(); i += 6) k[i] = 1e4f;
  const Gradients want = gradients_of(all, q, k, v, dout);
  float *qs = gpu_.upload(q), *ks = gpu_.upload(k), *vs = gpu_.upload(v);
  float *out = gpu_.buffer<float>(nq), *lse = gpu_.buffer<float>(all.seq_q);
  float *dk = gpu_.buffer<float>(nk), *dv = gpu_.buffer<float>(nk);
  void* forward[] = {qs, ks, vs, out, lse};
  ASSERT_TRUE(OwnOperation::attention(gpu_.driver, all)
                  .take()
                  .run(gpu_.driver, gpu_.at("attention"), forward, nullptr)
                  .ok());
  const OwnOperation back = OwnOperation::attention_grad(gpu_.driver, half).take();
  for (const int64_t first : {int64_t{0}, nk / 2}) {
    void* tensors[] = {
        qs,         ks + first, vs + first, out, lse, gpu_.upload(dout), gpu_.buffer<float>(nq),
        dk + first, dv + first};
    void* scratch = gpu_.buffer<std::byte>(back.scratch_bytes);
    ASSERT_TRUE(back.run(gpu_.driver, gpu_.at("gradient"), tensors, scratch).ok());
  }
  const std::vector<float> got = gpu_.download(dv, nk);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want.dv[i], 0.01) << "dv " << i;
  EXPECT_EQ(machine_.report_text(), "");
}

TEST_F(OwnOperationAlone, AQueryThatSeesNoKeyGivesZerosAndNoWeight) {
  const int64_t queries = 5, keys = 2, dim = 4;  // The first three queries see no key.
  const OwnOperation own =
      OwnOperation::attention(gpu_.driver,
                              {.seq_q = queries, .seq_k = keys, .head_dim = dim, .causal = true})
          .take();
  float *out = gpu_.buffer<float>(queries * dim), *lse = gpu_.buffer<float>(queries);
  void* tensors[] = {gpu_.upload(numbers(queries * dim)), gpu_.upload(numbers(keys * dim)),
                     gpu_.upload(numbers(keys * dim)), out, lse};
  ASSERT_TRUE(own.run(gpu_.driver, gpu_.at("attention"), tensors, nullptr).ok());
  const std::vector<float> got = gpu_.download(out, queries * dim);
  const std::vector<float> sums = gpu_.download(lse, queries);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sums[i], -INFINITY);
    for (size_t c = 0; c < 4; ++c) EXPECT_EQ(got[i * 4 + c], 0);
  }
  EXPECT_TRUE(std::isfinite(sums[3]));
  EXPECT_EQ(machine_.report_text(), "");
}

TEST_F(OwnOperationAlone, HeadsThatAreTooWideAreRefused) {
  const auto made =
      OwnOperation::attention(gpu_.driver, {.seq_q = 1, .seq_k = 1, .head_dim = 65536});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind(), ErrorKind::kUnimplemented);
}

// 4 * 32 * 1025 floats and a table do not fit into 227 KiB: the tile is halved until they do.
TEST_F(OwnOperationAlone, WideHeadsTakeASmallerTile) {
  const int64_t dim = 1024, keys = 18;
  const OwnOperation own =
      OwnOperation::attention(gpu_.driver, {.seq_q = 1, .seq_k = keys, .head_dim = dim}).take();
  std::vector<float> values(static_cast<size_t>(keys * dim));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / dim);
  float *out = gpu_.buffer<float>(dim), *lse = gpu_.buffer<float>(1);
  void* tensors[] = {gpu_.upload(std::vector<float>(dim, 0)), gpu_.upload(values),
                     gpu_.upload(values), out, lse};
  ASSERT_TRUE(own.run(gpu_.driver, gpu_.at("attention"), tensors, nullptr).ok());
  for (float x : gpu_.download(out, dim)) ASSERT_NEAR(x, (keys - 1) / 2.0, 1e-5);
  EXPECT_NEAR(gpu_.download(lse, 1)[0], std::log(keys), 1e-5);
  EXPECT_EQ(machine_.report_text(), "");
}

}  // namespace
}  // namespace gangway::emulated
