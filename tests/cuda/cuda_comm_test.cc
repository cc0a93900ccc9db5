// Communicators of hosts with a card for each device: they are created once for each group, and
// again after a failure. A failure fails only the runs that need the collective.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/cuda/emulated_hosts.h"
#include "tests/support/training_step.h"

namespace gangway::cuda_comm_test {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr PlanId kNext{2};
constexpr uint64_t kSeeds = 25;

class CudaCommTest : public testing::TestWithParam<uint64_t> {};

// Exactly one of runs 1 to 4 fails and says where; the others train.
void expect_one_failure(EmulatedHosts& t, const std::string& what) {
  t->install(kPlan, training_step(static_cast<uint32_t>(t->hosts.size()), 2 / t->hosts.size()));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 4; ++run) t->start(step_request(kPlan, run, 0.25f));
  int failures = 0;
  for (uint64_t run = 1; run <= 4; ++run) {
    const Done done = t->wait(RunId(run));
    if (!done.error) continue;
    ++failures;
    EXPECT_THAT(done.error->what(), HasSubstr(what));
    EXPECT_THAT(done.error->what(), HasSubstr("all_reduce"));
    EXPECT_THAT(done.error->what(), HasSubstr("step"));
    EXPECT_TRUE(done.is_origin);
  }
  EXPECT_EQ(failures, 1);
  EXPECT_THAT(t->read_state<float>("w", 2), Each(2.75f));
}

TEST_P(CudaCommTest, TwoPlansOverOneGroupShareOneCommunicator) {
  EmulatedHosts t(GetParam(), 1, 2, 2);
  train(t, kPlan, 1, 2);
  train(t, kNext, 1, 2, {2});
  EXPECT_EQ(t.machine->communicators_made(), 2u);  // One for each member.
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaCommTest, APlanThatIsInstalledAgainFindsTheCommunicatorOfItsGroup) {
  EmulatedHosts t(GetParam(), 2, 1);
  train(t, kPlan, 2, 1);
  for (auto& host : t->hosts) host->uninstall(kPlan);
  train(t, kNext, 2, 1, {2});
  EXPECT_EQ(t.machine->communicators_made(), 2u);
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaCommTest, ACollectiveThatDoesNotStartOnOneCardFailsItsRunAloneAndNamesItsLine) {
  for (uint32_t hosts : {1u, 2u}) {
    EmulatedHosts t(GetParam(), hosts, 2 / hosts, 2 / hosts);
    t.machine->inject({cuda::StatusKind::kLaunch, "all_reduce", uint32_t(GetParam() % 5)});
    expect_one_failure(t, "training_step.h");
    EXPECT_EQ(t.machine->communicators_made(), 4u);
    EXPECT_EQ(t.reports(), "");
  }
}

TEST_P(CudaCommTest, ACommunicatorThatBreaksUnderwayFailsItsRunAndIsMadeAnew) {
  for (uint32_t hosts : {1u, 2u}) {
    EmulatedHosts t(GetParam(), hosts, 2 / hosts, 2 / hosts);
    t.machine->inject({cuda::StatusKind::kAborted, "all_reduce", uint32_t(GetParam() % 5)});
    expect_one_failure(t, "communicator");
    EXPECT_EQ(t.machine->communicators_made(), 4u);
    EXPECT_EQ(t.reports(), "");
  }
}

TEST_P(CudaCommTest, ACommunicatorThatCannotBeMadeFailsTheRunThatNeedsItAndTheNextTriesAgain) {
  for (uint32_t hosts : {1u, 2u}) {
    EmulatedHosts t(GetParam(), hosts, 2 / hosts, 2 / hosts);
    t.machine->inject({cuda::StatusKind::kLaunch, "create_comm", uint32_t(GetParam() % 2)});
    expect_one_failure(t, "create_comm");
    EXPECT_EQ(t.reports(), "");
  }
}

TEST_P(CudaCommTest, ACardThatIsLostInsideACollectiveEndsEveryRunOnAllHosts) {
  for (const char* op : {"all_reduce", " exp"}) {
    EmulatedHosts t(GetParam(), 2, 1);
    t->install(kPlan, training_step(2, 1));
    t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
    t.machine->inject({cuda::StatusKind::kFault, op, uint32_t(GetParam() % 3)});
    for (uint64_t run = 1; run <= 4; ++run) t->start(step_request(kPlan, run, 0.25f));
    bool failed = false;
    for (uint64_t run = 1; run <= 4; ++run) {
      const Done done = t->wait(RunId(run));
      EXPECT_TRUE(done.error || !failed) << run;
      failed = failed || done.error;
      if (!done.error) continue;
      // If the card is lost behind the gate, the states on it are lost too.
      EXPECT_THAT(done.error->kind(), testing::AnyOf(ErrorKind::kUnavailable, ErrorKind::kLost));
      EXPECT_THAT(done.error->what(), HasSubstr(op));
      EXPECT_THAT(done.error->what(), HasSubstr("host-"));
    }
    EXPECT_TRUE(failed);
    EXPECT_EQ(t.reports(), "");
  }
}

