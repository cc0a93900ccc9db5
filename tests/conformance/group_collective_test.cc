// Tests GroupCollective over groups of many shapes, with one thread that advances members in an
// order drawn from a seed; and runs the conformance suite over threads and over processes.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <ostream>
#include <span>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/collectives/hosts/group_collective.h"
#include "executor/links/shared_link.h"
#include "runtime/base/rng.h"
#include "runtime/os/thread.h"
#include "tests/conformance/collective_suite.h"
#include "tests/conformance/group_harness.h"
#include "tests/conformance/group_members.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

// The host of each of `size` members: `count` consecutive members share a host; the last host may
// have fewer.
std::vector<uint32_t> in_blocks(uint32_t size, uint32_t count) {
  std::vector<uint32_t> hosts;
  for (uint32_t r = 0; r < size; ++r) hosts.push_back(r / count);
  return hosts;
}

// The conformance suite: a thread for each member, which parks on its bell.

Bell shared_bell(HostLink& link, uint32_t, uint32_t device) {
  return static_cast<SharedLink&>(link).bell(device);
}

std::unique_ptr<HostLink> shared_link(uint32_t devices) {
  return std::make_unique<SharedLink>(devices);
}

struct Spread {
  std::vector<uint32_t> host_of;
  // Seed of each member's delays, so that their timing differs.
  uint64_t seed = 0;
};

bool run_member(Collective& collective, Doorbell& bell, uint64_t seed, const MemberBody& body) {
  Rng rng(seed, collective.rank());
  CollectiveMember member = member_of(collective, [&] {
    while (true) {
      for (uint64_t pauses = rng.below(8) == 0 ? rng.below(400) : 0; pauses > 0; --pauses)
        spin_pause();
      const uint32_t ticket = bell.ticket();
      if (collective.advance() == Progress::kDone) return;
      bell.wait(ticket, SpinPolicy::park());
    }
  });
  return body(member);
}

bool run_host(GroupHarness& group, const Spread& spread, uint32_t host, const MemberBody& body) {
  std::atomic<bool> good{true};
  std::vector<Thread> threads;
  uint32_t index = 0;
  for (uint32_t r = 0; r < spread.host_of.size(); ++r) {
    if (spread.host_of[r] != host) continue;
    const uint32_t device = GroupHarness::device_of(index++);
    threads.emplace_back("rank", [&, r, device] {
      Doorbell& bell = *shared_bell(group.link(host), r, device).doorbell;
      if (!run_member(group.member(r), bell, spread.seed, body)) good = false;
    });
  }
  for (Thread& thread : threads) thread.join();
  return good;
}

GroupHarness make_group(const Spread& spread, int64_t bytes_max) {
  return GroupHarness({.host_of = spread.host_of,
                       .bytes_max = bytes_max,
                       .kinds = CollectiveKinds::all(),
                       .bell_of = shared_bell},
                      shared_link);
}

bool run_threads(const Spread& spread, int64_t bytes_max, const MemberBody& body) {
  GroupHarness group = make_group(spread, bytes_max);
  std::atomic<bool> good{true};
  std::vector<Thread> hosts;
  for (uint32_t h = 0; h <= std::ranges::max(spread.host_of); ++h) {
    hosts.emplace_back("host", [&, h] {
      if (!run_host(group, spread, h, body)) good = false;
    });
  }
  for (Thread& host : hosts) host.join();
  return good;
}

