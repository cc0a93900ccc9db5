#include "controller/scheduler/gangs/gang_scheduler.h"

#include <gmock/gmock.h>

#include <string>

#include "controller/scheduler/policies/fair_share.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kUs = 1000, kMs = 1'000'000;

// Keeps the charges of every program, over all groups together.
class Charges final : public Policy {
 public:
  explicit Charges(std::map<SessionId, int64_t>& charged) : charged_(charged) {}
  void set_share(SessionId id, const Share& share) override { fair_.set_share(id, share); }
  void forget(SessionId id) override { fair_.forget(id); }
  void add(const GangTurn& turn) override { fair_.add(turn); }
  void remove(GangId gang) override { fair_.remove(gang); }
  std::optional<GangId> next(GroupId group, const May& may) override {
    return fair_.next(group, may);
  }
  void charge(SessionId id, std::span<const GroupId> groups, int64_t ns) override {
    charged_[id] += ns * static_cast<int64_t>(groups.size());
    fair_.charge(id, groups, ns);
  }
  void split(GroupId from, GroupId to) override { fair_.split(from, to); }
  void erase(GroupId group) override { fair_.erase(group); }

 private:
  std::map<SessionId, int64_t>& charged_;
  FairShare fair_;
};

class GangSchedulerTest : public testing::Test {
 protected:
  // Adds a program of its own, with one slice over all four devices.
  void add(uint64_t id, std::vector<int64_t> ns) {
    GangPlan plan{.program = SessionId(id), .scope = id, .positions = ns.size()};
    plan.slices.push_back({.id = SliceId(10 * id), .devices = devices(0, 4), .modelled_ns = ns});
    scheduler_.add_plan(PlanId(id), std::move(plan));
  }
  // Adds two slices: call, send, gate, commit; receive, call, gate, commit.
  void add_pair(uint64_t id, uint32_t first, uint32_t second, bool by_section = true) {
    GangPlan plan{.program = SessionId(id), .scope = id, .positions = 7, .by_section = by_section};
    plan.slices.push_back({.id = SliceId(10 * id),
                           .devices = devices(first, 2),
                           .modelled_ns = {kMs, 0, 0, kMs},
                           .stops = {{.position = 2, .is_gate = true}}});
    plan.slices.push_back(
        {.id = SliceId(10 * id + 1),
         .devices = devices(second, 2),
         .modelled_ns = {0, kMs, 0, kMs},
         .stops = {{.position = 0, .slice = 0, .sent = 1}, {.position = 2, .is_gate = true}}});
    scheduler_.add_plan(PlanId(id), std::move(plan));
  }
  // Adds slices of one device each: a and b send to c, which receives, computes and sends to d.
  void add_diamond(uint64_t id) {
    GangPlan plan{.program = SessionId(id), .scope = id, .positions = 10};
    const auto slice = [&](uint64_t n, std::vector<int64_t> ns, std::vector<GangPlan::Stop> stops) {
      plan.slices.push_back({.id = SliceId(10 * id + n),
                             .devices = devices(static_cast<uint32_t>(n), 1),
                             .modelled_ns = std::move(ns),
                             .stops = std::move(stops)});
    };
    slice(0, {kMs, 0}, {});
    slice(1, {kMs, 0}, {});
    slice(2, {0, 0, kMs, 0},
          {{.position = 0, .slice = 0, .sent = 1}, {.position = 1, .slice = 1, .sent = 1}});
    slice(3, {0, kMs}, {{.position = 0, .slice = 2, .sent = 3}});
    scheduler_.add_plan(PlanId(id), std::move(plan));
  }
  static GangPlan sequential(uint64_t id);
  static std::vector<DeviceRef> devices(uint32_t first, uint32_t count) {
    std::vector<DeviceRef> all;
    for (uint32_t d = first; d < first + count; ++d) all.push_back({HostId(0), d});
    return all;
  }
  void run(uint64_t id, uint64_t plan) {
    scheduler_.submit(RunId(id), PlanId(plan));
    scheduler_.prepared(RunId(id));
  }
  // Runs a plan once, with sections as long as the model says.
  void measure(uint64_t plan, uint64_t run_id) {
    run(run_id, plan);
    for (uint32_t granted = 0; granted < 100; ++granted) {
      take();
      if (!finish_next(run_id)) break;
    }
    scheduler_.ended(RunId(run_id), true);
    take();
  }
  // Returns the ranges that are granted next, as "run/slice:first-last@ticket".
  std::string take() {
    granted_.clear();
    scheduler_.pump(0);
    return granted_;
  }
  void send(const std::vector<GrantRange>& ranges) {
    for (const GrantRange& range : ranges) {
      const std::string slice = range.slice == kEverySlice ? "*" : std::to_string(range.slice);
      granted_ += (granted_.empty() ? "" : " ") + std::to_string(range.run.value) + "/" + slice +
                  ":" + std::to_string(range.first) + "-" +
                  std::to_string(range.first + range.count - 1) + "@" +
                  std::to_string(range.ticket.value);
      ends_[range.run] = range.first + range.count;
      slice_ends_[{range.run, range.slice}] = range.first + range.count;
    }
  }
  // Positions before the returned one are granted.
  uint32_t ends_of(uint64_t id, uint32_t slice) { return slice_ends_[{RunId(id), slice}]; }
  bool finish_next(uint64_t id) {
    const uint32_t end = ++ended_[RunId(id)];
    if (end > ends_[RunId(id)]) return false;
    progress(id, 0, end, 500 * kUs);
    return true;
  }
  void progress(uint64_t id, uint32_t slice, uint32_t end, int64_t busy_ns) {
    scheduler_.progress({.run = RunId(id), .slice = slice, .position_end = end, .busy_ns = busy_ns},
                        0);
  }