TEST_P(CudaCommTest, AMemberThatNeverComesHoldsNobodyOnceItsRunIsGivenUp) {
  EmulatedHosts t(GetParam(), 2, 1);
  train(t, kPlan, 2, 1);
  t->start_on(0, step_request(kPlan, 11, 0.25f));  // Host 1 never starts it.
  t.reactor().run_ready();
  for (auto& host : t->hosts) host->cancel(RunId(11), ErrorKind::kUnavailable, "host-1 is gone");
  t.reactor().run_until([&] { return t->logs[0]->done.contains(RunId(11)); });
  EXPECT_THAT(t->logs[0]->done[RunId(11)].error->what(), HasSubstr("host-1 is gone"));
  for (auto& host : t->hosts) host->uninstall(kPlan);
  train(t, kNext, 2, 1, {2});
  EXPECT_EQ(t.reports(), "");
}

TEST_P(CudaCommTest, AHostThatGoesInTheMiddleLeavesNobodyWaitingForItsCard) {
  EmulatedHosts t(GetParam(), 2, 1);
  t->install(kPlan, training_step(2, 1));
  t->put<float>(ArrayId(100), kPlan, 0, std::vector<float>(16, 3.0f));
  for (uint64_t run = 1; run <= 4; ++run) t->start(step_request(kPlan, run, 0.25f));
  for (uint64_t done = GetParam() % 3; done > 0; --done) t->wait(RunId(done));
  t->hosts[1] = nullptr;
  for (uint64_t run = 1; run <= 4; ++run)
    t->hosts[0]->cancel(RunId(run), ErrorKind::kUnavailable, "host-1 is gone");
  t->start_on(0, step_request(kPlan, 5, 0.25f));
  t.reactor().run_until([&] { return t->logs[0]->done.contains(RunId(5)); });
  EXPECT_TRUE(t->logs[0]->done[RunId(5)].error);
  EXPECT_EQ(t.reports(), "");
}

// Bytes that the hosts count for one all-reduce of `elements` f32 between the devices.
LinkBytes counted(EmulatedHosts& t, uint32_t devices, int64_t elements) {
  const auto hosts = static_cast<uint32_t>(t->hosts.size());
  auto plan = std::make_shared<Plan>(*TestPlan::all_reduce(hosts, devices, elements));
  if (hosts == 2) plan->islands = {"east", "west"};
  t->install(kPlan, plan);
  const auto rows = static_cast<size_t>(hosts * devices * elements);
  t->put<float>(ArrayId(1), kPlan, 0, std::vector<float>(rows, 1.0f));
  LinkBytes sum{};
  const auto add = [&](int sign) {
    for (const auto& host : t->hosts) {
      const LinkBytes bytes = host->moved_bytes();
      for (size_t link = 0; link < sum.size(); ++link)
        sum[link] += static_cast<uint64_t>(sign) * bytes[link];
    }
  };
  add(-1);
  t->start({.plan = kPlan,
            .run = RunId(1),
            .arguments = {{0, ArrayId(1), {}}},
            .outputs = {ArrayId(2)}});
  EXPECT_FALSE(t->wait(RunId(1)).error);
  add(1);
  EXPECT_EQ(t.reports(), "");
  return sum;
}

TEST(CudaLinkBytes, AnAllReduceOfACardEachCountsWhatARingWouldSendOverEachClassOfLink) {
  EmulatedHosts t(1, 2, 2, 2);
  // Two links of the ring stay inside a host and two go to the other island. Each link carries
  // 2 * 3 / 4 of the 400 bytes.
  EXPECT_EQ(counted(t, 2, 100), (LinkBytes{2 * 600, 0, 2 * 600}));
}

TEST(CudaLinkBytes, AnAllReduceOnOneCardCountsWhatEachDeviceReadsOfTheOthers) {
  EmulatedHosts t(1, 1, 4);
  EXPECT_EQ(counted(t, 4, 100), (LinkBytes{4 * 3 * 400, 0, 0}));
}

TEST(CudaGroups, GroupsInWhichOnlySomeDevicesShareACardAreRefusedWithTheUsersLine) {
  EmulatedHosts t(1, 1, 4, 2);
  try {
    t->install(kPlan, training_step(1, 4));
    FAIL() << "it was installed";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("share a card"));
    EXPECT_THAT(error.what(), HasSubstr("training_step.h:"));
  }
  EXPECT_EQ(t.reports(), "");
}

constexpr int64_t kMembers = 4, kRows = 6, kBound = 7;

