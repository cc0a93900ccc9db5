// The driver's table on a real card: what a first machine with a GPU must show.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "executor/devices/cuda/chain_source.h"
#include "executor/devices/cuda/loader.h"

namespace gangway::cuda {
namespace {

constexpr int64_t kN = 1000;

class Card : public testing::Test {
 protected:
  void SetUp() override {
    const FoundGpus found = find_gpus();
    if (found.gpus.empty()) GTEST_SKIP() << found.why_none;
    driver_ = open_gpu({.memory_bytes = int64_t{256} << 20});
    stream_ = driver_->make_stream("test").take();
  }
  At at(std::string_view label) const { return {stream_, label}; }
  float* buffer(int64_t n) {
    return reinterpret_cast<float*>(driver_->allocate(at("buffer"), n * 4).take());
  }
  float* filled(int64_t n, float value) {
    auto* staging = reinterpret_cast<float*>(driver_->allocate_pinned(n * 4).take());
    std::fill_n(staging, n, value);
    float* data = buffer(n);
    EXPECT_TRUE(driver_->copy(at("upload"), data, staging, n * 4).ok());
    return data;
  }
  std::vector<float> read(const float* data, int64_t n) {
    auto* staging = reinterpret_cast<float*>(driver_->allocate_pinned(n * 4).take());
    EXPECT_TRUE(driver_->copy(at("download"), staging, data, n * 4).ok());
    EXPECT_TRUE(driver_->synchronize(stream_).ok());
    return {staging, staging + n};
  }
  Status add(const float* a, const float* b, float* out) {
    const void* arguments[] = {&a, &b, &out, &kN};
    return driver_->launch(at("add"), {.kernel = driver_->kernel({}, "add_f32").take(),
                                       .grid = {4},
                                       .block = {256},
                                       .arguments = arguments,
                                       .accesses = {}});
  }

  std::shared_ptr<Driver> driver_;
  StreamHandle stream_;
};

TEST_F(Card, LaunchesAndCopiesInOrder) {
  float *a = filled(kN, 1), *b = filled(kN, 2), *c = buffer(kN);
  ASSERT_TRUE(add(a, b, c).ok());
  EXPECT_EQ(read(c, kN), std::vector<float>(kN, 3));
}

TEST_F(Card, AnEventOrdersTwoStreams) {
  const StreamHandle other = driver_->make_stream("other").take();
  const EventHandle ready = driver_->make_event().take();
  float *a = filled(kN, 1), *c = buffer(kN);
  ASSERT_TRUE(driver_->record(at("ready"), ready).ok());
  ASSERT_TRUE(driver_->wait({other, "wait"}, ready).ok());
  ASSERT_TRUE(driver_->copy({other, "copy"}, c, a, kN * 4).ok());
  ASSERT_TRUE(driver_->synchronize(other).ok());
  EXPECT_EQ(read(c, kN), std::vector<float>(kN, 1));
}

TEST_F(Card, AGraphIsReplayed) {
  float *a = filled(kN, 1), *sum = filled(kN, 0);
  ASSERT_TRUE(driver_->begin_capture(stream_).ok());
  ASSERT_TRUE(add(a, sum, sum).ok());
  const GraphHandle graph = driver_->end_capture(stream_).take();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(driver_->launch(at("step"), graph).ok());
  EXPECT_EQ(read(sum, kN), std::vector<float>(kN, 5));
}

TEST_F(Card, MultipliesMatrices) {
  const MatmulDesc desc{.m = 16, .n = 32, .k = 8, .transpose_b = true};
  const Prepared product = driver_->prepare(desc, {}).take();
  void* tensors[] = {filled(16 * 8, 2), filled(32 * 8, 3), buffer(16 * 32)};
  std::byte* scratch = driver_->allocate(at("scratch"), product.scratch_bytes).take();
  ASSERT_TRUE(driver_->run(at("dot"), product.operation, tensors, scratch).ok());
  EXPECT_EQ(read(static_cast<float*>(tensors[2]), 16 * 32), std::vector<float>(16 * 32, 48));
}

TEST_F(Card, AProductHasItsEpilogue) {
  const auto gelu = [](float x) {
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  };
  const MatmulDesc desc{.m = 16, .n = 32, .k = 8, .transpose_b = true};
  float *a = filled(16 * 8, 0.25f), *b = filled(32 * 8, 0.5f), *c = buffer(16 * 32);
  float *bias = filled(32, 1), *pre = buffer(16 * 32);
  const auto run = [&](const Epilogue& epilogue, std::vector<void*> tensors) {
    const Prepared product = driver_->prepare(desc, epilogue).take();
    std::byte* scratch = driver_->allocate(at("scratch"), product.scratch_bytes).take();
    ASSERT_TRUE(driver_->run(at("dot"), product.operation, tensors, scratch).ok());
  };
  run({.bias = true, .activation = Activation::kGeluTanh}, {a, b, c, bias});
  for (const float x : read(c, 16 * 32)) ASSERT_NEAR(x, gelu(2), 1e-5f);
  run({.activation = Activation::kGeluTanh, .keep_input = true}, {a, b, c, pre});
  for (const float x : read(c, 16 * 32)) ASSERT_NEAR(x, gelu(1), 1e-5f);
  EXPECT_EQ(read(pre, 16 * 32), std::vector<float>(16 * 32, 1));
  run({.bias = true, .activation = Activation::kRelu}, {a, b, c, bias});
  EXPECT_EQ(read(c, 16 * 32), std::vector<float>(16 * 32, 2));
}

TEST_F(Card, RunsAChainThatWasCompiledForIt) {
  const FusedProgram twice{.inputs = {{DType::kF32, FusedInput::kFull}},
                           .code = {{FusedOp::kAdd, DType::kF32, {0, 0}}},
                           .outputs = {{1, DType::kF32}}};
  const ModuleHandle module = driver_->compile({"chain.cu", chain_source(twice)}).take();
  float *in = filled(kN, 4), *out = buffer(kN);
  const int64_t outer = 1;
  const void* arguments[] = {&in, &out, &outer, &kN};
  ASSERT_TRUE(driver_
                  ->launch(at("chain"), {.kernel = driver_->kernel(module, kChainKernel).take(),
                                         .grid = {4},
                                         .block = {256},
                                         .arguments = arguments,
                                         .accesses = {}})
                  .ok());
  EXPECT_EQ(read(out, kN), std::vector<float>(kN, 8));
}

TEST_F(Card, RefusesWhatIsBeyondItsBudget) {
  const auto more = driver_->allocate(at("more"), int64_t{512} << 20);
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().kind(), ErrorKind::kOverloaded);
}

TEST_F(Card, ACommunicatorOfOneReduces) {
  const CommHandle comm = driver_->create_comm(driver_->new_comm_id().take(), 0, 1).take();
  while (driver_->query(comm).kind == StatusKind::kNotReady) {
  }
  float* a = filled(kN, 7);
  const CollectiveTensor tensor{a, a, kN, DType::kF32};
  ASSERT_TRUE(driver_->all_reduce(at("sum"), comm, {&tensor, 1}, Reduction::kSum).ok());
  EXPECT_EQ(read(a, kN), std::vector<float>(kN, 7));
  driver_->destroy(comm);
}

}  // namespace
}  // namespace gangway::cuda
