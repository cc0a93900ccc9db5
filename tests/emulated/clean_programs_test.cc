// Programs that are right: no report and the right result, whatever order the seed draws.
#include "runtime/base/rng.h"
#include "tests/emulated/gpu_test.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

using cuda::EventHandle;
using cuda::StatusKind;
using cuda::StreamHandle;

constexpr uint64_t kSeeds = 50;
constexpr int64_t kN = 100;

template <class Program>
void for_each_seed(const Program& program) {
  const uint64_t first = tests::test_seed();
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    EmulatedMachine machine({.seed = seed, .devices = 2});
    program(machine, seed);
    EXPECT_EQ(machine.report_text(), "");
    if (::testing::Test::HasFailure()) return;
  }
}

// A value goes through streams that are drawn at random; events carry it.
TEST(CleanProgram, AChainOverManyStreamsAddsUp) {
  for_each_seed([](EmulatedMachine& machine, uint64_t seed) {
    Gpu gpu(machine);
    Rng rng(seed, 1);
    std::vector<StreamHandle> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(gpu.driver.make_stream("worker").take());
    const float* one = gpu.upload(std::vector<float>(kN, 1.0f), "one");
    float* sum = gpu.upload(std::vector<float>(kN, 0.0f), "sum");
    const EventHandle done = gpu.driver.make_event().take();
    ASSERT_TRUE(gpu.driver.record(gpu.at("ready"), done).ok());
    for (int i = 0; i < 20; ++i) {
      const StreamHandle on = streams[rng.below(streams.size())];
      float* next = reinterpret_cast<float*>(gpu.driver.allocate({on, "next"}, kN * 4).take());
      ASSERT_TRUE(gpu.driver.wait({on, "wait"}, done).ok());
      ASSERT_TRUE(gpu.add({on, "add"}, sum, one, next, kN).ok());
      ASSERT_TRUE(gpu.driver.free({on, "free"}, reinterpret_cast<std::byte*>(sum)).ok());
      ASSERT_TRUE(gpu.driver.record({on, "done"}, done).ok());
      sum = next;
    }
    ASSERT_TRUE(gpu.driver.wait(gpu.at("join"), done).ok());
    EXPECT_EQ(gpu.download(sum, kN), std::vector<float>(kN, 20.0f));
    EXPECT_EQ(gpu.driver.memory_in_use(), 2 * 512);  // 100 floats, in whole units.
  });
}

TEST(CleanProgram, AGraphOverTwoStreamsIsReplayed) {
  for_each_seed([](EmulatedMachine& machine, uint64_t) {
    Gpu gpu(machine);
    const StreamHandle side = gpu.driver.make_stream("side").take();
    const EventHandle fork = gpu.driver.make_event().take(), join = gpu.driver.make_event().take();
    const float* one = gpu.upload(std::vector<float>(kN, 1.0f), "one");
    float* sum = gpu.upload(std::vector<float>(kN, 0.0f), "sum");
    float *left = gpu.buffer<float>(kN, "left"), *right = gpu.buffer<float>(kN, "right");
    ASSERT_TRUE(gpu.driver.begin_capture(gpu.stream).ok());
    ASSERT_TRUE(gpu.driver.record(gpu.at("fork"), fork).ok());
    ASSERT_TRUE(gpu.driver.wait({side, "fork"}, fork).ok());
    ASSERT_TRUE(gpu.add(gpu.at("left"), sum, one, left, kN).ok());
    ASSERT_TRUE(gpu.add({side, "right"}, sum, one, right, kN).ok());
    ASSERT_TRUE(gpu.driver.record({side, "join"}, join).ok());
    ASSERT_TRUE(gpu.driver.wait(gpu.at("join"), join).ok());
    ASSERT_TRUE(gpu.add(gpu.at("both"), left, right, sum, kN).ok());
    const auto graph = gpu.driver.end_capture(gpu.stream).take();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(gpu.driver.launch(gpu.at("step"), graph).ok());
    EXPECT_EQ(gpu.download(sum, kN), std::vector<float>(kN, 14.0f));  // 2, 6, 14
  });
}

TEST(CleanProgram, APollingHostSeesTheWritesBeforeItsEvent) {
  for_each_seed([](EmulatedMachine& machine, uint64_t) {
    Gpu gpu(machine);
    float *a = gpu.upload(std::vector<float>(kN, 3.0f)), *back = gpu.pinned<float>(kN);
    const EventHandle copied = gpu.driver.make_event().take();
    bool rung = false;
    ASSERT_TRUE(gpu.driver.copy(gpu.at("copy"), back, a, kN * 4).ok());
    ASSERT_TRUE(gpu.driver.record(gpu.at("copied"), copied).ok());
    ASSERT_TRUE(gpu.driver
                    .notify(
                        gpu.at("ring"), [](void* flag) { *static_cast<bool*>(flag) = true; }, &rung)
                    .ok());
    while (gpu.driver.query(copied).kind == StatusKind::kNotReady) {
    }
    gpu.driver.host_access(Gpu::reads(back, kN), "look");
    EXPECT_EQ(back[kN - 1], 3.0f);
    machine.run_all();
    EXPECT_TRUE(rung);
  });
}

