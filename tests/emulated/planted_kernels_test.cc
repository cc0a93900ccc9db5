#include "tests/emulated/planted_kernels.h"

#include "tests/emulated/gpu_test.h"

namespace gangway::cuda {

// Reverses a block through shared memory. Without the barrier a thread reads an element that its
// neighbour may not have written yet.
GW_DEVICE void reverse(Global<const float> in, Global<float> out, bool with_barrier) {
  GW_SHARED(float, turned, 64);
  const int64_t i = thread_index().x;
  const float value = in[i];
  turned[i] = value;
  if (with_barrier) sync_block();
  const float other = turned[63 - i];
  out[i] = other;
}
GW_KERNEL void reverse_sound(Global<const float> in, Global<float> out) { reverse(in, out, true); }
GW_KERNEL void reverse_racing(Global<const float> in, Global<float> out) {
  reverse(in, out, false);
}
GW_KERNEL void one_writes_all(Global<float> out) { out[0] = static_cast<float>(thread_index().x); }
GW_KERNEL void all_raise(Global<uint32_t> flag) { raise(flag); }
GW_KERNEL void all_raise_and_one_writes(Global<uint32_t> flag) {
  if (thread_index().x == 17)
    flag[0] = 0;
  else
    raise(flag);
}
GW_KERNEL void reads_past_the_end(Global<const float> in, Global<float> out, int64_t n) {
  const int64_t i = global_thread();
  if (i >= n) return;
  const float a = in[i], b = in[i + 1];
  out[i] = a + b;
}
struct alignas(16) Four {
  float x[4];
};
GW_KERNEL void reads_four_from_the_second(Global<const float> in, Global<float> out) {
  const Four four = as_vectors<const Four>(in + 1)[0];
  out[thread_index().x] = four.x[0];
}
GW_KERNEL void half_a_barrier(Global<float> out) {
  if (thread_index().x < 32) sync_block();
  out[thread_index().x] = 0;
}
GW_KERNEL void reads_unwritten_shared(Global<float> out) {
  GW_SHARED(float, never, 64);
  const float value = never[thread_index().x];
  out[thread_index().x] = value;
}

GW_KERNEL_TABLE(planted, GW_ENTRY(reverse_sound), GW_ENTRY(reverse_racing),
                GW_ENTRY(one_writes_all), GW_ENTRY(all_raise), GW_ENTRY(all_raise_and_one_writes),
                GW_ENTRY(reads_past_the_end), GW_ENTRY(half_a_barrier),
                GW_ENTRY(reads_unwritten_shared), GW_ENTRY(reads_four_from_the_second));

}  // namespace gangway::cuda

namespace gangway::emulated {
namespace {

using testing::Test;

class PlantedKernel : public Test {
 protected:
  EmulatedMachine machine{{.seed = 1, .kernels = {&gangway_kernels_planted}}};
  Gpu gpu{machine};

  std::vector<Fault> faults() {
    machine.run_all();
    std::vector<Fault> found;
    for (const Report& report : machine.reports()) found.push_back(report.fault);
    return found;
  }
  // A kernel with 64 inputs and 64 outputs, one block.
  void run(std::string_view name) {
    const float* in = gpu.upload(std::vector<float>(64, 1.0f));
    float* out = gpu.buffer<float>(64);
    ASSERT_TRUE(gpu.launch(gpu.at(name), name, {1}, {64},
                           {Gpu::reads(in, 64), Gpu::writes(out, 64)}, in, out)
                    .ok());
  }
  void run_output_only(std::string_view name) {
    float* out = gpu.buffer<float>(64);
    ASSERT_TRUE(gpu.launch(gpu.at(name), name, {1}, {64}, {Gpu::writes(out, 64)}, out).ok());
  }
};

TEST_F(PlantedKernel, AKernelWithItsBarrierIsSound) {
  run("reverse_sound");
  EXPECT_EQ(faults(), std::vector<Fault>{});
}

TEST_F(PlantedKernel, AKernelWithALostBarrierIsCaughtForEverySeed) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EmulatedMachine other({.seed = seed, .kernels = {&gangway_kernels_planted}});
    Gpu on(other);
    const float* in = on.upload(std::vector<float>(64, 1.0f));
    float* out = on.buffer<float>(64);
    ASSERT_TRUE(on.launch(on.at("lost"), "reverse_racing", {1}, {64},
                          {Gpu::reads(in, 64), Gpu::writes(out, 64)}, in, out)
                    .ok());
    other.run_all();
    EXPECT_NE(other.report_text().find("no barrier in between"), std::string::npos) << seed;
  }
}

