// Programs that are wrong on purpose, and the report that each must get, for every seed.
#include <gmock/gmock.h>

#include "tests/emulated/gpu_test.h"

namespace gangway::emulated::planted_bugs_test {
namespace {

using cuda::At;
using cuda::EventHandle;
using cuda::StatusKind;
using cuda::StreamHandle;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::IsEmpty;

constexpr int64_t kN = 100;
constexpr uint64_t kSeeds = 20;

auto reported(Fault fault, std::string first, std::string second) {
  return Contains(AllOf(Field(&Report::fault, fault), Field(&Report::first, first),
                        Field(&Report::second, second)));
}

// Runs `program` once for each seed, up to the first seed that fails.
template <class Program>
void for_each_seed(const Program& program) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    EmulatedMachine machine({.seed = seed, .devices = 2});
    program(machine);
    if (testing::Test::HasFailure()) return;
  }
}

// Two streams: the first fills a buffer, the second reads it, with or without the wait.
std::vector<Report> fill_then_read(EmulatedMachine& machine, bool with_wait) {
  Gpu gpu(machine);
  const StreamHandle other = gpu.driver.make_stream("other").take();
  const EventHandle filled = gpu.driver.make_event().take();
  float *a = gpu.buffer<float>(kN, "a"), *b = gpu.buffer<float>(kN, "b");
  EXPECT_TRUE(gpu.driver.fill(gpu.at("fill a"), a, 0, kN * 4).ok());
  EXPECT_TRUE(gpu.driver.record(gpu.at("filled"), filled).ok());
  if (with_wait) {
    EXPECT_TRUE(gpu.driver.wait({other, "wait"}, filled).ok());
  } else {  // Without the wait, only b is known to be ready.
    EXPECT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
    EXPECT_TRUE(gpu.driver.fill(gpu.at("fill a again"), a, 0, kN * 4).ok());
  }
  EXPECT_TRUE(gpu.add({other, "read a"}, a, a, b, kN).ok());
  machine.run_all();
  return machine.reports();
}

TEST(PlantedBug, AnEventThatIsWaitedForIsSound) {
  for_each_seed([](auto& machine) { EXPECT_THAT(fill_then_read(machine, true), IsEmpty()); });
}

// A stream with a callback is destroyed before or after the callback has run.
std::vector<Report> call_back_then_destroy(EmulatedMachine& machine, bool waits) {
  Gpu gpu(machine);
  const StreamHandle other = gpu.driver.make_stream("other").take();
  EXPECT_TRUE(gpu.driver.notify({other, "call back"}, [](void*) {}, nullptr).ok());
  if (waits) {
    EXPECT_TRUE(gpu.driver.synchronize(other).ok());
  }
  gpu.driver.destroy(other);
  machine.run_all();
  return machine.reports();
}

TEST(PlantedBug, ACallBackThatComesAfterItsStreamHasGoneIsCaught) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    EmulatedMachine late({.seed = seed, .late_callbacks = true}), soon({.seed = seed});
    EXPECT_THAT(call_back_then_destroy(late, false),
                Contains(Field(&Report::fault, Fault::kMisuse)));
    EXPECT_THAT(call_back_then_destroy(late, true).size(), 1u);
    EXPECT_THAT(call_back_then_destroy(soon, true), IsEmpty());
  }
}

TEST(PlantedBug, AMissingEventWaitIsCaught) {
  for_each_seed([](auto& machine) {
    EXPECT_THAT(fill_then_read(machine, false),
                reported(Fault::kUnordered, "fill a again", "read a"));
  });
}

TEST(PlantedBug, TwoStreamsThatWriteOneBufferAreCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const StreamHandle other = gpu.driver.make_stream("other").take();
    float* a = gpu.buffer<float>(kN, "a");
    ASSERT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
    ASSERT_TRUE(gpu.driver.fill(gpu.at("fill here"), a, 0, kN * 4).ok());
    ASSERT_TRUE(gpu.driver.fill({other, "fill there"}, a, 1, kN * 4).ok());
    EXPECT_THAT(machine.reports(), reported(Fault::kUnordered, "fill here", "fill there"));
  });
}