TEST(CleanProgram, TwoDevicesReduceGatherAndExchange) {
  for_each_seed([](EmulatedMachine& machine, uint64_t) {
    Gpu gpus[] = {Gpu(machine, 0), Gpu(machine, 1)};
    const cuda::CommId id = gpus[0].driver.new_comm_id().take();
    std::vector<float*> data, wide, got;
    for (uint32_t r = 0; r < 2; ++r) {
      Gpu& gpu = gpus[r];
      const auto comm = gpu.driver.create_comm(id, r, 2).take();
      data.push_back(gpu.upload(std::vector<float>(kN, static_cast<float>(r + 1)), "data"));
      wide.push_back(gpu.buffer<float>(2 * kN, "wide"));
      got.push_back(gpu.buffer<float>(kN, "got"));
      const CollectiveTensor gather{data[r], wide[r], kN, DType::kF32};
      const CollectiveTensor sum{data[r], data[r], kN, DType::kF32};
      ASSERT_TRUE(gpu.driver.all_gather(gpu.at("gather"), comm, {&gather, 1}).ok());
      const cuda::Message messages[] = {{cuda::Message::kSend, 1 - r, data[r], kN * 4},
                                        {cuda::Message::kReceive, 1 - r, got[r], kN * 4}};
      ASSERT_TRUE(gpu.driver.exchange(gpu.at("swap"), comm, messages).ok());
      ASSERT_TRUE(gpu.driver.all_reduce(gpu.at("sum"), comm, {&sum, 1}, Reduction::kSum).ok());
    }
    for (uint32_t r = 0; r < 2; ++r) {
      EXPECT_EQ(gpus[r].download(data[r], kN), std::vector<float>(kN, 3.0f));
      EXPECT_EQ(gpus[r].download(got[r], kN), std::vector<float>(kN, static_cast<float>(2 - r)));
      std::vector<float> both(kN, 1.0f);
      both.resize(2 * kN, 2.0f);
      EXPECT_EQ(gpus[r].download(wide[r], 2 * kN), both);
    }
  });
}

TEST(CleanProgram, AParkedHostIsRungByTheBackgroundThread) {
  EmulatedMachine machine({.seed = 1, .background = true});
  Gpu gpu(machine);
  float* a = gpu.upload(std::vector<float>(kN, 5.0f));
  EXPECT_EQ(gpu.download(a, kN), std::vector<float>(kN, 5.0f));
  EXPECT_EQ(machine.report_text(), "");
}

TEST(EmulatedMemory, IsRefusedBeyondItsBudget) {
  EmulatedMachine machine({.memory_bytes = 1024});
  Gpu gpu(machine);
  const auto first = gpu.driver.allocate(gpu.at("first"), 600);
  ASSERT_TRUE(first.ok());
  const auto second = gpu.driver.allocate(gpu.at("second"), 600);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(second.error().message(), "cuda: out of memory: second: needs 600 bytes: 256 are free");
  ASSERT_TRUE(gpu.driver.free(gpu.at("free"), first.value()).ok());
  EXPECT_TRUE(gpu.driver.allocate(gpu.at("second"), 600).ok());
  EXPECT_EQ(gpu.driver.memory_peak(), 768);
}

TEST(EmulatedErrors, ALaunchThatFailsLeavesTheDeviceUsable) {
  EmulatedMachine machine;
  Gpu gpu(machine);
  float* a = gpu.buffer<float>(kN);
  machine.inject({StatusKind::kLaunch, "fill"});
  EXPECT_EQ(gpu.driver.fill(gpu.at("fill"), a, 0, kN * 4).kind, StatusKind::kLaunch);
  EXPECT_TRUE(gpu.driver.fill(gpu.at("fill"), a, 0, kN * 4).ok());
  EXPECT_EQ(gpu.download(a, kN), std::vector<float>(kN, 0.0f));
  EXPECT_EQ(machine.report_text(), "");
}

using EmulatedMemoryDeathTest = ::testing::Test;
TEST_F(EmulatedMemoryDeathTest, AHostThatDereferencesDeviceMemoryDies) {
  EmulatedMachine machine;
  Gpu gpu(machine);
  volatile float* a = gpu.buffer<float>(kN);
  EXPECT_DEATH(a[0] = 1.0f, "");
}

}  // namespace
}  // namespace gangway::emulated