TEST_F(PlantedKernel, AKernelWhoseThreadsAllWriteOneElementIsCaught) {
  run_output_only("one_writes_all");
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kThreadRace});
}

TEST_F(PlantedKernel, AKernelWhoseThreadsAllRaiseAFlagIsSoundUnlessOneWritesIt) {
  run_output_only("all_raise");
  EXPECT_EQ(faults(), std::vector<Fault>{});
  run_output_only("all_raise_and_one_writes");
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kThreadRace});
}

TEST_F(PlantedKernel, AKernelThatReadsBeyondItsInputIsCaught) {
  const int64_t n = 64;
  const float* in = gpu.upload(std::vector<float>(n, 1.0f));
  float* out = gpu.buffer<float>(n);
  ASSERT_TRUE(gpu.launch(gpu.at("past"), "reads_past_the_end", {1}, {64},
                         {Gpu::reads(in, n), Gpu::writes(out, n)}, in, out, n)
                  .ok());
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kBounds});
}

TEST_F(PlantedKernel, AKernelThatReadsAMisalignedVectorIsCaught) {
  run("reads_four_from_the_second");
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kMisaligned});
}

TEST_F(PlantedKernel, AKernelWithABarrierInABranchIsCaught) {
  run_output_only("half_a_barrier");
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kBarrier});
}

TEST_F(PlantedKernel, AKernelThatReadsSharedMemoryBeforeAnyWriteIsCaught) {
  run_output_only("reads_unwritten_shared");
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kUninitialised});
}

TEST_F(PlantedKernel, AKernelWithAGridThatNoCardTakesIsCaught) {
  float* out = gpu.buffer<float>(64);
  for (const cuda::Grid grid : {cuda::Grid{1, 65536, 1}, cuda::Grid{1, 1, 65536}})
    EXPECT_FALSE(
        gpu.launch(gpu.at(grid.y > 1 ? "high" : "deep"), "one_writes_all", grid, {32}, {}, out)
            .ok());
  EXPECT_EQ(faults(), (std::vector<Fault>{Fault::kMisuse, Fault::kMisuse}));
}

TEST_F(PlantedKernel, AKernelThatReadsUninitialisedGlobalMemoryIsCaught) {
  const float* in = gpu.buffer<float>(64);
  float* out = gpu.buffer<float>(64);
  ASSERT_TRUE(gpu.launch(gpu.at("cold"), "reverse_sound", {1}, {64},
                         {Gpu::reads(in, 64), Gpu::writes(out, 64)}, in, out)
                  .ok());
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kUninitialised});
}

TEST_F(PlantedKernel, AKernelThatWritesABufferDeclaredAsReadIsCaught) {
  const float* in = gpu.upload(std::vector<float>(64, 1.0f));
  float* out = gpu.upload(std::vector<float>(64, 1.0f));
  ASSERT_TRUE(gpu.launch(gpu.at("undeclared"), "reverse_sound", {1}, {64},
                         {Gpu::reads(in, 64), Gpu::reads(out, 64)}, in, out)
                  .ok());
  EXPECT_EQ(faults(), std::vector<Fault>{Fault::kBounds});
}

}  // namespace
}  // namespace gangway::emulated