  std::map<SessionId, int64_t> charged_;
  GangScheduler scheduler_{std::make_unique<Charges>(charged_), [this](auto all) { send(all); }};
  std::string granted_;
  std::map<RunId, uint32_t> ends_, ended_;
  std::map<std::pair<RunId, uint32_t>, uint32_t> slice_ends_;
};

TEST_F(GangSchedulerTest, ARunThatDoesNotGoOnHoldsUpNoOtherProgram) {
  add(1, {5 * kMs, 5 * kMs, 5 * kMs, 5 * kMs});
  add(2, {kMs, kMs});
  measure(1, 100);
  measure(2, 200);
  run(1, 1);
  take();
  run(2, 2);
  while (!take().empty()) {
  }
  run(3, 2);
  EXPECT_EQ(take(), "") << "as much is granted ahead as may be";
  scheduler_.set_aside(RunId(1));
  std::string more;
  for (std::string next = take(); !next.empty(); next = take()) more += next + " ";
  EXPECT_EQ(more.find("1/0:"), std::string::npos) << more;
  EXPECT_NE(more.find("/0:"), std::string::npos) << "the other program gets turns";
}

// The device that did not go on need not be one whose progress is reported.
TEST_F(GangSchedulerTest, ARunThatIsTakenBackGetsTurnsThoughAllOfItsGrantsHadEnded) {
  add(1, {kMs, kMs});
  add(2, {kMs});
  run(1, 1);
  EXPECT_EQ(take(), "1/0:0-0@1") << "a section that was never measured has a turn of its own";
  scheduler_.set_aside(RunId(1));
  progress(1, 0, 1, kMs);
  scheduler_.set_aside(RunId(1));
  EXPECT_EQ(take(), "");
  scheduler_.take_back(RunId(1));
  scheduler_.take_back(RunId(77));
  EXPECT_EQ(take(), "1/0:1-1@2");
}

TEST_F(GangSchedulerTest, AProgramThatIsAloneIsGrantedWholeRunsInOneRange) {
  add_pair(1, 0, 2);
  run(1, 1);
  run(2, 1);
  EXPECT_EQ(take(), "1/*:0-6@1 2/*:0-6@8");
  EXPECT_EQ(charged_[SessionId(1)], 0);
}

// Two slices: call, send, gate, commit; receive, call, gate, commit. Dispatched sequentially.
GangPlan GangSchedulerTest::sequential(uint64_t id) {
  GangPlan plan{.program = SessionId(id), .scope = id, .positions = 7, .is_sequential = true};
  const GangPlan::Stop gate{.position = 2, .is_gate = true, .is_sequential = true, .after = 2};
  const GangPlan::Stop commit{.position = 3, .is_sequential = true, .after = 3};
  plan.slices.push_back({.id = SliceId(10 * id),
                         .devices = devices(0, 2),
                         .modelled_ns = {kMs, 0, 0, kMs},
                         .stops = {gate, commit}});
  plan.slices.push_back(
      {.id = SliceId(10 * id + 1),
       .devices = devices(2, 2),
       .modelled_ns = {0, kMs, 0, kMs},
       .stops = {{.position = 0, .slice = 0, .sent = 1, .is_sequential = true}, gate, commit}});
  return plan;
}

