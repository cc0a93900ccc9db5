// The kinds of collectives that move parts of tensors, over groups of many shapes: one thread
// advances members in an order that is drawn from a seed. A member goes as far ahead as it can, and
// again when it was rung.
#include <bit>
#include <numeric>
#include <set>

#include "executor/collectives/hosts/group_collective.h"
#include "tests/conformance/collective_cases.h"
#include "tests/conformance/group_harness.h"
#include "tests/support/seed.h"

#include <gtest/gtest.h>

namespace gangway::group_moves_test {
namespace {

using Hosts = std::vector<uint32_t>;  // The host of each member.

constexpr CollectiveKind kMoves[] = {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                     CollectiveKind::kAllToAll,  CollectiveKind::kRaggedAllToAll,
                                     CollectiveKind::kPermute,   CollectiveKind::kBroadcast};

Hosts in_blocks(uint32_t size, uint32_t count) {
  Hosts hosts;
  for (uint32_t r = 0; r < size; ++r) hosts.push_back(r / count);
  return hosts;
}

struct Operation {
  CollectiveCase what;
  uint32_t poisoned = ~uint32_t{0};  // No member is poisoned.
};

class Stepped {
 public:
  Stepped(const Hosts& hosts, uint64_t seed, int64_t bytes_max,
          CollectiveKinds kinds = CollectiveKinds::all())
      : rng_(seed, 3),
        size_(static_cast<uint32_t>(hosts.size())),
        rung_(hosts.size()),
        group_({.host_of = hosts,
                .bytes_max = bytes_max,
                .kinds = kinds,
                .bell_of = [this](HostLink& link, uint32_t rank,
                                  uint32_t device) { return rung_.bell(link, rank, device); },
                .counted = true},
               [this](uint32_t devices) { return rung_.link(devices); }) {}

  // Advances every member through all operations.
  void run(const std::vector<Operation>& operations) {
    std::vector<Member> members(size_);
    size_t left = size_ * operations.size();
    while (left > 0) {
      std::vector<uint32_t> due;
      for (uint32_t r = 0; r < size_; ++r) {
        if (members[r].next < operations.size() && (!members[r].begun || rung_.is_rung(r)))
          due.push_back(r);
      }
      ASSERT_FALSE(due.empty()) << "nobody goes on: " << left << " operations are left";
      const uint32_t r = due[rng_.below(due.size())];
      Member& member = members[r];
      const Operation& operation = operations[member.next];
      Collective& collective = group_.member(r);
      if (!std::exchange(member.begun, true)) {
        member.data = operation.what.data(r);
        collective.begin(operation.what.call(member.data), operation.poisoned == r);
      }
      rung_.look(r);
      if (collective.advance() == Progress::kPending) continue;
      ASSERT_EQ(collective.poisoned(), operation.poisoned < size_)
          << operation.what.text() << ", member " << r;
      ASSERT_TRUE(collective.poisoned() || operation.what.is_right(r, member.data))
          << operation.what.text() << ", member " << r;
      member.begun = false;
      ++member.next;
      --left;
    }
  }

  Rng& rng() { return rng_; }
  const GroupHarness& group() const { return group_; }
  // Bytes that all members moved.
  uint64_t moved(LinkClass link) const {
    uint64_t bytes = 0;
    for (uint32_t r = 0; r < size_; ++r) bytes += group_.moved(r, link);
    return bytes;
  }

 private:
  struct Member {
    size_t next = 0;
    bool begun = false;
    CollectiveCase::Data data;
  };

