// Compares cuDNN's attention in bf16 on a real card with the CPU's kernels in f32. Where there is
// no GPU or no cuDNN, the tests skip and say why.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "executor/devices/cuda/driver/loader.h"
#include "executor/kernels/attention.h"
#include "executor/kernels/kernel_test.h"
#include "runtime/base/rng.h"

namespace gangway::cuda {
namespace {

using test::Buffer;

// Tolerance for a tensor of the type, as a part of its largest number.
double tolerance(DType dtype) { return dtype == DType::kF32 ? 0.002 : 0.02; }

// The tensors of one shape, in the order of Driver::run().
enum Place : size_t { kQ, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv, kPlaces };

class CardAttention : public testing::TestWithParam<AttentionShape> {
 protected:
  void SetUp() override {
    const FoundGpus found = find_gpus();
    if (found.gpus.empty()) GTEST_SKIP() << found.why_none;
    driver_ = open_gpu({.memory_bytes = int64_t{1} << 30});
    stream_ = driver_->make_stream("test").take();
    forward_ = prepared(driver_->prepare_attention(GetParam()));
    if (IsSkipped()) return;
    gradient_ = prepared(driver_->prepare_attention_grad(GetParam()));
    if (IsSkipped()) return;
    make_tensors();
  }

  Prepared prepared(Result<Prepared> made) {
    if (made.ok()) return made.take();
    [&] { GTEST_SKIP() << made.error().message(); }();
    return {};
  }

  void make_tensors() {
    const AttentionShape& s = GetParam();
    const int64_t nq = s.batch * s.seq_q * s.heads * s.head_dim;
    const int64_t nk = s.batch * s.seq_k * s.heads * s.head_dim;
    const int64_t sizes[kPlaces] = {nq, nk, nk, nq, s.batch * s.heads * s.seq_q, nq, nq, nk, nk};
    Rng rng(20260101, 13);
    for (size_t place = 0; place < kPlaces; ++place) {
      Buffer& host = host_.emplace_back(place == kLse ? DType::kF32 : DType::kBF16, sizes[place]);
      for (int64_t i = 0; i < host.size(); ++i) host.set(i, rng.uniform() - 0.5);
      card_.push_back(upload(host));
    }
  }

  std::byte* buffer(int64_t bytes) { return driver_->allocate({stream_, "buffer"}, bytes).take(); }
  std::byte* upload(const Buffer& from) {
    const auto bytes = static_cast<int64_t>(from.bytes());
    std::byte* staging = driver_->allocate_pinned(bytes).take();
    std::memcpy(staging, from.data(), from.bytes());
    std::byte* data = buffer(bytes);
    EXPECT_TRUE(driver_->copy({stream_, "upload"}, data, staging, bytes).ok());
    return data;
  }
  Buffer download(size_t place) {
    Buffer to(host_[place].dtype(), host_[place].size());
    const auto bytes = static_cast<int64_t>(to.bytes());
    std::byte* staging = driver_->allocate_pinned(bytes).take();
    EXPECT_TRUE(driver_->copy({stream_, "download"}, staging, card_[place], bytes).ok());
    EXPECT_TRUE(driver_->synchronize(stream_).ok());
    std::memcpy(to.data(), staging, to.bytes());
    return to;
  }
  void run_both() {
    std::byte* scratch = buffer(std::max(forward_.scratch_bytes, gradient_.scratch_bytes) + 1);
    run_both(scratch);
  }
  void run_both(std::byte* scratch) {
    const std::span<void* const> all(reinterpret_cast<void* const*>(card_.data()), card_.size());
    const Status forward =
        driver_->run({stream_, "attention"}, forward_.operation, all.first(kDout), scratch);
    ASSERT_TRUE(forward.ok()) << forward.text;
    const Status gradient =
        driver_->run({stream_, "attention_grad"}, gradient_.operation, all, scratch);
    ASSERT_TRUE(gradient.ok()) << gradient.text;
  }

  // The CPU's results of the same numbers, in f32.
  std::vector<Buffer> expected() const {
    AttentionShape s = GetParam();
    s.dtype = DType::kF32;
    std::vector<Buffer> t;
    for (const Buffer& host : host_) t.emplace_back(DType::kF32, host.values());
    std::vector<std::byte> scratch(attention_grad_scratch_bytes(s, 1) +
                                   attention_scratch_bytes(s, 1) + 64);
    Parallel par{1};
    attention(par, s, t[kQ].data(), t[kK].data(), t[kV].data(), t[kOut].data(), t[kLse].data(),
              scratch.data());
    attention_grad(par, s,
                   {t[kQ].data(), t[kK].data(), t[kV].data(), t[kOut].data(), t[kLse].data(),
                    t[kDout].data(), t[kDq].data(), t[kDk].data(), t[kDv].data()},
                   scratch.data());
    return t;
  }

  std::shared_ptr<Driver> driver_;
  StreamHandle stream_;
  Prepared forward_, gradient_;
  std::vector<Buffer> host_;
  std::vector<std::byte*> card_;
};

TEST_P(CardAttention, AttentionAndItsGradientAreTheCpus) {
  run_both();
  const std::vector<Buffer> want = expected();
  for (const size_t place : {kOut, kLse, kDq, kDk, kDv}) {
    const Buffer got = download(place);
    double most = 0;
    for (int64_t i = 0; i < got.size(); ++i) most = std::max(most, std::fabs(want[place].get(i)));
    for (int64_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got.get(i), want[place].get(i), tolerance(got.dtype()) * most)
          << place << " " << i;
  }
}

TEST_P(CardAttention, HasTheSameBitsOnEveryRun) {
  if (driver_->info().architecture >= 100) GTEST_SKIP() << "Blackwell's sums come as they come";
  run_both();
  std::vector<Buffer> first;
  for (size_t place = 0; place < kPlaces; ++place) first.push_back(download(place));
  run_both();
  for (size_t place = 0; place < kPlaces; ++place)
    EXPECT_TRUE(download(place).same_bits(first[place])) << place;
}

TEST_P(CardAttention, IsCapturedAndReplayed) {
  std::byte* scratch = buffer(std::max(forward_.scratch_bytes, gradient_.scratch_bytes) + 1);
  ASSERT_TRUE(driver_->begin_capture(stream_).ok());
  run_both(scratch);
  const GraphHandle graph = driver_->end_capture(stream_).take();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(driver_->launch({stream_, "graph"}, graph).ok());
  const Buffer replayed = download(kOut);
  run_both(scratch);
  EXPECT_TRUE(download(kOut).same_bits(replayed));
}

constexpr AttentionShape kSquare{.dtype = DType::kBF16,
                                 .batch = 2,
                                 .heads = 4,
                                 .seq_q = 256,
                                 .seq_k = 256,
                                 .head_dim = 64,
                                 .causal = true};
constexpr AttentionShape kUnmasked{
    .dtype = DType::kBF16, .batch = 2, .heads = 2, .seq_q = 100, .seq_k = 256, .head_dim = 128};
constexpr AttentionShape kLastQueries{.dtype = DType::kBF16,
                                      .batch = 1,
                                      .heads = 3,
                                      .seq_q = 60,
                                      .seq_k = 384,
                                      .head_dim = 80,
                                      .causal = true,
                                      .scale = 0.2};
INSTANTIATE_TEST_SUITE_P(Shapes, CardAttention, testing::Values(kSquare, kUnmasked, kLastQueries));

}  // namespace
}  // namespace gangway::cuda