TEST_F(GangSchedulerTest, DispatchedSequentiallyEachNodeWaitsForTheEndOfThoseBeforeIt) {
  scheduler_.add_plan(PlanId(1), sequential(1));
  run(1, 1);
  run(2, 1);
  EXPECT_EQ(take(), "1/0:0-1@1");
  progress(1, 0, 1, kMs);
  EXPECT_EQ(take(), "") << "nothing was sent";
  progress(1, 0, 2, 0);
  EXPECT_EQ(take(), "1/1:0-1@3");
  progress(1, 1, 1, 0);
  EXPECT_EQ(take(), "");
  progress(1, 1, 2, kMs);
  EXPECT_EQ(take(), "1/0:2-2@5 1/1:2-2@5") << "the gate, once for both";
  progress(1, 0, 3, 0);
  EXPECT_EQ(take(), "1/0:3-3@6");
  progress(1, 1, 3, 0);
  EXPECT_EQ(take(), "1/1:3-3@7");
  progress(1, 0, 4, kMs);
  progress(1, 1, 4, kMs);
  EXPECT_EQ(take(), "") << "the run has not ended";
  scheduler_.ended(RunId(1), true);
  EXPECT_EQ(take(), "2/0:0-1@8");
}

TEST_F(GangSchedulerTest, DispatchedSequentiallyARunWaitsForTheEndOfThoseWhoseOutputsItTakes) {
  add_pair(1, 0, 2);
  scheduler_.add_plan(PlanId(2), sequential(2));
  run(1, 1);
  scheduler_.submit(RunId(2), PlanId(2), {RunId(1)});
  scheduler_.prepared(RunId(2));
  EXPECT_EQ(take().find("2/"), std::string::npos);
  scheduler_.ended(RunId(1), true);
  EXPECT_NE(take().find("2/0:0-"), std::string::npos);
}

TEST_F(GangSchedulerTest, ASequentialProgramTakesItsTurnsAmongOtherPrograms) {
  scheduler_.add_plan(PlanId(1), sequential(1));
  add(2, {kMs, kMs});
  measure(2, 100);
  run(1, 1);
  run(2, 2);
  std::string all;
  for (int round = 0; round < 20; ++round) {
    all += take() + " ";
    for (const auto& [gang, end] : slice_ends_) progress(gang.first.value, gang.second, end, kMs);
  }
  EXPECT_NE(all.find("1/1:3-3@"), std::string::npos) << all;
  EXPECT_NE(all.find("2/0:"), std::string::npos) << all;
}

// Each program's second run takes an output of the other's first one, and neither has ended.
TEST_F(GangSchedulerTest, DispatchedSequentiallyProgramsThatTakeOneAnothersOutputsGoOn) {
  scheduler_.add_plan(PlanId(1), sequential(1));
  scheduler_.add_plan(PlanId(2), sequential(2));
  run(1, 1);
  run(2, 2);
  scheduler_.submit(RunId(3), PlanId(1), {RunId(2)});
  scheduler_.submit(RunId(4), PlanId(2), {RunId(1)});
  const auto go_on = [&] {
    for (int round = 0; round < 20; ++round) {
      take();
      for (const auto& [gang, end] : slice_ends_) progress(gang.first.value, gang.second, end, kMs);
    }
  };
  go_on();
  EXPECT_EQ(ends_of(1, 1), 4u);
  EXPECT_EQ(ends_of(2, 1), 4u);
  for (const uint64_t second : {3, 4}) scheduler_.prepared(RunId(second));
  EXPECT_EQ(take(), "");
  slice_ends_.clear();
  for (const uint64_t first : {1, 2}) scheduler_.ended(RunId(first), true);
  go_on();
  EXPECT_EQ(ends_of(3, 1), 4u);
  EXPECT_EQ(ends_of(4, 1), 4u);
}