  Rng rng_;
  const uint32_t size_;
  RungMembers rung_;
  GroupHarness group_;
};

int64_t bytes_of(const std::vector<Operation>& operations) {
  int64_t bytes = 0;
  for (const Operation& operation : operations) bytes = std::max(bytes, operation.what.bytes());
  return bytes;
}

class GroupMovesTest : public ::testing::TestWithParam<Hosts> {};

TEST_P(GroupMovesTest, EveryMemberGetsItsPartOfAnyKindInAnyOrder) {
  const uint64_t first = gangway::tests::test_seed();
  const auto size = static_cast<uint32_t>(GetParam().size());
  for (uint64_t seed = first; seed < first + 3; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed, 11);
    std::vector<Operation> operations;
    for (size_t o = 0; o < 24; ++o)
      operations.push_back({CollectiveCase(rng, kMoves[rng.below(6)], size, 2003),
                            rng.below(6) == 0 ? static_cast<uint32_t>(rng.below(size)) : size});
    Stepped group(GetParam(), seed, bytes_of(operations));
    ASSERT_NO_FATAL_FAILURE(group.run(operations));
  }
}

// Broadcasts of one message and of several messages, one after another.
TEST_P(GroupMovesTest, ABroadcastFromAnyMemberGivesAllMembersItsTensor) {
  const uint64_t seed = gangway::tests::test_seed();
  const auto size = static_cast<uint32_t>(GetParam().size());
  Rng rng(seed, 17);
  const auto large = largest_case(rng, CollectiveKind::kBroadcast, size, 200'007);
  const CollectiveCase small(rng, CollectiveKind::kBroadcast, size, 2003);
  std::vector<Operation> operations;
  for (uint32_t root = 0; root < size; ++root)
    operations.push_back({(root % 4 == 0 ? large : small).from(root), size});
  Stepped group(GetParam(), seed, bytes_of(operations));
  ASSERT_NO_FATAL_FAILURE(group.run(operations));
}

INSTANTIATE_TEST_SUITE_P(Of, GroupMovesTest,
                         ::testing::Values(in_blocks(1, 1), in_blocks(4, 4), in_blocks(2, 1),
                                           in_blocks(4, 2), Hosts{0, 0, 0, 1},
                                           Hosts{0, 0, 1, 2, 2, 2}, in_blocks(5, 1),
                                           in_blocks(14, 2), in_blocks(16, 4), in_blocks(9, 1),
                                           Hosts{0, 1, 2, 0, 1, 2, 0}, Hosts{1, 0, 0, 2, 1}),
                         [](const auto& i) {
                           std::string name = "hosts";
                           for (const uint32_t host : i.param) name += cat("_", host);
                           return name;
                         });

TEST(GroupMoves, MovesOfManyMessagesArriveWhole) {
  for (const Hosts& hosts : {in_blocks(2, 1), in_blocks(3, 2), in_blocks(4, 2)}) {
    const auto size = static_cast<uint32_t>(hosts.size());
    Rng rng(gangway::tests::test_seed(), 12);
    for (const CollectiveKind kind : kMoves) {
      const CollectiveCase largest = largest_case(rng, kind, size, 200'007);
      Stepped group(hosts, 1, largest.bytes());
      ASSERT_NO_FATAL_FAILURE(group.run({{largest, size}}));
    }
  }
}

// A member that waits for room is rung, in the first collective and in later ones.
TEST(GroupMoves, ConsecutiveMovesOfManyMessagesContinueWhenTheyAreRung) {
  const uint64_t seed = gangway::tests::test_seed();
  for (const Hosts& hosts : {in_blocks(2, 1), in_blocks(3, 1)}) {
    const auto size = static_cast<uint32_t>(hosts.size());
    Rng rng(seed, 15);
    std::vector<Operation> operations;
    for (size_t o = 0; o < 6; ++o)
      operations.push_back({largest_case(rng, kMoves[rng.below(6)], size, 200'007), size});
    Stepped group(hosts, seed, bytes_of(operations));
    ASSERT_NO_FATAL_FAILURE(group.run(operations));
  }
}

TEST(GroupMoves, GathersAndBroadcastsWriteToFewHosts) {
  CollectiveKinds kinds;
  kinds.add(CollectiveKind::kAllGather);
  kinds.add(CollectiveKind::kBroadcast);
  for (const uint32_t size : {9u, 16u, 33u}) {
    Rng rng(1, 13);
    std::vector<Operation> operations;
    for (size_t o = 0; o < 6; ++o)
      operations.push_back({CollectiveCase(rng, kMoves[o % 2 == 0 ? 0 : 5], size, 500)});
    Stepped group(in_blocks(size, 1), 1, bytes_of(operations), kinds);
    ASSERT_NO_FATAL_FAILURE(group.run(operations));
    // A host writes to one host for each distance ahead, and reports its reads to one host for each
    // distance behind.
    for (uint32_t host = 0; host < size; ++host)
      EXPECT_LE(group.group().writes(host).hosts.size(),
                2 * static_cast<size_t>(std::bit_width(size - 1)));
  }
}

TEST(GroupMoves, MovesOfOneMessageEachWayRingTheOtherHostOnce) {
  Rng rng(gangway::tests::test_seed(), 14);
  for (const CollectiveKind kind : kMoves) {
    const CollectiveCase what(rng, kind, 2, 500);
    constexpr uint64_t kRounds = 5;
    Stepped group(in_blocks(2, 1), 1, what.bytes());
    ASSERT_NO_FATAL_FAILURE(group.run(std::vector<Operation>(kRounds, {what, 2})));
    const uint64_t messages = kind == CollectiveKind::kRaggedAllToAll ? 2 : 1;  // Sizes, rows.
    for (const uint32_t host : {0u, 1u})
      EXPECT_EQ(group.group().writes(host).rings, kRounds * messages) << what.text();
  }
}

// Bytes of one collective over the links of hosts, and over those between hosts.
struct Counted {
  uint64_t host, island;
  friend bool operator==(const Counted&, const Counted&) = default;
};
void PrintTo(const Counted& c, std::ostream* out) { *out << c.host << " and " << c.island; }

// `rows`: numbers of rows of a ragged collective, by sender and receiver.
Counted counted(const Hosts& hosts, CollectiveCall call,
                const std::vector<std::vector<int32_t>>& rows = {}) {
  const auto size = static_cast<uint32_t>(hosts.size());
  Stepped group(hosts, 1, int64_t{1} << 20);
  std::vector<std::vector<std::byte>> in(size), out(size);
  std::vector<CollectiveTensor> tensors(size, call.tensors[0]);
  std::vector<std::vector<int32_t>> received(size, std::vector<int32_t>(size));
  std::vector<uint32_t> done(size, 0);
  auto& members = const_cast<GroupHarness&>(group.group());
  for (uint32_t r = 0; r < size; ++r) {
    in[r].resize(static_cast<size_t>(in_bytes(call)));
    out[r].resize(static_cast<size_t>(out_bytes(call)));
    tensors[r].in = in[r].data();
    tensors[r].out = out[r].data();
    CollectiveCall mine = call;
    mine.tensors = {&tensors[r], 1};
    if (!rows.empty()) mine.ragged.sizes = rows[r].data();
    mine.ragged.received = received[r].data();
    members.member(r).begin(mine, false);
  }
  while (std::accumulate(done.begin(), done.end(), 0u) < size) {
    for (uint32_t r = 0; r < size; ++r) {
      if (done[r] == 0) done[r] = members.member(r).advance() == Progress::kDone ? 1 : 0;
    }
  }
  return {group.moved(LinkClass::kHost), group.moved(LinkClass::kIsland)};
}

CollectiveCall call_of(CollectiveKind kind, const CollectiveTensor& tensor) {
  return {.kind = kind, .tensors = {&tensor, 1}, .cut = {}, .ragged = {}, .to = {}};
}

TEST(GroupMoveBytes, CountEachCopyOfAnotherMembersBytesByTheLinkThatItGoesOver) {
  constexpr int64_t n = 4096;     // Elements of `in`.
  constexpr uint64_t kB = 4 * n;  // Its bytes.
  const CollectiveTensor tensor{nullptr, nullptr, n, DType::kF32};
  const Hosts one = in_blocks(4, 4), two = in_blocks(4, 2);

  CollectiveCall call = call_of(CollectiveKind::kAllGather, tensor);
  call.cut = gather_cut(f32({n}), 0, 4 * n);
  EXPECT_EQ(counted(one, call), (Counted{4 * 3 * kB, 0}));
  // Each member reads its neighbour's tensor, and writes half of the rows of two members to one
  // member of the other host.
  EXPECT_EQ(counted(two, call), (Counted{4 * kB + 4 * kB, 2 * 2 * kB}));

  call = call_of(CollectiveKind::kReduceScatter, tensor);
  call.cut = scatter_cut(f32({n}), 0, 4);
  EXPECT_EQ(counted(one, call), (Counted{4 * 3 * kB / 4, 0}));
  // Each channel reads half of its neighbour's tensor, and writes half of the neighbour's part.
  EXPECT_EQ(counted(two, call), (Counted{4 * kB / 2 + 4 * kB / 8, 2 * kB / 2}));

  call = call_of(CollectiveKind::kAllToAll, tensor);
  call.cut = all_to_all_cut(f32({n}), 0, 0, 4, n);
  EXPECT_EQ(counted(one, call), (Counted{4 * 3 * kB / 4, 0}));
  EXPECT_EQ(counted(two, call), (Counted{4 * kB / 4 + 4 * kB / 4, 4 * 2 * kB / 4}));

  const std::vector<uint32_t> ring = {1, 2, 3, 0};
  call = call_of(CollectiveKind::kPermute, tensor);
  call.to = ring;
  EXPECT_EQ(counted(one, call), (Counted{4 * kB, 0}));
  EXPECT_EQ(counted(two, call), (Counted{2 * kB + 2 * kB / 2, 2 * kB}));

  call = call_of(CollectiveKind::kBroadcast, tensor);
  call.root = 1;
  EXPECT_EQ(counted(one, call), (Counted{3 * kB, 0}));
  EXPECT_EQ(counted(two, call), (Counted{kB + 2 * kB / 2, kB}));
}

// Rows that stay with their member are counted nowhere.
TEST(GroupMoveBytes, CountRaggedRowsThatGoToOtherMembersAndTheirNumbers) {
  constexpr int64_t kRowElements = 64, kRows = 22;
  constexpr uint64_t kRow = 4 * kRowElements;
  const CollectiveTensor tensor{nullptr, nullptr, kRows * kRowElements, DType::kF32};
  CollectiveCall call = call_of(CollectiveKind::kRaggedAllToAll, tensor);
  call.ragged.row_elements = kRowElements;
  call.ragged.rows = call.ragged.bound = kRows;
  std::vector<std::vector<int32_t>> rows(4);
  for (int32_t from = 0; from < 4; ++from) {
    for (int32_t to = 0; to < 4; ++to) rows[static_cast<size_t>(from)].push_back(from + to + 1);
  }
  // The diagonal's 4 of 16 numbers and 16 of 64 rows stay with their members.
  EXPECT_EQ(counted(in_blocks(4, 4), call, rows), (Counted{12 * 4 + 48 * kRow, 0}));
  // 16 of these 48 rows go to a neighbour and 32 to the other host, where the receiver's neighbour
  // writes half of them; the first member writes all single numbers.
  EXPECT_EQ(counted(in_blocks(4, 2), call, rows),
            (Counted{(4 + 4) * 4 + (16 + 32 / 2) * kRow, 8 * 4 + 32 * kRow}));
}

}  // namespace
}  // namespace gangway::group_moves_test