// Each run in flight has a slot. A run that gets the slot of the run before, whose transfer on the
// other stream has not ended, is caught.
TEST(PlantedBug, ABufferReusedOneRunEarlyIsCaught) {
  const auto runs = [](EmulatedMachine& machine, int slots) {
    Gpu gpu(machine);
    const StreamHandle transfers = gpu.driver.make_stream("transfers").take();
    std::vector<float*> slot;
    std::vector<float*> staging;
    std::vector<EventHandle> sent;
    for (int s = 0; s < 2; ++s) {
      slot.push_back(gpu.buffer<float>(kN, "slot"));
      staging.push_back(gpu.pinned<float>(kN));
      sent.push_back(gpu.driver.make_event().take());
    }
    for (int run = 0; run < 4; ++run) {
      const auto s = static_cast<size_t>(run % slots), turn = static_cast<size_t>(run % 2);
      // The plan says that two runs are in flight, so a run waits for the one before the last.
      EXPECT_TRUE(gpu.driver.wait(gpu.at("wait"), sent[turn]).ok());
      EXPECT_TRUE(gpu.driver.fill(gpu.at("compute"), slot[s], 1, kN * 4).ok());
      const EventHandle computed = gpu.driver.make_event().take();
      EXPECT_TRUE(gpu.driver.record(gpu.at("computed"), computed).ok());
      EXPECT_TRUE(gpu.driver.wait({transfers, "wait"}, computed).ok());
      EXPECT_TRUE(gpu.driver.copy({transfers, "send"}, staging[turn], slot[s], kN * 4).ok());
      EXPECT_TRUE(gpu.driver.record({transfers, "sent"}, sent[turn]).ok());
    }
    machine.run_all();
    return machine.reports();
  };
  for_each_seed([&](auto& machine) { EXPECT_THAT(runs(machine, 2), IsEmpty()); });
  for_each_seed([&](auto& machine) {
    EXPECT_THAT(runs(machine, 1), reported(Fault::kUnordered, "send", "compute"));
  });
}

TEST(PlantedBug, AGraphCapturedWithAStalePointerIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    float* a = gpu.upload(std::vector<float>(kN, 2.0f), "a");
    float* out = gpu.buffer<float>(kN, "out");
    ASSERT_TRUE(gpu.driver.begin_capture(gpu.stream).ok());
    ASSERT_TRUE(gpu.add(gpu.at("add"), a, a, out, kN).ok());
    const auto graph = gpu.driver.end_capture(gpu.stream).take();
    ASSERT_TRUE(gpu.driver.launch(gpu.at("first"), graph).ok());
    EXPECT_EQ(gpu.download(out, kN), std::vector<float>(kN, 4.0f));
    EXPECT_EQ(machine.report_text(), "");
    ASSERT_TRUE(gpu.driver.free(gpu.at("free a"), reinterpret_cast<std::byte*>(a)).ok());
    ASSERT_TRUE(gpu.driver.launch(gpu.at("second"), graph).ok());
    machine.run_all();
    EXPECT_THAT(machine.reports(), reported(Fault::kAfterFree, "free a", "add"));
  });
}

TEST(PlantedBug, AGraphThatIsDestroyedWhileItMayBeUnderWayIsCaught) {
  const auto run = [](EmulatedMachine& machine, bool wait) {
    Gpu gpu(machine);
    float* a = gpu.buffer<float>(kN);
    EXPECT_TRUE(gpu.driver.begin_capture(gpu.stream).ok());
    EXPECT_TRUE(gpu.driver.fill(gpu.at("fill"), a, 0, kN * 4).ok());
    const auto graph = gpu.driver.end_capture(gpu.stream).take();
    EXPECT_TRUE(gpu.driver.launch(gpu.at("launch"), graph).ok());
    if (wait) {
      EXPECT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
    }
    gpu.driver.destroy(graph);
    machine.run_all();
    return machine.reports();
  };
  for_each_seed([&](auto& machine) { EXPECT_THAT(run(machine, true), IsEmpty()); });
  for_each_seed([&](auto& machine) {
    EXPECT_THAT(run(machine, false), reported(Fault::kMisuse, "launch", "destroy"));
  });
}

TEST(PlantedBug, AFreeBeforeTheLastUseHasFinishedIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const StreamHandle other = gpu.driver.make_stream("other").take();
    float* a = gpu.buffer<float>(kN, "a");
    ASSERT_TRUE(gpu.driver.synchronize(gpu.stream).ok());
    ASSERT_TRUE(gpu.driver.fill({other, "use"}, a, 0, kN * 4).ok());
    ASSERT_TRUE(gpu.driver.free(gpu.at("free"), reinterpret_cast<std::byte*>(a)).ok());
    machine.run_all();
    EXPECT_THAT(machine.reports(), reported(Fault::kUnordered, "use", "free"));
  });
}

TEST(PlantedBug, AReadOfUninitialisedMemoryByALibraryIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const auto product = gpu.driver.prepare({.m = 4, .n = 4, .k = 4}, {}).take();
    float *a = gpu.upload(std::vector<float>(16, 1.0f)), *b = gpu.buffer<float>(16, "b");
    float* c = gpu.buffer<float>(16);
    auto* scratch = gpu.buffer<std::byte>(product.scratch_bytes);
    void* tensors[] = {a, b, c};
    ASSERT_TRUE(gpu.driver.run(gpu.at("dot"), product.operation, tensors, scratch).ok());
    machine.run_all();
    EXPECT_THAT(machine.reports(), reported(Fault::kUninitialised, "", "dot"));
  });
}