TEST_F(GangSchedulerTest, WhereOthersMayRunGrantsReachAQuantumAndAreToppedUpAtHalf) {
  add(1, std::vector<int64_t>(20, 500 * kUs));
  add(2, {kMs});
  measure(1, 1);
  run(2, 1);
  const std::string first = take();
  EXPECT_EQ(first.substr(0, 8), "2/0:0-3@");  // 2 ms.
  progress(2, 0, 1, 500 * kUs);
  EXPECT_EQ(take(), "");
  progress(2, 0, 2, 500 * kUs);
  EXPECT_EQ(take(), "") << "half of it is ahead";
  progress(2, 0, 3, 500 * kUs);
  EXPECT_EQ(take().substr(0, 6), "2/0:4-");
}

TEST_F(GangSchedulerTest, ASectionThatWasNeverMeasuredIsGrantedAlone) {
  add(1, std::vector<int64_t>(4, kUs));
  add(2, {kMs});
  run(1, 1);
  EXPECT_EQ(take(), "1/0:0-0@1");
  EXPECT_EQ(take(), "");
  progress(1, 0, 1, 3 * kMs);
  EXPECT_EQ(take(), "1/0:1-1@2");
}

// Otherwise all runs in flight would be granted by an old estimate.
TEST_F(GangSchedulerTest, RunsBehindAnUnmeasuredOneWaitUntilItsEndIsKnown) {
  add(1, {kUs});
  add(2, {kMs});
  run(1, 1);
  run(2, 1);
  EXPECT_EQ(take(), "1/0:0-0@1");
  scheduler_.ended(RunId(1), false);
  EXPECT_EQ(take(), "2/0:0-0@2") << "it ended without a report";
}

TEST_F(GangSchedulerTest, OneTurnIsAheadOfDevicesHoweverLongItIs) {
  add(1, std::vector<int64_t>(4, 50 * kMs));
  add(2, {kMs});
  run(1, 1);
  for (uint32_t p = 1; p <= 4; ++p) {
    take();
    progress(1, 0, p, 50 * kMs);
  }
  scheduler_.ended(RunId(1), true);
  run(2, 1);
  EXPECT_EQ(take(), "2/0:0-1@5");
  progress(2, 0, 1, 50 * kMs);
  EXPECT_EQ(take(), "2/0:2-2@7");
}

TEST_F(GangSchedulerTest, AReceiveHasAHigherTicketThanItsSendAndTheGateOneForAllSlices) {
  add_pair(1, 0, 2);
  add_pair(2, 2, 0);
  run(1, 1);
  EXPECT_EQ(take(), "1/0:0-0@1");
  progress(1, 0, 1, kMs);
  EXPECT_EQ(take(), "1/0:1-1@2 1/1:0-1@3 1/0:2-2@5 1/1:2-2@5 1/0:3-3@6");
  progress(1, 1, 2, kMs);
  EXPECT_EQ(take(), "1/1:3-3@7");
}

// Meanwhile others could go on on d's device.
TEST_F(GangSchedulerTest, WhereOthersCompeteAReceiveWaitsUntilItsSenderWaitsForNoThirdSlice) {
  add_diamond(1);
  add(2, {kMs});
  run(1, 1);  // Every section is measured once.
  for (int turn = 0; turn < 4; ++turn) {
    take();
    for (uint32_t s = 0; s < 2; ++s) progress(1, s, std::min(ends_of(1, s), 2u), kMs);
    for (uint32_t s = 2; s < 4; ++s) {
      if (ends_of(1, s) > 0) progress(1, s, ends_of(1, s), kMs);
    }
  }
  scheduler_.ended(RunId(1), true);
  run(2, 1);
  const std::string all = take();
  EXPECT_NE(all.find("2/2:"), std::string::npos) << "c is granted up to its send: " << all;
  EXPECT_EQ(ends_of(2, 2), 4u);
  EXPECT_EQ(all.find("2/3:"), std::string::npos) << "it waits for a and b: " << all;
  progress(2, 0, 2, kMs);
  EXPECT_EQ(take(), "") << "c still waits for b";
  progress(2, 1, 2, kMs);
  EXPECT_EQ(take().substr(0, 6), "2/3:0-");
}

