// The conformance suite of collectives on emulated cards, over many seeds: members that share one
// card, members with a card each, and several ranks on each of several cards.
#include "tests/conformance/collective_suite.h"
#include "tests/cuda/card_group.h"
#include "tests/cuda/comm_suite.h"
#include "tests/cuda/emulated_gpu.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr uint64_t kSeeds = 25;

using Gpus = std::vector<std::shared_ptr<cuda::Gpu>>;

bool run(uint32_t size, uint32_t cards, int64_t bytes_max, const MemberBody& body,
         uint32_t ranks_per_device = 1) {
  bool good = true;
  const uint64_t first = gangway::tests::test_seed();
  const uint64_t seeds = size > 4 ? kSeeds / 8 : size > 2 ? kSeeds / 2 : kSeeds;  // Many take long.
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SCOPED_TRACE(seed);
    const auto machine = emulated::make_machine(seed, cards);
    {
      Gpus gpus;
      for (uint32_t card = 0; card < cards; ++card)
        gpus.push_back(emulated::make_gpu(machine, card));
      gpus.resize(size, gpus[0]);
      const RankOrder order = seed % 2 == 0 ? RankOrder::kByDevice : RankOrder::kInTurn;
      good = CardGroup(gpus, bytes_max, ranks_per_device, order).run(body) && good;
    }
    EXPECT_EQ(machine->report_text(), "");
  }
  return good;
}

const CollectiveMaker kCopies{
    .name = "of_one_card",
    .run = [](uint32_t size, int64_t bytes_max,
              const MemberBody& body) { return run(size, 1, bytes_max, body); },
    .elements_max = 1501,
    .rounds = 12,
    .cases = 2};

const CollectiveMaker kCommunicators{
    .name = "of_a_card_each",
    .run = [](uint32_t size, int64_t bytes_max,
              const MemberBody& body) { return run(size, size, bytes_max, body); },
    .in_tree_order = false,
    .scatters_as_it_reduces = false,
    .elements_max = 1501,
    .rounds = 12,
    .cases = 2};

// Two ranks on each card; all of an odd number on one.
const CollectiveMaker kRanks{.name = "of_ranks_on_cards",
                             .run =
                                 [](uint32_t size, int64_t bytes_max, const MemberBody& body) {
                                   const uint32_t ranks = size % 2 == 0 ? 2 : size;
                                   return run(size / ranks, size / ranks, bytes_max, body, ranks);
                                 },
                             .in_tree_order = false,
                             .scatters_as_it_reduces = false,
                             .elements_max = 1501,
                             .rounds = 12,
                             .cases = 2};

// One to three members, by the seed.
CommMaker communicator(uint64_t seed) {
  return {cat("seed", seed), [] { return std::string(); },
          [seed] {
            const auto size = static_cast<uint32_t>(1 + seed % 3);
            const auto machine = emulated::make_machine(seed, size);
            std::vector<Card> cards;
            for (uint32_t r = 0; r < size; ++r)
              cards.push_back(
                  {emulated::driver_of(machine, r), [machine] { return machine->report_text(); }});
            return cards;
          }};
}

std::vector<CommMaker> communicators() {
  std::vector<CommMaker> makers;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) makers.push_back(communicator(seed));
  return makers;
}

INSTANTIATE_TEST_SUITE_P(Emulated, CardComms, ::testing::ValuesIn(communicators()),
                         [](const auto& i) { return i.param.name; });
INSTANTIATE_TEST_SUITE_P(Cards, CollectiveSuite, ::testing::Values(kCopies, kCommunicators, kRanks),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