TEST(PlantedBug, ACopyOutOfBoundsIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    float *a = gpu.upload(std::vector<float>(kN)), *b = gpu.buffer<float>(kN - 1, "b");
    ASSERT_TRUE(gpu.driver.copy(gpu.at("copy"), b, a, kN * 4).ok());
    EXPECT_THAT(machine.reports(), reported(Fault::kBounds, "", "copy"));
  });
}

TEST(PlantedBug, AHostThatTouchesPinnedMemoryTooEarlyIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    float *a = gpu.upload(std::vector<float>(kN)), *back = gpu.pinned<float>(kN);
    ASSERT_TRUE(gpu.driver.copy(gpu.at("download"), back, a, kN * 4).ok());
    gpu.driver.host_access(Gpu::reads(back, kN), "look");
    EXPECT_THAT(machine.reports(), reported(Fault::kUnordered, "download", "look"));
  });
}

TEST(PlantedBug, ACopyFromPageableMemoryIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const std::vector<float> values(kN);
    float* a = gpu.buffer<float>(kN);
    ASSERT_TRUE(gpu.driver.copy(gpu.at("upload"), a, values.data(), kN * 4).ok());
    EXPECT_THAT(machine.reports(), reported(Fault::kPageable, "", "upload"));
  });
}

TEST(PlantedBug, ADeviceThatIsUsedAfterAStickyErrorIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    float* a = gpu.buffer<float>(kN);
    machine.inject({StatusKind::kFault, "breaks"});
    ASSERT_TRUE(gpu.driver.fill(gpu.at("it breaks"), a, 0, kN * 4).ok());
    const cuda::Status told = gpu.driver.synchronize(gpu.stream);
    EXPECT_EQ(told.kind, StatusKind::kFault);
    EXPECT_TRUE(told.sticky);
    EXPECT_EQ(machine.report_text(), "");
    EXPECT_TRUE(gpu.driver.fill(gpu.at("on"), a, 0, kN * 4).sticky);
    EXPECT_THAT(machine.reports(), reported(Fault::kAfterError, "it breaks", "on"));
  });
}

TEST(PlantedBug, AnAbortedCommunicatorThatIsUsedIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const cuda::CommId id = gpu.driver.new_comm_id().take();
    const auto comm = gpu.driver.create_comm(id, 0, 2).take();
    float* a = gpu.upload(std::vector<float>(kN, 1.0f));
    const CollectiveTensor tensor{a, a, kN, DType::kF32};
    ASSERT_TRUE(gpu.driver.all_reduce(gpu.at("waits"), comm, {&tensor, 1}, Reduction::kSum).ok());
    ASSERT_TRUE(gpu.driver.abort(comm).ok());
    EXPECT_TRUE(gpu.driver.synchronize(gpu.stream).ok());  // The all-reduce has ended.
    EXPECT_EQ(gpu.driver.query(comm).kind, StatusKind::kAborted);
    EXPECT_EQ(gpu.driver.all_reduce(gpu.at("again"), comm, {&tensor, 1}, Reduction::kSum).kind,
              StatusKind::kAborted);
    EXPECT_THAT(machine.reports(), reported(Fault::kAfterError, "", "again"));
  });
}

TEST(PlantedBug, AWaitThatNothingCanEndIsCaught) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const cuda::CommId id = gpu.driver.new_comm_id().take();
    const auto comm = gpu.driver.create_comm(id, 0, 2).take();
    float* a = gpu.upload(std::vector<float>(kN, 1.0f));
    const CollectiveTensor tensor{a, a, kN, DType::kF32};
    ASSERT_TRUE(gpu.driver.all_reduce(gpu.at("alone"), comm, {&tensor, 1}, Reduction::kSum).ok());
    EXPECT_FALSE(gpu.driver.synchronize(gpu.stream).ok());
    EXPECT_THAT(machine.reports(), reported(Fault::kStuck, "", "synchronize"));
  });
}

TEST(PlantedBug, ACaptureThatLeavesOutAStreamIsRefused) {
  for_each_seed([](auto& machine) {
    Gpu gpu(machine);
    const StreamHandle other = gpu.driver.make_stream("other").take();
    const EventHandle begun = gpu.driver.make_event().take();
    float* a = gpu.buffer<float>(kN);
    ASSERT_TRUE(gpu.driver.begin_capture(gpu.stream).ok());
    ASSERT_TRUE(gpu.driver.record(gpu.at("begun"), begun).ok());
    ASSERT_TRUE(gpu.driver.wait({other, "join"}, begun).ok());
    ASSERT_TRUE(gpu.driver.fill({other, "fill"}, a, 0, kN * 4).ok());
    EXPECT_FALSE(gpu.driver.end_capture(gpu.stream).ok());
    EXPECT_THAT(machine.reports(), reported(Fault::kMisuse, "", "end_capture"));
  });
}

}  // namespace
}  // namespace gangway::emulated::planted_bugs_test