TEST_F(GangSchedulerTest, ARunAtWhichNoDeviceIsAtWorkNamesTheRunThatItWaitsBehind) {
  add(1, {kMs, kMs});
  add(2, std::vector<int64_t>(9, 50 * kMs));
  measure(2, 100);
  measure(1, 101);
  run(1, 2);
  take();
  EXPECT_FALSE(scheduler_.waits_for_turn(RunId(1))) << "devices are at work on it";
  run(2, 1);
  run(3, 1);
  take();
  ASSERT_TRUE(scheduler_.waits_for_turn(RunId(2)));
  EXPECT_EQ(scheduler_.waits_for_turn(RunId(2))->behind, RunId(1)) << "another program's";
  EXPECT_EQ(scheduler_.waits_for_turn(RunId(3))->behind, RunId(2)) << "the one before it";
  EXPECT_FALSE(scheduler_.waits_for_turn(RunId(3))->may_commit);
  EXPECT_FALSE(scheduler_.waits_for_turn(RunId(77)));
}

TEST_F(GangSchedulerTest, ARunWhoseGateHasItsTicketMayCommitThoughTheRestWaits) {
  add_pair(1, 0, 2);
  add_pair(2, 2, 0);
  run(1, 1);
  take();
  EXPECT_FALSE(scheduler_.waits_for_turn(RunId(1)));
  progress(1, 0, 1, kMs);
  take();  // Up to the gate, and the first commit.
  progress(1, 0, 4, kMs);
  progress(1, 1, 3, kMs);
  ASSERT_TRUE(scheduler_.waits_for_turn(RunId(1))) << "the second commit";
  EXPECT_TRUE(scheduler_.waits_for_turn(RunId(1))->may_commit);
}

// Otherwise two runs that are granted in part could each wait for what the other holds.
TEST_F(GangSchedulerTest, WhereHostsReportNothingATurnIsAWholeRunInAllItsSlices) {
  add_pair(1, 0, 2, false);
  add_pair(2, 2, 0, false);
  run(1, 1);
  run(2, 2);
  EXPECT_EQ(take(), "1/*:0-6@1 2/*:0-6@8");
  EXPECT_EQ(charged_[SessionId(1)], 4 * kMs);
  run(3, 1);
  EXPECT_EQ(take(), "") << "a run of each is ahead";
  scheduler_.ended(RunId(1), true);
  EXPECT_EQ(take(), "3/*:0-6@15");
  run(4, 1);
  scheduler_.ended(RunId(2), true);
  EXPECT_EQ(take(), "4/*:0-6@22");
  run(5, 1);
  EXPECT_EQ(take(), "");
  scheduler_.remove_plan(PlanId(2));
  EXPECT_EQ(take(), "5/*:0-6@29") << "it is alone";
}

TEST_F(GangSchedulerTest, RunsOfAScopeAreGrantedInTheOrderOfTheirSubmissionEachWhole) {
  add(1, {kMs, kMs, kMs});
  add(2, {kMs});
  scheduler_.submit(RunId(1), PlanId(1));
  run(2, 1);
  EXPECT_EQ(take(), "") << "the first is not prepared";
  scheduler_.prepared(RunId(1));
  EXPECT_EQ(take(), "1/0:0-0@1");
  progress(1, 0, 1, kMs);
  EXPECT_EQ(take(), "1/0:1-1@2");
  progress(1, 0, 2, kMs);
  EXPECT_EQ(take(), "1/0:2-2@3");
  progress(1, 0, 3, kMs);
  EXPECT_EQ(take(), "2/0:0-1@4");
}

TEST_F(GangSchedulerTest, ARunThatTakesAnothersOutputsHasHigherTicketsAlsoInAnotherScope) {
  add(1, {kMs, kMs});
  add(2, {kMs});
  run(1, 1);
  EXPECT_EQ(take(), "1/0:0-0@1");
  scheduler_.submit(RunId(2), PlanId(2), {RunId(1)});
  scheduler_.prepared(RunId(2));
  EXPECT_EQ(take(), "") << "the second section of the other one is not granted";
  progress(1, 0, 1, kMs);
  EXPECT_EQ(take(), "1/0:1-1@2 2/0:0-0@3");
}

TEST_F(GangSchedulerTest, ARunThatEndsUnpreparedHoldsNothingUp) {
  add(1, {kMs});
  scheduler_.submit(RunId(1), PlanId(1));
  run(2, 1);
  scheduler_.ended(RunId(1), false);
  EXPECT_EQ(take(), "2/*:0-0@1");
}

