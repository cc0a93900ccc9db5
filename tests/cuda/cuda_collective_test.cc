// The conformance suite of collectives on emulated cards, over many seeds: members that share one
// card, and members with a card each.
#include "tests/conformance/collective_suite.h"
#include "tests/cuda/card_group.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

constexpr uint64_t kSeeds = 25;

bool run(const std::vector<uint32_t>& cards, int64_t bytes_max, const MemberBody& body) {
  bool good = true;
  const uint64_t first = gangway::testing::test_seed();
  for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const auto machine =
        emulated::make_machine(seed, 1 + *std::max_element(cards.begin(), cards.end()));
    good = CardGroup(machine, cards, bytes_max).run(body) && good;
    EXPECT_EQ(machine->report_text(), "");
  }
  return good;
}

const CollectiveMaker kCopies{.name = "of_one_card",
                              .run =
                                  [](uint32_t size, int64_t bytes_max, const MemberBody& body) {
                                    return run(std::vector<uint32_t>(size, 0), bytes_max, body);
                                  },
                              .elements_max = 1501,
                              .rounds = 12};

const CollectiveMaker kCommunicators{
    .name = "of_a_card_each",
    .run =
        [](uint32_t size, int64_t bytes_max, const MemberBody& body) {
          std::vector<uint32_t> cards(size);
          for (uint32_t r = 0; r < size; ++r) cards[r] = r;
          return run(cards, bytes_max, body);
        },
    .in_rank_order = false,
    .elements_max = 1501,
    .rounds = 12};

INSTANTIATE_TEST_SUITE_P(Cards, CollectiveSuite, ::testing::Values(kCopies, kCommunicators),
                         [](const auto& i) { return i.param.name; });

}  // namespace
}  // namespace gangway
