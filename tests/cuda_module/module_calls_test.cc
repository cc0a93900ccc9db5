// Tests the module's calls of CUDA and NCCL, where the API's contract leaves no choice, on a
// stand-in for both (stand_in_cuda.h).
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "executor/devices/cuda/driver/module_api.h"
#include "executor/devices/cuda/module/check.h"
#include "executor/devices/cuda/module/kernel_loading.h"
#include "runtime/os/temp_dir.h"
#include "tests/cuda_module/stand_in_cuda.h"

extern "C" const gangway::cuda::ModuleTable gangway_cuda_module;

namespace gangway::cuda {
namespace {

class ModuleCalls : public testing::Test {
 protected:
  ModuleCalls() { StandInCuda::reset(); }

  std::shared_ptr<Driver> open(uint32_t index) { return gangway_cuda_module.open({index}).take(); }
  static Status launch(Driver& driver, uint32_t shared_bytes) {
    return driver.launch({{}, "decode"}, {.kernel = driver.kernel({}, "decode").take(),
                                          .shared_bytes = shared_bytes});
  }
  // A connected communicator of one member.
  static CommHandle comm_of(Driver& driver) {
    const CommHandle comm = driver.create_comm(driver.new_comm_id().take(), 0, 1).take();
    EXPECT_TRUE(driver.query(comm).ok());
    return comm;
  }