TEST_F(GangSchedulerTest, AStateIsReadWithATicketBetweenTheRunsBeforeAndBehindIt) {
  add(1, {kMs, kMs});
  add(2, {kMs});
  run(1, 1);
  const auto read = [this](Ticket ticket) { granted_ += " read@" + std::to_string(ticket.value); };
  scheduler_.in_order(SessionId(1), 1, read);
  run(2, 1);
  EXPECT_EQ(take(), "1/0:0-0@1");
  progress(1, 0, 1, kMs);
  EXPECT_EQ(take(), "1/0:1-1@2 read@3");
  progress(1, 0, 2, kMs);
  EXPECT_EQ(take(), "2/0:0-1@4");
  scheduler_.in_order(SessionId(9), 9, read);
  EXPECT_EQ(take(), " read@6") << "nothing was before it";
}

TEST_F(GangSchedulerTest, ReadsOfAClosedSessionAreDropped) {
  add(1, {kMs});
  scheduler_.submit(RunId(1), PlanId(1));
  scheduler_.in_order(SessionId(1), 1, [](Ticket) { FAIL(); });
  scheduler_.drop_in_order(SessionId(1));
  scheduler_.prepared(RunId(1));
  EXPECT_EQ(take(), "1/*:0-0@1");
}

TEST_F(GangSchedulerTest, AHeldProgramBeginsOnlyPreparedRunsAndTheReadsBeforeThem) {
  add(1, {kMs});
  add(2, {kMs});
  const auto read = [this](Ticket ticket) { granted_ += " read@" + std::to_string(ticket.value); };
  scheduler_.in_order(SessionId(1), 1, read);
  run(1, 1);
  scheduler_.in_order(SessionId(1), 1, read);
  scheduler_.submit(RunId(2), PlanId(1));
  scheduler_.hold(SessionId(1));
  EXPECT_EQ(take(), " read@1 1/0:0-0@2");
  scheduler_.ended(RunId(1), true);
  scheduler_.in_order(SessionId(1), 9, read);
  run(3, 2);
  EXPECT_EQ(take(), "3/0:0-0@3") << "others go on";
  scheduler_.ended(RunId(3), true);
  scheduler_.let_go_on(SessionId(1));
  EXPECT_EQ(take(), " read@4 read@5");
  scheduler_.prepared(RunId(2));
  EXPECT_EQ(take(), "2/0:0-0@6");
}

TEST_F(GangSchedulerTest, NoPlaceOfAHeldProgramIsShownBehindItsLastRun) {
  add(1, {kMs});
  std::string places;
  scheduler_.watch_sequence_points([&](const SequencePoint& point) {
    places += std::to_string(point.behind.value) + " ";
    if (point.behind == RunId()) scheduler_.unwatch(point.session, point.scope);
  });
  run(1, 1);
  scheduler_.hold(SessionId(1));
  scheduler_.watch(SessionId(1), 1);
  EXPECT_EQ(take(), "1/*:0-0@1");
  EXPECT_EQ(places, "1 ");
  scheduler_.ended(RunId(1), true);
  scheduler_.watch(SessionId(1), 1);
  EXPECT_EQ(take(), "");
  EXPECT_EQ(places, "1 ");
  scheduler_.let_go_on(SessionId(1));
  EXPECT_EQ(take(), "");
  EXPECT_EQ(places, "1 0 ");
}

TEST_F(GangSchedulerTest, ATurnIsChargedAsItIsExpectedAndThenAsItWasMeasuredOnce) {
  add(1, {kMs, kMs});
  add(2, {kMs});
  run(1, 1);
  take();
  EXPECT_EQ(charged_[SessionId(1)], kMs);
  progress(1, 0, 1, 3 * kMs);
  EXPECT_EQ(charged_[SessionId(1)], 3 * kMs);
  progress(1, 0, 1, 3 * kMs);
  EXPECT_EQ(charged_[SessionId(1)], 3 * kMs) << "told twice";
  take();
  progress(1, 0, 2, 2 * kMs);
  scheduler_.ended(RunId(1), true);
  progress(1, 0, 2, 2 * kMs);
  EXPECT_EQ(charged_[SessionId(1)], 5 * kMs) << "told after its end";
}

TEST_F(GangSchedulerTest, AFailedRunIsChargedOnlyForTheTimeThatItsDevicesReported) {
  add(1, {kMs, kMs});
  add(2, {kMs});
  run(1, 1);
  take();
  progress(1, 0, 1, 3 * kMs);
  take();
  EXPECT_EQ(charged_[SessionId(1)], 4 * kMs);
  scheduler_.ended(RunId(1), false);
  EXPECT_EQ(charged_[SessionId(1)], 3 * kMs);
}

