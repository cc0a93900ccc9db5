#include "runtime/observe/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/fibers/reactor.h"
#include "runtime/os/thread.h"
#include "tests/support/golden/trace_hash.h"

namespace gangway {
namespace {

using testing::HasSubstr;

// A simulated run whose order and times depend on its seed.
Hash128 hash_of_run(uint64_t seed) {
  auto reactor = Reactor::make_simulated({.seed = seed});
  Tracer tracer(reactor->clock(), "simulation");
  TraceAttachment attached = tracer.attach("reactor");
  std::vector<Fiber> fibers;
  for (uint64_t i = 0; i < 50; ++i) {
    fibers.push_back(reactor->spawn("worker", [&reactor, i] {
      for (uint64_t step = 0; step < 10; ++step) {
        reactor->clock().sleep_for(Duration(static_cast<int64_t>(reactor->rng().below(1000))));
        TraceSpan("step", i, step);
      }
    }));
  }
  for (Fiber& fiber : fibers) fiber.join();
  return trace_hash(tracer.drain());
}

TEST(Trace, TheTraceOfASimulatedRunRepeatsWithItsSeed) {
  EXPECT_EQ(hash_of_run(7), hash_of_run(7));
  EXPECT_NE(hash_of_run(7), hash_of_run(8));
}

TEST(Trace, SpansCarryVirtualTimeAndArgumentsIntoChromeJson) {
  auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "host \"3\"");
  TraceAttachment attached = tracer.attach("reactor");
  reactor->run([&] {
    TraceSpan span("dispatch", 5, 6);
    reactor->clock().sleep_for(Duration(1500));
  });
  TraceSpan("done");
  const std::string json = to_chrome_json({tracer.drain()});
  EXPECT_THAT(json, HasSubstr(R"("args":{"name":"host \"3\""}})"));
  EXPECT_THAT(json, HasSubstr(R"("name":"dispatch","ph":"X","ts":0.000,"dur":1.500)"));
  EXPECT_THAT(json, HasSubstr(R"("args":{"run":5,"node":6}})"));
  EXPECT_THAT(json, HasSubstr(R"("name":"done","ph":"i")"));
  EXPECT_TRUE(tracer.drain().threads[0].events.empty());
}

TEST(Trace, KeepsMarksStepsAndCounters) {
  auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "p");
  internal::TraceBuffer& row = tracer.add_row("device");
  constexpr uint64_t kLargest = (uint64_t{1} << 56) - 1;
  row.record(
      {.name = "all_reduce", .run = 1, .node = 2, .step = kLargest, .mark = TraceMark::kMeeting});
  row.count("runs queued", -3);
  const std::vector<TraceEvent> events = tracer.drain().threads[0].events;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].step, kLargest);
  EXPECT_EQ(events[0].mark, TraceMark::kMeeting);
  EXPECT_EQ(events[1].mark, TraceMark::kCounter);
  EXPECT_EQ(static_cast<int64_t>(events[1].run), -3);
  EXPECT_LT(trace_number("host-0"), kLargest);
  EXPECT_NE(trace_number("host-0"), trace_number("host-1"));
}

TEST(Trace, KeepsTheNewestEventsAndCountsTheLostOnes) {
  auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "p", 8);
  TraceAttachment attached = tracer.attach("reactor");
  for (uint64_t i = 0; i < 20; ++i) TraceSpan("e", i);
  const TraceThread thread = tracer.drain().threads[0];
  EXPECT_EQ(thread.lost, 12u);
  ASSERT_EQ(thread.events.size(), 8u);
  EXPECT_EQ(thread.events.front().run, 12u);
}

TEST(Trace, TheNewestEventsAreGivenWithoutBeingTaken) {
  auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "p", 8);
  internal::TraceBuffer& row = tracer.add_row("device");
  for (uint64_t i = 0; i < 5; ++i) row.record({.name = "e", .run = i});
  for (int again = 0; again < 2; ++again) {
    const TraceThread thread = tracer.newest(3).threads[0];
    EXPECT_EQ(thread.lost, 2u);
    ASSERT_EQ(thread.events.size(), 3u);
    EXPECT_EQ(thread.events.front().run, 2u);
  }
  EXPECT_EQ(tracer.newest(100).threads[0].events.size(), 5u);
  EXPECT_EQ(tracer.drain().threads[0].events.size(), 5u);
  EXPECT_EQ(tracer.newest(100).threads[0].events.size(), 5u);
  for (uint64_t i = 5; i < 20; ++i) row.record({.name = "e", .run = i});
  const TraceThread thread = tracer.newest(100).threads[0];
  EXPECT_EQ(thread.lost, 12u);
  ASSERT_EQ(thread.events.size(), 8u);
  EXPECT_EQ(thread.events.back().run, 19u);
}

TEST(Trace, TheBeginOfARunSaysOfWhichPlanItIs) {
  auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "p");
  tracer.add_row("device").record(
      {.name = "begin", .run = 7, .node = 3, .mark = TraceMark::kRunBegins});
  const std::string json = to_chrome_json({tracer.drain()});
  EXPECT_NE(json.find(R"("args":{"run":7,"plan":3})"), json.npos) << json;
  EXPECT_EQ(json.find("bind_id"), json.npos) << json;
}

TEST(Trace, WithoutAnAttachedThreadNothingIsRecorded) {
  auto reactor = Reactor::make_simulated();
  Tracer tracer(reactor->clock(), "p");
  TraceSpan("before");
  {
    TraceAttachment attached = tracer.attach("reactor");
  }
  TraceSpan("after");
  EXPECT_TRUE(tracer.drain().threads[0].events.empty());
}

TEST(Trace, DrainingWhileThreadsRecordYieldsWholeEventsOnly) {
  constexpr uint64_t kEvents = 200'000;
  auto reactor = Reactor::make_real();
  Tracer tracer(reactor->clock(), "p", 256);
  internal::TraceBuffer& row = tracer.add_row("writer");
  std::atomic<bool> done{false};
  Thread writer("writer", [&] {
    for (uint64_t i = 1; i <= kEvents; ++i)
      row.record({"e", static_cast<int64_t>(i), static_cast<int64_t>(2 * i), 3 * i, 4 * i});
    done = true;
  });
  uint64_t seen = 0, lost = 0, torn = 0;
  for (bool last = false; !last;) {
    last = done;
    for (const TraceThread& thread : tracer.drain().threads) {
      lost += thread.lost;
      for (const TraceEvent& e : thread.events) {
        ++seen;
        const auto i = static_cast<uint64_t>(e.begin_ns);
        torn += e.end_ns != 2 * e.begin_ns || e.run != 3 * i || e.node != 4 * i;
      }
    }
  }
  EXPECT_EQ(torn, 0u);
  EXPECT_EQ(seen + lost, kEvents);
}

}  // namespace
}  // namespace gangway