  StandInCuda& cuda_ = StandInCuda::get();
};

TEST_F(ModuleCalls, WorkStaysOnItsCardAfterAThreadHasLookedForCards) {
  const auto driver = open(0);
  driver->make_stream("before").take();
  EXPECT_EQ(gangway_cuda_module.find().gpus.size(), 2u);
  driver->make_stream("after").take();
  const auto other = open(1);
  other->make_stream("of the other").take();
  driver->make_stream("and again").take();
  EXPECT_EQ(cuda_.stream_devices, (std::vector<int>{0, 0, 1, 0}));
}

TEST_F(ModuleCalls, LookingForCardsTakesNoneAndOpeningOneTakesNoOther) {
  EXPECT_EQ(gangway_cuda_module.find().gpus.size(), 2u);
  EXPECT_THAT(cuda_.devices_set, testing::IsEmpty());
  const auto driver = open(1);
  EXPECT_THAT(cuda_.devices_set, testing::Not(testing::Contains(0)));
  EXPECT_EQ(driver->info().memory_free, int64_t{1} << 30);
}

TEST_F(ModuleCalls, UrgentStreamsHaveTheGreatestPriorityAndOthersTheLeast) {
  const auto driver = open(0);
  driver->make_stream("urgent", StreamPriority::kUrgent).take();
  driver->make_stream("other").take();
  const std::vector<int>& made = cuda_.stream_priorities;
  ASSERT_GE(made.size(), 2u);
  EXPECT_EQ(std::vector<int>(made.end() - 2, made.end()),
            (std::vector<int>{StandInCuda::kGreatestPriority, 0}));
}

TEST_F(ModuleCalls, LongCachesAreDecodedWithAllTheSharedMemoryThatABlockMayHave) {
  const auto driver = open(0);
  EXPECT_TRUE(launch(*driver, 100 << 10).ok());
  EXPECT_TRUE(launch(*driver, 200 << 10).ok());
  EXPECT_EQ(cuda_.launches, 2);
}

// The kernel's own shared memory counts, too.
TEST_F(ModuleCalls, CachesOfJust48KiBAreDecoded) { EXPECT_TRUE(launch(*open(0), 48 << 10).ok()); }

TEST_F(ModuleCalls, AKernelThatCouldNotBePreparedIsPreparedByItsNextLaunch) {
  const auto driver = open(0);
  cuda_.attributes_to_refuse = 1;
  EXPECT_EQ(launch(*driver, 100 << 10).kind, StatusKind::kOutOfMemory);
  EXPECT_TRUE(launch(*driver, 100 << 10).ok());
}

TEST_F(ModuleCalls, MoreSharedMemoryThanABlockHasIsRefusedAtEveryLaunch) {
  const auto driver = open(0);
  for (int time = 0; time < 2; ++time) EXPECT_TRUE(launch(*driver, 227 << 10).failed());
  EXPECT_EQ(cuda_.launches, 0);
}

TEST_F(ModuleCalls, AllTensorsOfACollectiveAreReducedThoughTheFirstIsInProgress) {
  const auto driver = open(0);
  const CommHandle comm = comm_of(*driver);
  float a = 0, b = 0, c = 0;
  const CollectiveTensor tensors[] = {
      {&a, &a, 1, DType::kF32}, {&b, &b, 1, DType::kF32}, {&c, &c, 1, DType::kF32}};
  EXPECT_TRUE(driver->all_reduce({{}, "sum"}, comm, tensors, gangway::Reduction::kSum).ok());
  EXPECT_EQ(cuda_.reduced, (std::vector<const void*>{&a, &b, &c}));
  EXPECT_EQ(cuda_.looks_in_progress, 0) << "it does not wait until all has started";
  driver->destroy(comm);
}

TEST_F(ModuleCalls, ACommunicatorWorksAtTheAddressOfAnAbortedOne) {
  const auto driver = open(0);
  const CommHandle first = comm_of(*driver);
  ASSERT_TRUE(driver->abort(first).ok());
  const CommHandle second = comm_of(*driver);  // NCCL makes it at the address of the first.
  EXPECT_EQ(driver->query(first).kind, StatusKind::kAborted);
  driver->destroy(first);
  EXPECT_TRUE(driver->query(second).ok());
  EXPECT_EQ(cuda_.communicators_destroyed, 0);  // Aborting has freed the first.
  driver->destroy(second);
  EXPECT_EQ(cuda_.communicators_aborted, 1);
  EXPECT_EQ(cuda_.communicators_destroyed, 1);
}

TEST_F(ModuleCalls, AnAbortedCommunicatorIsNotUsedAgain) {
  const auto driver = open(0);
  const CommHandle comm = comm_of(*driver);
  ASSERT_TRUE(driver->abort(comm).ok());
  float a = 0;
  const CollectiveTensor tensor{&a, &a, 1, DType::kF32};
  EXPECT_EQ(driver->all_gather({{}, "gather"}, comm, {&tensor, 1}).kind, StatusKind::kAborted);
  EXPECT_TRUE(driver->abort(comm).ok());
  EXPECT_EQ(cuda_.communicators_aborted, 1);
  EXPECT_EQ(cuda_.touched_after_their_end, 0);
  driver->destroy(comm);
}

// All of cuBLASLt's kernels take 541 MB, so they are not loaded at once.
TEST(KernelLoading, AProcessThatSeesOneCardLoadsKernelsAtTheirFirstUse) {
  EXPECT_FALSE(loads_all_kernels_at_once(1, nullptr));
  EXPECT_FALSE(loads_all_kernels_at_once(8, "3"));
  EXPECT_FALSE(loads_all_kernels_at_once(8, ""));
}

TEST(KernelLoading, AProcessThatMaySeeSeveralCardsLoadsAllKernelsAtOnce) {
  EXPECT_TRUE(loads_all_kernels_at_once(2, nullptr));
  EXPECT_TRUE(loads_all_kernels_at_once(8, "0,5"));
  EXPECT_TRUE(loads_all_kernels_at_once(0, nullptr));  // The number of cards is unknown.
}

TEST(KernelLoading, CountsTheNodesOfCardsAlone) {
  const TempDir folder;
  EXPECT_EQ(cards_of(folder.path() / "none"), 0);
  for (const char* name : {"nvidia0", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia", "tty0"})
    std::ofstream(folder.path() / name) << "node";
  EXPECT_EQ(cards_of(folder.path()), 2);
}

TEST_F(ModuleCalls, KernelsThatWereCompiledAreLoadedBeforeTheirFirstLaunch) {
  const auto driver = open(0);
  const ModuleHandle module = driver->compile({"empty.cu", "__global__ void k() {}"}).take();
  const int loaded = cuda_.kernels_loaded;
  driver->kernel(module, "k").take();
  EXPECT_EQ(cuda_.kernels_loaded, loaded + 1);
}

// The text of a comment in the toolkit's header, without its stars and line breaks.
std::string plain(std::string_view comment) {
  std::string words;
  for (const char c : comment) {
    if (c == '*') continue;
    const bool space = c == ' ' || c == '\n';
    if (!space || (!words.empty() && words.back() != ' ')) words += space ? ' ' : c;
  }
  return words;
}

TEST(CudaErrors, ErrorsAfterWhichTheToolkitEndsAProcessAreSticky) {
  std::ifstream in(GW_CUDA_ERRORS);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  size_t at = text.find("enum __device_builtin__ cudaError\n");
  ASSERT_NE(at, text.npos);
  const size_t end = text.find("};", at);
  int found = 0;
  while ((at = text.find("/**", at)) < end) {
    const size_t close = text.find("*/", at);
    const std::string comment = plain(std::string_view(text).substr(at, close - at));
    at = close;
    if (comment.find("process must be terminated and relaunched") == comment.npos) continue;
    ++found;
    const size_t number = text.find('=', close) + 1;
    const int code = std::stoi(text.substr(number, 12));
    EXPECT_TRUE(status_of(static_cast<cudaError_t>(code), "kernel").sticky)
        << text.substr(close + 2, number - close - 3) << code;
  }
  EXPECT_GE(found, 13);
  // The toolkit demands no restart after these errors, but a card does not recover from them.
  EXPECT_TRUE(status_of(cudaErrorECCUncorrectable, "kernel").sticky);
  EXPECT_TRUE(status_of(cudaErrorNvlinkUncorrectable, "kernel").sticky);
}

}  // namespace
}  // namespace gangway::cuda
