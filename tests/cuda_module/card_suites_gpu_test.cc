// The suites that the emulated driver passes on every machine, on this machine's card.
#include "executor/devices/cuda/cuda_device.h"
#include "executor/devices/cuda/driver/loader.h"
#include "tests/conformance/collective_suite.h"
#include "tests/conformance/device_suite.h"
#include "tests/cuda/card_group.h"
#include "tests/cuda/card_suites.h"
#include "tests/cuda/comm_suite.h"
#include "tests/cuda_module/real_card.h"

namespace gangway {
namespace {

constexpr int64_t kBudget = int64_t{2} << 30;

DeviceMaker device_of(const CardMaker& maker) {
  return {maker.name, [] { return Reactor::make_real(); },
          [maker](Reactor&, int64_t bytes) -> std::unique_ptr<Device> {
            if (!maker.why_missing().empty()) return nullptr;
            return std::make_unique<CudaDevice>(
                CudaDeviceOptions{.name = "cuda-0",
                                  .memory_bytes = bytes,
                                  .gpu = std::make_shared<cuda::Gpu>(maker.make().driver)});
          },
          maker.why_missing};
}

const CardMaker kCard = real_card(kBudget);

// Members that share the card. They do not use NCCL, which refuses two of its ranks on one card.
const CollectiveMaker kCopies{
    .name = "of_one_card",
    .run =
        [](uint32_t size, int64_t bytes_max, const MemberBody& body) {
          const auto gpu = std::make_shared<cuda::Gpu>(kCard.make().driver);
          return CardGroup(std::vector<std::shared_ptr<cuda::Gpu>>(size, gpu), bytes_max).run(body);
        },
    .why_missing = kCard.why_missing};

// Members that use NCCL: one rank where the machine has one card, two where it has two.
CommMaker communicator(uint32_t size) {
  return {cat(size, "_members"),
          [size] {
            const cuda::FoundGpus found = cuda::find_gpus();
            if (found.gpus.empty() || found.gpus.size() >= size) return found.why_none;
            return cat("needs ", size, " cards: this machine has ", found.gpus.size());
          },
          [size] {
            std::vector<Card> cards;
            for (uint32_t r = 0; r < size; ++r)
              cards.push_back({cuda::open_gpu({.index = r, .memory_bytes = kBudget}),
                               [] { return std::string(); }});
            return cards;
          }};
}

INSTANTIATE_TEST_SUITE_P(Real, CardComms, testing::Values(communicator(1), communicator(2)),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Real, CollectiveSuite, testing::Values(kCopies),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Real, DeviceSuite, testing::Values(device_of(kCard)),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Real, CardDriver, testing::Values(kCard), card_name);
INSTANTIATE_TEST_SUITE_P(Real, CardOps,
                         testing::Combine(testing::Values(kCard),
                                          testing::Values(DType::kF64, DType::kF32, DType::kBF16)),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Real, CardGraphs, testing::Values(kCard), card_name);
INSTANTIATE_TEST_SUITE_P(Real, CardHosts, testing::Values(kCard), card_name);
INSTANTIATE_TEST_SUITE_P(Real, CardTraining, testing::Values(kCard), card_name);

}  // namespace
}  // namespace gangway