TEST_F(GangSchedulerTest, ARunThatEndsMakesRoomForOthers) {
  add(1, std::vector<int64_t>(10, kMs));
  add(2, std::vector<int64_t>(10, kMs));
  run(1, 1);
  run(2, 2);
  EXPECT_EQ(take(), "1/0:0-0@1 2/0:0-0@2");
  scheduler_.ended(RunId(1), false);
  run(3, 1);
  EXPECT_EQ(take(), "3/0:0-0@3");
}

TEST_F(GangSchedulerTest, ProgressBeyondTheGrantsIsRefused) {
  add(1, {kMs, kMs});
  add(2, {kMs});
  run(1, 1);
  take();
  EXPECT_THROW(progress(1, 0, 2, kMs), Error);
  EXPECT_THROW(progress(1, 7, 1, kMs), Error);
  EXPECT_THROW(progress(1, 0, 1, -1), Error);
  progress(77, 0, 1, kMs);  // Ended long ago, as far as anybody knows.
}

TEST_F(GangSchedulerTest, ASliceThatComesAndGoesLeavesWhatIsGrantedWhereItWas) {
  add(1, std::vector<int64_t>(6, kMs));
  add(2, {kMs});
  run(1, 1);
  EXPECT_EQ(take(), "1/0:0-0@1");
  scheduler_.remove_plan(PlanId(2));
  EXPECT_EQ(take(), "1/0:1-5@2") << "it is alone";
  add(3, {kMs});
  run(2, 1);
  run(3, 3);
  EXPECT_EQ(take(), "") << "more than a quantum is ahead";
  progress(1, 0, 6, 6 * kMs);
  EXPECT_EQ(take(), "3/0:0-0@7 2/0:0-0@8");
}

TEST_F(GangSchedulerTest, AGrantThatCostsMoreReachesFurther) {
  EXPECT_EQ(scheduler_.quantum_ns(), 2 * kMs);
  for (int i = 0; i < 200; ++i) scheduler_.grant_took(300 * kUs, 200 * kUs);
  EXPECT_NEAR(static_cast<double>(scheduler_.quantum_ns()), 10e6, 1e4);
  // A pause of the controller's process while it sends counts in part; writes to hosts count in
  // full.
  for (int i = 0; i < 200; ++i) scheduler_.grant_took(10 * kMs, 700 * kUs);
  EXPECT_NEAR(static_cast<double>(scheduler_.quantum_ns()), 24e6, 1e4);
}

TEST_F(GangSchedulerTest, TheDeviceTimeThatAProgramUsedIsMeasuredOverTheLastSecond) {
  add(1, {kMs});
  run(1, 1);
  take();
  progress(1, 0, 1, 250 * kMs);
  EXPECT_NEAR(scheduler_.used(500 * kMs).at(SessionId(1)), 0.25, 1e-9);
  EXPECT_EQ(scheduler_.used(1500 * kMs).at(SessionId(1)), 0);
  EXPECT_FALSE(scheduler_.used(0).contains(SessionId(2)));
}

TEST_F(GangSchedulerTest, NoProgramUsedMoreThanAllOfItsDevicesHoweverLateItsReportsAre) {
  add(1, {kMs, kMs, kMs, kMs});
  run(1, 1);
  take();
  const auto report = [&](uint32_t end, int64_t busy_ns, int64_t now_ns) {
    scheduler_.progress({.run = RunId(1), .slice = 0, .position_end = end, .busy_ns = busy_ns},
                        now_ns);
  };
  report(1, 3000 * kMs, 3000 * kMs);  // One section of three seconds.
  EXPECT_NEAR(scheduler_.used(3000 * kMs).at(SessionId(1)), 1, 1e-9);
  EXPECT_NEAR(scheduler_.used(3500 * kMs).at(SessionId(1)), 0.5, 1e-9);
  report(2, 600 * kMs, 5200 * kMs);  // Two reports together: the first one was late.
  report(3, 600 * kMs, 5200 * kMs);
  EXPECT_NEAR(scheduler_.used(5200 * kMs).at(SessionId(1)), 1, 1e-9);
  EXPECT_NEAR(scheduler_.used(5700 * kMs).at(SessionId(1)), 0.5, 1e-9);
}

}  // namespace
}  // namespace gangway