// One call in which each of four members sends rows of its f32[6, 2]. Its sizes say how many go to
// each member.
std::shared_ptr<const Plan> ragged_plan(uint32_t hosts, uint32_t devices) {
  TestPlan t("meeting", hosts, devices);
  PlanSlice& slice = t.plan().slices[0];
  slice.mesh = TestPlan::mesh_of(kMembers);
  slice.ranks_per_device = kMembers / (hosts * devices);
  Builder b("meet", t.mesh());
  const Value x = b.parameter("x", f32({kRows, 2})), sizes = b.parameter("sizes", i32({kMembers}));
  const std::vector<Value> results = b.emit(
      Op::ragged_all_to_all, {x, sizes},
      {{"axes", std::string("data")}, {"parts", kMembers}, {"bound", kBound}}, Loc::current());
  b.result("rows", results[0]);
  b.result("received", results[1]);
  auto function = std::make_shared<Function>(b.build());
  function->local = true;
  const auto end = static_cast<NodeId>(function->nodes.size());
  t.plan().functions.push_back({std::move(function), end, {}, kNone, {}});
  const uint32_t in = t.input("x", f32({kMembers * kRows, 2}), {shard(0)});
  const uint32_t counts = t.input("sizes", i32({kMembers * kMembers}), {shard(0)});
  const uint32_t out = t.output("rows", f32({kMembers * kBound, 2}), {shard(0)});
  const uint32_t came = t.output("received", i32({kMembers * kMembers}), {shard(0)});
  t.call("meet", 0, {in, counts}, {out, came});
  t.gate();
  return t.share();
}

// The rows that member `to` gets: 100 * sender + row, in both columns, then zeros up to the bound.
std::vector<float> rows_for(const std::vector<int32_t>& sizes, int64_t to) {
  std::vector<float> rows;
  for (int64_t from = 0; from < kMembers; ++from) {
    const auto* mine = sizes.data() + from * kMembers;
    const int64_t first = std::accumulate(mine, mine + to, int64_t{0});
    for (int64_t row = first; row < first + mine[to]; ++row)
      rows.insert(rows.end(), 2, static_cast<float>(100 * from + row));
  }
  rows.resize(2 * kBound, 0.0f);
  return rows;
}

TEST_P(CudaCommTest, RaggedRowsGoBetweenDevicesOfAnyCardsAndHosts) {
  const std::vector<int32_t> sizes = {1, 2, 0, 3, 0, 1, 1, 2, 3, 0, 0, 3, 2, 2, 2, 0};
  std::vector<float> x, want;
  std::vector<int32_t> received;
  for (int64_t i = 0; i < kMembers * kRows; ++i)
    x.insert(x.end(), 2, static_cast<float>(100 * (i / kRows) + i % kRows));
  for (int64_t to = 0; to < kMembers; ++to) {
    const std::vector<float> rows = rows_for(sizes, to);
    want.insert(want.end(), rows.begin(), rows.end());
    for (int64_t from = 0; from < kMembers; ++from)
      received.push_back(sizes[static_cast<size_t>(from * kMembers + to)]);
  }
  struct Place {
    uint32_t hosts, devices, cards;  // Cards of each host.
  };
  // All members on one card; a card for each, on one host and on two; two ranks on each card.
  for (const Place place : {Place{1, 4, 1}, {1, 4, 4}, {2, 2, 2}, {1, 2, 2}, {2, 1, 1}}) {
    SCOPED_TRACE(cat(place.hosts, " hosts, ", place.devices, " devices, ", place.cards, " cards"));
    EmulatedHosts t(GetParam(), place.hosts, place.devices, place.cards);
    t->install(kPlan, ragged_plan(place.hosts, place.devices));
    t->put<float>(ArrayId(100), kPlan, 0, x);
    t->put<int32_t>(ArrayId(101), kPlan, 1, sizes);
    for (uint64_t run = 1; run <= 3; ++run)
      t->start({.plan = kPlan,
                .run = RunId(run),
                .arguments = {{0, ArrayId(100), {}}, {1, ArrayId(101), {}}},
                .outputs = {ArrayId(200 + run), ArrayId(300 + run)}});
    for (uint64_t run = 1; run <= 3; ++run) {
      const Done done = t->wait(RunId(run));
      EXPECT_FALSE(done.error) << done.error->what();
      EXPECT_EQ(t->get<float>(ArrayId(200 + run), want.size()), want);
      EXPECT_EQ(t->get<int32_t>(ArrayId(300 + run), received.size()), received);
    }
    EXPECT_EQ(t.reports(), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CudaCommTest, testing::Range(uint64_t{1}, kSeeds + 1),
                         [](const auto& i) { return std::to_string(i.param); });

}  // namespace
}  // namespace gangway::cuda_comm_test