// Runs the body with a process for each host.
bool run_processes(const Spread& spread, int64_t bytes_max, const MemberBody& body) {
  GroupHarness group = make_group(spread, bytes_max);
  std::vector<pid_t> children;
  for (uint32_t h = 0; h <= std::ranges::max(spread.host_of); ++h) {
    const pid_t child = fork();
    if (child == 0) _exit(run_host(group, spread, h, body) ? 0 : 1);
    children.push_back(child);
  }
  bool good = true;
  for (pid_t child : children) {
    int status = 0;
    good &= waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return good;
}

// Ranks of hosts in turn: their order of additions is not that of the tree over all members.
CollectiveMaker in_turn() {
  return {.name = "threads_of_hosts_in_turn",
          .run =
              [](uint32_t size, int64_t bytes_max, const MemberBody& body) {
                const std::vector<uint32_t> hosts = {0, 1, 2, 0, 2, 1, 1, 2};
                return run_threads(
                    {{hosts.begin(), hosts.begin() + size}, gangway::tests::test_seed()}, bytes_max,
                    body);
              },
          .in_tree_order = false,
          .rounds = 100};
}

CollectiveMaker maker(std::string name, uint32_t on_a_host,
                      bool (*run)(const Spread&, int64_t, const MemberBody&)) {
  return {.name = std::move(name),
          .run =
              [on_a_host, run](uint32_t size, int64_t bytes_max, const MemberBody& body) {
                return run({in_blocks(size, on_a_host), gangway::tests::test_seed()}, bytes_max,
                           body);
              },
          .rounds = 100};
}

INSTANTIATE_TEST_SUITE_P(Group, CollectiveSuite,
                         ::testing::Values(maker("threads_of_one_host", 64, run_threads),
                                           maker("threads_of_hosts_of_two", 2, run_threads),
                                           maker("a_thread_a_host", 1, run_threads), in_turn(),
                                           maker("processes_of_two", 2, run_processes),
                                           maker("a_process_a_host", 1, run_processes)),
                         [](const auto& i) { return i.param.name; });

// Many shapes, one thread.

struct Shape {
  std::string name;
  std::vector<uint32_t> host_of;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

std::vector<Shape> shapes() {
  return {{"1x1", in_blocks(1, 1)},  {"1x4", in_blocks(4, 4)},
          {"2x1", in_blocks(2, 1)},  {"2x2", in_blocks(4, 2)},
          {"3_and_1", {0, 0, 0, 1}}, {"2_1_and_3", {0, 0, 1, 2, 2, 2}},
          {"5x1", in_blocks(5, 1)},  {"4x4", in_blocks(16, 4)},
          {"9x1", in_blocks(9, 1)},  {"16x1", in_blocks(16, 1)},
          {"7x2", in_blocks(14, 2)}, {"taken_in_turn", {0, 1, 2, 0, 1, 2, 0}},
          {"33x1", in_blocks(33, 1)}};
}

struct Operation {
  bool exchange = false;
  Reduction reduction = Reduction::kSum;
  std::vector<std::pair<DType, int64_t>> tensors;
  uint32_t poisoned = 0;  // The group's size: no member.
};

// The bytes of all members, by rank and tensor.
using Values = std::vector<std::vector<std::vector<std::byte>>>;

class Stepped {
 public:
  Stepped(const Shape& shape, uint64_t seed, int64_t bytes_max)
      : shape_(shape),
        rng_(seed, 7),
        rung_(shape.host_of.size()),
        group_({.host_of = shape.host_of,
                .bytes_max = bytes_max,
                .bell_of = [this](HostLink& link, uint32_t rank,
                                  uint32_t device) { return rung_.bell(link, rank, device); },
                .counted = true},
               [this](uint32_t devices) { return rung_.link(devices); }) {}

  uint32_t size() const { return static_cast<uint32_t>(shape_.host_of.size()); }
  GroupHarness& group() { return group_; }
  Rng& rng() { return rng_; }
  bool clean(size_t operation, uint32_t rank) const { return clean_[operation][rank]; }
  // The result, which all members share.
  const std::vector<std::vector<std::byte>>& result(size_t operation) const {
    return end_[operation][0];
  }

  // Advances all members through all operations: each as far ahead as it can, and again after it
  // was rung.
  void run(const std::vector<Operation>& operations) {
    std::vector<size_t> next(size(), 0);
    std::vector<bool> begun(size(), false);
    size_t left = size() * operations.size();
    begin_.resize(operations.size());
    end_.resize(operations.size());
    for (size_t o = 0; o < operations.size(); ++o) begin_[o] = end_[o] = values_of(operations[o]);
    clean_.assign(operations.size(), std::vector<bool>(size(), false));
    while (left > 0) {
      std::vector<uint32_t> due;
      for (uint32_t r = 0; r < size(); ++r) {
        if (next[r] < operations.size() && (!begun[r] || rung_.is_rung(r))) due.push_back(r);
      }
      ASSERT_FALSE(due.empty()) << "nobody goes on: " << left << " operations are left";
      const uint32_t r = due[rng_.below(due.size())];
      const size_t o = next[r];
      if (!begun[r]) begin(r, operations[o], o);
      begun[r] = true;
      rung_.look(r);
      if (group_.member(r).advance() == Progress::kPending) continue;
      clean_[o][r] = !group_.member(r).poisoned();
      if (operations[o].exchange && clean_[o][r]) expect_words(r, o);
      begun[r] = false;
      ++next[r];
      --left;
    }
  }

  void expect_results(const std::vector<Operation>& operations) {
    for (size_t o = 0; o < operations.size(); ++o) {
      const Operation& operation = operations[o];
      for (uint32_t r = 0; r < size(); ++r)
        ASSERT_EQ(clean_[o][r], operation.poisoned == size()) << "member " << r;
      if (operation.poisoned < size()) continue;
      for (size_t t = 0; t < operation.tensors.size(); ++t) {
        const std::vector<std::byte> want = tree_of_hosts(operation, begin_[o], t);
        for (uint32_t r = 0; r < size(); ++r)
          ASSERT_EQ(end_[o][r][t], want)
              << "operation " << o << ", tensor " << t << ", member " << r;
      }
    }
  }

 private:
  Values values_of(const Operation& operation) {
    Values values(size());
    for (auto& member : values) {
      for (const auto& [dtype, elements] : operation.tensors)
        member.push_back(random_values(dtype, elements));
    }
    return values;
  }

  std::vector<std::byte> random_values(DType dtype, int64_t elements) {
    std::vector<std::byte> bytes(static_cast<size_t>(elements) * size_of(dtype));
    for (int64_t i = 0; i < elements; ++i) {
      std::byte* at = bytes.data() + static_cast<size_t>(i) * size_of(dtype);
      const double value = random_value();
      const auto whole = static_cast<int32_t>(rng_.below(1000));
      const auto narrow = static_cast<float>(value);
      const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(narrow) >> 16);
      if (dtype == DType::kF64) std::memcpy(at, &value, sizeof value);
      if (dtype == DType::kF32) std::memcpy(at, &narrow, sizeof narrow);
      if (dtype == DType::kI32) std::memcpy(at, &whole, sizeof whole);
      if (dtype == DType::kBF16) std::memcpy(at, &half, sizeof half);
    }
    return bytes;
  }

  // Zeros of both signs show in a maximum which operand was the left one.
  double random_value() {
    const uint64_t kind = rng_.below(16);
    if (kind == 0) return std::nan("");
    if (kind < 8) return kind % 2 == 0 ? 0.0 : -0.0;
    return (rng_.uniform() - 0.5) * std::exp2(static_cast<double>(rng_.below(12)));
  }

  static uint64_t word_of(uint32_t rank, size_t operation) { return 100 * operation + rank; }

  void begin(uint32_t rank, const Operation& operation, size_t o) {
    const bool poisoned = operation.poisoned == rank;
    Collective& member = group_.member(rank);
    if (operation.exchange) return member.begin_exchange(word_of(rank, o), poisoned);
    std::vector<CollectiveTensor> tensors;
    for (size_t t = 0; t < operation.tensors.size(); ++t) {
      const auto [dtype, elements] = operation.tensors[t];
      std::byte* data = end_[o][rank][t].data();
      tensors.push_back({data, data, elements, dtype});
    }
    member.begin({.tensors = tensors, .reduction = operation.reduction}, poisoned);
  }

  void expect_words(uint32_t rank, size_t o) {
    Collective& member = group_.member(rank);
    EXPECT_EQ(member.least(), word_of(0, o));
    EXPECT_EQ(member.most(), word_of(size() - 1, o));
    std::vector<uint64_t> here;
    for (uint32_t r = 0; r < size(); ++r) {
      if (shape_.host_of[r] == shape_.host_of[rank]) here.push_back(word_of(r, o));
    }
    const std::span<const uint64_t> words = member.words();
    EXPECT_EQ(std::vector<uint64_t>(words.begin(), words.end()), here);
  }

  // The tree over hosts, in order of their lowest ranks, of the trees over each host's members.
  std::vector<std::byte> tree_of_hosts(const Operation& operation, const Values& values,
                                       size_t tensor) const {
    const auto [dtype, elements] = operation.tensors[tensor];
    std::vector<uint32_t> hosts;
    std::vector<std::vector<std::byte>> partials;
    for (uint32_t r = 0; r < size(); ++r) {
      if (std::ranges::count(hosts, shape_.host_of[r]) > 0) continue;
      hosts.push_back(shape_.host_of[r]);
      std::vector<const std::byte*> sources;
      for (uint32_t m = 0; m < size(); ++m) {
        if (shape_.host_of[m] == hosts.back()) sources.push_back(values[m][tensor].data());
      }
      partials.emplace_back(static_cast<size_t>(elements * partial_bytes_of(dtype)));
      reduce_to_partial(dtype, operation.reduction, sources, partials.back().data(), elements);
    }
    join(operation, dtype, elements, partials);
    std::vector<std::byte> result(static_cast<size_t>(elements) * size_of(dtype));
    round_partial(dtype, partials[0].data(), result.data(), elements);
    return result;
  }

  static void join(const Operation& operation, DType dtype, int64_t elements,
                   std::span<std::vector<std::byte>> partials) {
    if (partials.size() == 1) return;
    const size_t left = std::bit_floor(partials.size() - 1);
    join(operation, dtype, elements, partials.first(left));
    join(operation, dtype, elements, partials.subspan(left));
    combine_partials(dtype, operation.reduction, partials[0].data(), partials[left].data(),
                     partials[0].data(), elements);
  }

  const Shape shape_;
  Rng rng_;
  RungMembers rung_;
  GroupHarness group_;
  std::vector<Values> begin_, end_;  // Values by operation.
  std::vector<std::vector<bool>> clean_;
};

class GroupCollectiveTest : public ::testing::TestWithParam<Shape> {};

constexpr int64_t kBytesMax = 96 << 10;

// Small and large buckets, exchanges and poisoned members, in any order.
std::vector<Operation> any_operations(Rng& rng, uint32_t size, size_t count) {
  std::vector<Operation> operations;
  for (size_t o = 0; o < count; ++o) {
    Operation& operation = operations.emplace_back();
    operation.exchange = rng.below(3) == 0;
    operation.poisoned = rng.below(5) == 0 ? static_cast<uint32_t>(rng.below(size)) : size;
    operation.reduction = static_cast<Reduction>(rng.below(3));
    const DType dtypes[] = {DType::kF32, DType::kF64, DType::kBF16, DType::kI32};
    const int64_t sizes[] = {0, 1, 7, 33, 3001};
    for (uint64_t left = operation.exchange ? 0 : 1 + rng.below(3); left > 0; --left)
      operation.tensors.emplace_back(dtypes[rng.below(4)], sizes[rng.below(5)]);
  }
  return operations;
}

TEST_P(GroupCollectiveTest, AllMembersGetTheTreeOverHostsOfTreesOverMembers) {
  const uint64_t first = gangway::tests::test_seed();
  for (uint64_t seed = first; seed < first + 6; ++seed) {
    SCOPED_TRACE(seed);
    Stepped group(GetParam(), seed, kBytesMax);
    const std::vector<Operation> operations = any_operations(group.rng(), group.size(), 20);
    ASSERT_NO_FATAL_FAILURE(group.run(operations));
    ASSERT_NO_FATAL_FAILURE(group.expect_results(operations));
  }
}

TEST_P(GroupCollectiveTest, AHostWritesToFewOthersOnly) {
  Stepped group(GetParam(), 1, kBytesMax);
  ASSERT_NO_FATAL_FAILURE(group.run(any_operations(group.rng(), group.size(), 12)));
  const std::set<uint32_t> hosts(GetParam().host_of.begin(), GetParam().host_of.end());
  for (const uint32_t host : hosts) {
    EXPECT_LE(group.group().writes(host).hosts.size(),
              2 * static_cast<size_t>(std::bit_width(hosts.size() - 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GroupCollectiveTest, ::testing::ValuesIn(shapes()),
                         [](const auto& i) { return "hosts_" + i.param.name; });

TEST(GroupTest, ABucketOfManyPiecesIsReducedPieceByPiece) {
  for (const std::vector<uint32_t>& host_of :
       {in_blocks(2, 1), in_blocks(4, 2), std::vector<uint32_t>{0, 0, 1, 2, 2, 2}}) {
    Stepped group({"of_pieces", host_of}, gangway::tests::test_seed(), int64_t{5} << 20);
    const std::vector<Operation> operations = {
        {.tensors = {{DType::kBF16, 1'000'003}, {DType::kF32, 400'001}}, .poisoned = group.size()}};
    ASSERT_NO_FATAL_FAILURE(group.run(operations));
    ASSERT_NO_FATAL_FAILURE(group.expect_results(operations));
  }
}

TEST(GroupTest, BitsDoNotDependOnHowManyMembersAHostHasWhereBlocksAreAligned) {
  const Operation sum{.tensors = {{DType::kF32, 5000}, {DType::kBF16, 77}}, .poisoned = 16};
  for (const uint32_t on_a_host : {1u, 2u, 4u, 8u, 16u}) {
    // Both groups draw the same values.
    Stepped spread({"spread", in_blocks(16, on_a_host)}, 3, kBytesMax);
    ASSERT_NO_FATAL_FAILURE(spread.run({sum}));
    Stepped alone({"alone", in_blocks(16, 16)}, 3, kBytesMax);
    ASSERT_NO_FATAL_FAILURE(alone.run({sum}));
    EXPECT_EQ(spread.result(0), alone.result(0));
  }
}

TEST(GroupTest, ABucketLargerThanThePlanSaidPoisonsAllMembers) {
  Stepped group({"2x2", in_blocks(4, 2)}, 1, 4096);
  const std::vector<Operation> operations = {{.tensors = {{DType::kF32, 5000}}, .poisoned = 4},
                                             {.tensors = {{DType::kF32, 10}}, .poisoned = 4}};
  ASSERT_NO_FATAL_FAILURE(group.run(operations));
  for (uint32_t r = 0; r < 4; ++r) {
    EXPECT_FALSE(group.clean(0, r));
    EXPECT_TRUE(group.clean(1, r));
  }
}

TEST(GroupTest, AnAbortFlagReachesEveryMemberOfEveryHostAndRingsIt) {
  const auto fabric = std::make_shared<SimFabric>();
  std::vector<int> rung;  // Counts by device of all hosts.
  GroupHarness group({.host_of = {0, 0, 1, 2, 2},
                      .abort_flags = true,
                      .bell_of = [](HostLink&, uint32_t, uint32_t) { return Bell{}; }},
                     [&](uint32_t devices) {
                       std::vector<Bell> bells;
                       for (uint32_t d = 0; d < devices; ++d, rung.push_back(0))
                         bells.push_back({nullptr, std::make_shared<const std::function<void()>>(
                                                       [&rung, r = rung.size()] { ++rung[r]; })});
                       return std::make_unique<SimLink>(fabric, std::move(bells));
                     });
  group.member(3).raise_abort(41);
  EXPECT_EQ(rung, (std::vector<int>{0, 1, 0, 1, 0, 0, 1, 0, 0, 1, 0, 1, 0}));
  for (uint32_t r = 0; r < 5; ++r) {
    EXPECT_TRUE(group.member(r).abort_raised(41));
    EXPECT_FALSE(group.member(r).abort_raised(40));
  }
  group.member(3).raise_abort(42);
  group.member(0).raise_abort(40);
  EXPECT_FALSE(group.member(1).abort_raised(41)) << "a later one of that member takes its place";
  EXPECT_TRUE(group.member(1).abort_raised(42));
  EXPECT_TRUE(group.member(1).abort_raised(40));
  group.member(2).raise_abort(Collective::kEverything);
  group.member(2).raise_abort(5);
  for (uint32_t r = 0; r < 5; ++r) EXPECT_TRUE(group.member(r).abort_raised(99));
}

}  // namespace
}  // namespace gangway
