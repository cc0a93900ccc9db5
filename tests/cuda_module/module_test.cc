// Tests the CUDA module without a GPU: it loads, says why there is no GPU, and makes binaries for
// every architecture.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "executor/devices/cuda/driver/loader.h"
#include "executor/devices/cuda/lower/chain_source.h"
#include "executor/devices/cuda/module/nvrtc.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/thread.h"
#include "tests/support/places.h"

namespace gangway::cuda {
namespace {

using testing::HasSubstr;

constexpr uint32_t kArchitectures[] = {80, 90, 100};

const ModuleTable* load() {
  const std::string module = tests::build_folder() + "/lib/gangway/libgangway_cuda.so";
  void* handle = dlopen(module.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle, nullptr) << dlerror();
  return handle == nullptr ? nullptr
                           : static_cast<const ModuleTable*>(dlsym(handle, kModuleSymbol));
}

TEST(CudaModule, LoadsWithoutADriverAndSaysThatThereIsNone) {
  const ModuleTable* table = load();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->version, kModuleVersion);
  const FoundGpus found = table->find();
  if (!found.gpus.empty()) GTEST_SKIP() << "this machine has " << found.gpus[0].name;
  EXPECT_THAT(found.why_none, HasSubstr("the NVIDIA driver does not answer"));
  EXPECT_FALSE(table->open({}).ok());
}

TEST(CudaModule, LeavesAUsersChoiceHowKernelsAreLoaded) {
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  load()->find();
  EXPECT_STREQ(std::getenv("CUDA_MODULE_LOADING"), "LAZY");
  unsetenv("CUDA_MODULE_LOADING");
}

TEST(CudaModule, LoadsWithoutCudnn) {
  ASSERT_NE(load(), nullptr);
  EXPECT_EQ(dlopen("libcudnn.so.9", RTLD_NOLOAD | RTLD_NOW), nullptr);
}

TEST(CudaModule, IsNotOpenedWhereThereIsNoDriver) {
  if (!find_gpus().gpus.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_THAT(find_gpus().why_none, HasSubstr("no NVIDIA driver"));
  EXPECT_THROW(open_gpu({}), Error);
}

// Like gelu(x + row), written by hand, with a comparison and conversions.
FusedProgram chain() {
  const auto f32 = DType::kF32;
  return {.inputs = {{DType::kBF16, FusedInput::kFull}, {f32, FusedInput::kInner}},
          .code = {{FusedOp::kConvert, f32, {0}},
                   {FusedOp::kAdd, f32, {2, 1}},
                   {FusedOp::kErf, f32, {3}},
                   {FusedOp::kMul, f32, {3, 4}},
                   {FusedOp::kGt, DType::kBool, {5, 1}},
                   {FusedOp::kSelect, f32, {6, 5, 1}},
                   {FusedOp::kConvert, DType::kBF16, {7}}},
          .outputs = {{8, DType::kBF16}, {7, f32}}};
}

TEST(Nvrtc, MakesBinariesOfChainsForEveryArchitecture) {
  for (uint32_t architecture : kArchitectures) {
    const auto made =
        compile_cubin({"chain.cu", chain_source(chain(), chain_width(chain()))}, architecture, {});
    ASSERT_TRUE(made.ok()) << architecture << ": " << made.error().message();
    const std::string binary(made.value().begin(), made.value().end());
    EXPECT_EQ(binary.substr(1, 3), "ELF");
    EXPECT_THAT(binary, HasSubstr(kChainKernel));
  }
}

TEST(Nvrtc, SaysWhatDoesNotCompile) {
  const auto made = compile_cubin({"wrong.cu", "int x = no_such_name;"}, 90, {});
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("no_such_name"));
}

TEST(Nvrtc, KeepsBinariesInAFolder) {
  TempDir folder;
  const ModuleSource source{"chain.cu", chain_source(chain())};
  const auto first = compile_cubin(source, 80, folder.path().string());
  ASSERT_TRUE(first.ok());
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(folder.path()), {});
  };
  EXPECT_EQ(files(), 1);
  const auto second = compile_cubin(source, 80, folder.path().string());
  EXPECT_EQ(second.value(), first.value());
  ASSERT_TRUE(compile_cubin(source, 90, folder.path().string()).ok());
  EXPECT_EQ(files(), 2);
}

TEST(Nvrtc, AKeptBinaryThatCannotBeReadIsCompiledAgain) {
  TempDir folder;
  const ModuleSource source{"kept.cu", "__global__ void kept() {}"};
  const auto first = compile_cubin(source, 80, folder.path().string());
  ASSERT_TRUE(first.ok());
  const std::filesystem::path file = std::filesystem::directory_iterator(folder.path())->path();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);  // Even the superuser can't read it as a file.
  EXPECT_EQ(compile_cubin(source, 80, folder.path().string()).value(), first.value());
  std::filesystem::remove(file);
  std::ofstream(file).close();
  EXPECT_EQ(compile_cubin(source, 80, folder.path().string()).value(), first.value());
  EXPECT_GT(std::filesystem::file_size(file), 0u);
}

TEST(Nvrtc, TwoThreadsMayKeepTheSameBinaryAtOnce) {
  for (int round = 0; round < 5; ++round) {
    TempDir folder;
    std::vector<std::optional<Result<std::vector<char>>>> made(4);
    {
      std::vector<Thread> threads;
      for (auto& one : made) {
        threads.emplace_back("compile", [&one, &folder] {
          one = compile_cubin({"same.cu", "__global__ void same() {}"}, 90, folder.path().string());
        });
      }
      for (Thread& thread : threads) thread.join();
    }
    const auto kept = compile_cubin({"same.cu", "__global__ void same() {}"}, 90, folder.path());
    for (const auto& one : made) EXPECT_EQ(one->value(), kept.value());
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  }
}

}  // namespace
}  // namespace gangway::cuda
