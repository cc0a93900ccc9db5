#include "controller/slices/slice_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_controller.h"

namespace gangway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SliceShape alone(uint32_t devices, int64_t wait_ms) {
  SliceShape shape(devices);
  shape.exclusive = true;
  shape.wait_ms = wait_ms;
  return shape;
}

// Counts the calls of place().
class CountingPlacement final : public PlacementPolicy {
 public:
  explicit CountingPlacement(std::shared_ptr<int> count) : count_(std::move(count)) {}
  std::vector<DeviceRef> place(const std::vector<OfferedHost>& hosts,
                               const PlacementRequest& request) const override {
    ++*count_;
    return best_fit_->place(hosts, request);
  }

 private:
  const std::shared_ptr<int> count_;
  const std::unique_ptr<const PlacementPolicy> best_fit_ = best_fit_placement();
};

// Clients that wait write down what they got, or why they got nothing.
class SliceQueueTest : public ::testing::Test {
 protected:
  ~SliceQueueTest() override {
    for (Fiber& fiber : fibers_) fiber.cancel();
    reactor_->run_ready();
  }

  HostId host(uint32_t devices, int64_t memory_bytes = 1000) {
    const HostId id = hosts_
                          .add({.name = "host-" + std::to_string(hosts_.all().size()),
                                .devices = devices,
                                .memory_bytes = memory_bytes},
                               peer_, 0)
                          .id;
    reactor_->run_ready();
    return id;
  }
  SliceId take(uint64_t session, const SliceShape& shape) {
    const SliceId id = slices_.add(SessionId(session), shape, slices_.find_place(shape)).id;
    return id;
  }
  void give_back(SliceId slice) {
    slices_.release(slice);
    reactor_->run_ready();
  }
  void wait(uint64_t session, const SliceShape& shape, const StopToken& stop = {}) {
    fibers_.push_back(reactor_->spawn("wait", [=, this] {
      try {
        const SliceRecord& slice = queue_.allocate(SessionId(session), shape, stop);
        got_[session] = slice.id;
        reported_.push_back(cat(session, ": ", slice.devices.size()));
      } catch (const Error& error) {
        why_ = error;
        reported_.push_back(cat(session, ": ", to_string(error.kind())));
      }
    }));
    reactor_->run_ready();
  }
  Error refused(uint64_t session, const SliceShape& shape) {
    try {
      queue_.allocate(SessionId(session), shape);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "allocated";
    return Error(ErrorKind::kBug, "");
  }
  void pass(int64_t ms) {
    reactor_->run([&] {
      WaitQueue().wait_until_ns("for time to pass", reactor_->clock().now_ns() + ms * 1'000'000);
    });
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  FakeExecutor peer_;
  HostTable hosts_;
  std::shared_ptr<int> placements_ = std::make_shared<int>(0);
  SliceTable slices_{hosts_, {}, std::make_unique<CountingPlacement>(placements_)};
  SliceQueue queue_{reactor_->clock(), hosts_, slices_};
  std::vector<std::string> reported_;
  std::map<uint64_t, SliceId> got_;
  std::optional<Error> why_;
  std::vector<Fiber> fibers_;
};

TEST_F(SliceQueueTest, ARequestThatMayNotWaitIsRefusedNamingWhoHoldsDevices) {
  host(4);
  take(1, alone(3, 0));
  const Error error = refused(2, alone(2, 0));
  EXPECT_EQ(error.kind(), ErrorKind::kOverloaded);
  EXPECT_THAT(error.message(), HasSubstr("expected at most 1, got 2, each to itself; "
                                         "client 1 holds 3 devices"));
  EXPECT_THAT(error.hint(), HasSubstr("wait_ms"));
  EXPECT_EQ(refused(2, alone(5, 0)).kind(), ErrorKind::kInvalid) << "nobody could ever have it";
}

TEST_F(SliceQueueTest, DevicesAreLackingWhereOthersHoldThemOrHostsHaveTooFew) {
  host(4);
  EXPECT_FALSE(queue_.lacks_devices(SessionId(1), alone(4, 0)));
  EXPECT_TRUE(queue_.lacks_devices(SessionId(1), alone(5, 0)));
  take(2, alone(2, 0));
  EXPECT_FALSE(queue_.lacks_devices(SessionId(1), alone(2, 0)));
  EXPECT_TRUE(queue_.lacks_devices(SessionId(1), alone(4, 0)));
}

TEST_F(SliceQueueTest, AWaitingClientGetsDevicesThatAreReleased) {
  host(2);
  const SliceId first = take(1, alone(2, 0));
  wait(2, alone(2, 60'000));
  EXPECT_EQ(queue_.waits_for(SessionId(2)), "2 devices, for 0 ns: client 1 holds 2 devices");
  give_back(first);
  EXPECT_THAT(reported_, ElementsAre("2: 2"));
  EXPECT_EQ(queue_.waits_for(SessionId(2)), "");
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(SliceQueueTest, AWaitThatTimesOutReportsItsLengthAndWhoHoldsDevices) {
  host(2);
  take(1, alone(2, 0));
  wait(2, alone(1, 5000));
  pass(4999);
  EXPECT_THAT(reported_, IsEmpty());
  pass(2);
  EXPECT_THAT(reported_, ElementsAre("2: overloaded"));
  EXPECT_THAT(why_->message(), HasSubstr("client 1 holds 2 devices; it waited for 5.00 s"));
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(SliceQueueTest, ALargeSliceIsNotOvertakenForEverBySmallOnes) {
  host(2);
  host(2);
  SliceId small = take(1, alone(1, 0));
  SliceId other = take(1, alone(1, 0));
  wait(2, alone(4, 60'000));
  // All devices are kept for client 2: a client that does not wait is refused with that reason.
  EXPECT_THAT(refused(3, alone(1, 0)).message(), HasSubstr("4 are kept for client 2"));
  wait(4, alone(1, 60'000));
  give_back(small);
  EXPECT_THAT(reported_, IsEmpty()) << "what was given back is not the later one's";
  give_back(other);
  EXPECT_THAT(reported_, ElementsAre("2: 4"));
  give_back(got_[2]);
  EXPECT_THAT(reported_, ElementsAre("2: 4", "4: 1"));
}

TEST_F(SliceQueueTest, DevicesNotKeptForTheFirstWaitingClientGoToOthers) {
  host(2);
  host(2);
  const SliceId held = take(1, alone(2, 0));
  const SliceId one = take(1, alone(1, 0));
  SliceShape pair = alone(2, 60'000);
  pair.per_host_max = 1;
  wait(2, pair);  // A free device of the second host and one of the first are kept.
  EXPECT_THAT(reported_, IsEmpty());
  give_back(one);
  wait(3, alone(1, 60'000));
  EXPECT_THAT(reported_, ElementsAre("3: 1"));
  give_back(held);
  EXPECT_THAT(reported_, ElementsAre("3: 1", "2: 2"));
}

TEST_F(SliceQueueTest, ARequestLargerThanTheClusterWaitsAndNoDevicesAreKeptForIt) {
  host(2);
  wait(1, alone(3, 60'000));
  wait(2, alone(1, 60'000));
  EXPECT_THAT(reported_, ElementsAre("2: 1"));
  host(2);
  EXPECT_THAT(reported_, ElementsAre("2: 1", "1: 3"));
}

TEST_F(SliceQueueTest, ASliceThatLeavesAHostDoesNotTakeDevicesKeptForTheFirstClient) {
  host(1);
  host(1);
  const SliceId slice = take(1, SliceShape(1));
  const HostId there = slices_.find(slice)->devices.at(0).host;
  wait(2, alone(2, 60'000));
  EXPECT_THAT(reported_, IsEmpty());
  EXPECT_EQ(queue_.leave_hosts(slice, {there}), SliceTable::Elsewhere::kIsHeld);
  reactor_->run_ready();
  EXPECT_THAT(reported_, ElementsAre("2: 2"));
}

TEST_F(SliceQueueTest, ARequestWaitsForMemoryThatIsReleased) {
  const HostId a = host(1);
  const std::vector<Reservation> most{{{a, 0, 1}, 900}};
  ASSERT_FALSE(hosts_.reserve("client 1", most));
  SliceShape shape(1);
  shape.memory_bytes = 200;
  EXPECT_THAT(refused(2, shape).message(), HasSubstr("on host-0/device 0 client 1 holds 900 B"));
  shape.wait_ms = 60'000;
  wait(2, shape);
  EXPECT_THAT(reported_, IsEmpty());
  hosts_.release("client 1", most);
  reactor_->run_ready();
  EXPECT_THAT(reported_, ElementsAre("2: 1"));
  shape.memory_bytes = 1001;
  shape.wait_ms = 0;
  EXPECT_THAT(refused(2, shape).message(),
              HasSubstr("expected at most 0, got 1, each with 1001 B; host-0 has 1 of 1000 B"));
}

TEST_F(SliceQueueTest, RunsThatReleaseTooLittleMemoryCauseNoPlacementAttempts) {
  const HostId a = host(4);
  const std::vector<Reservation> state{{{a, 0, 4}, 850}}, of_a_run{{{a, 0, 4}, 50}};
  ASSERT_FALSE(hosts_.reserve("client 1", state));
  SliceShape shape(4);
  shape.memory_bytes = 200;
  shape.wait_ms = 60'000;
  for (uint64_t session = 2; session < 12; ++session) wait(session, shape);
  const int before = *placements_;
  for (int run = 0; run < 1000; ++run) {
    ASSERT_FALSE(hosts_.reserve("client 1", of_a_run));
    hosts_.release("client 1", of_a_run);
    reactor_->run_ready();
  }
  EXPECT_EQ(*placements_, before);
  hosts_.release("client 1", state);
  reactor_->run_ready();
  EXPECT_EQ(reported_.size(), 10u);
}

// Each run leaves room on one device, and the waiting clients want two.
TEST_F(SliceQueueTest, MemoryThatComesAndGoesCausesABoundedNumberOfPlacementAttempts) {
  const HostId a = host(2);
  const std::vector<Reservation> state{{{a, 1, 1}, 900}}, of_a_run{{{a, 0, 1}, 900}};
  ASSERT_FALSE(hosts_.reserve("client 1", state));
  SliceShape shape(2);
  shape.memory_bytes = 200;
  shape.wait_ms = 60'000;
  for (uint64_t session = 2; session < 12; ++session) wait(session, shape);
  const int before = *placements_;
  for (int run = 0; run < 100; ++run) {
    ASSERT_FALSE(hosts_.reserve("client 1", of_a_run));
    pass(1);
    hosts_.release("client 1", of_a_run);
    pass(1);
  }
  const int looks = 2 * 100 / static_cast<int>(SliceQueue::kMemoryPauseNs / 1'000'000);
  EXPECT_LE(*placements_ - before, (looks + 1) * 11) << "ten that wait, and what is kept for one";
  hosts_.release("client 1", state);
  pass(20);
  EXPECT_EQ(reported_.size(), 10u);
}

TEST_F(SliceQueueTest, FreedMemoryGoesToWaitingClientsBeforeNewRequests) {
  const HostId a = host(1);
  const std::vector<Reservation> most{{{a, 0, 1}, 900}};
  ASSERT_FALSE(hosts_.reserve("client 1", most));
  SliceShape shape = alone(1, 60'000);
  shape.memory_bytes = 200;
  wait(2, shape);
  hosts_.release("client 1", most);
  shape.wait_ms = 0;
  EXPECT_EQ(refused(3, shape).kind(), ErrorKind::kOverloaded);
  reactor_->run_ready();
  EXPECT_THAT(reported_, ElementsAre("2: 1"));
}

TEST_F(SliceQueueTest, AClientThatGoesAwayIsForgotten) {
  host(2);
  const SliceId held = take(1, alone(2, 0));
  StopSource stop;
  wait(2, alone(2, 60'000), stop.token());
  wait(3, alone(2, 60'000));
  wait(4, alone(1, 60'000));
  stop.request_stop(Error(ErrorKind::kCancelled, "its client waits no longer"));
  queue_.session_closed(SessionId(3));
  reactor_->run_ready();
  EXPECT_THAT(reported_, ElementsAre("2: cancelled", "3: unavailable"));
  EXPECT_EQ(queue_.size(), 1u);
  give_back(held);
  EXPECT_THAT(reported_.back(), "4: 1");
  wait(5, alone(2, 60'000));
  fibers_.back().cancel();
  reactor_->run_ready();
  give_back(got_[4]);
  EXPECT_EQ(slices_.size(), 0u);
  EXPECT_EQ(queue_.size(), 0u);
}

TEST_F(SliceQueueTest, AClientWaitsForABoundedNumberOfSlices) {
  host(1);
  take(1, alone(1, 0));
  for (size_t i = 0; i < SliceQueue::kWaitsMax; ++i) wait(2, alone(1, 60'000));
  wait(2, alone(1, 60'000));
  EXPECT_THAT(reported_, ElementsAre("2: overloaded"));
  EXPECT_THAT(why_->message(), HasSubstr("waits for 16 slices: expected at most 16"));
}

TEST_F(SliceQueueTest, ImpossibleSliceShapesAreRefused) {
  host(4);
  SliceShape shape(4);
  shape.axes = {2, 3};
  EXPECT_THAT(refused(1, shape).message(), HasSubstr("expected axes of 4 devices in all, got 6"));
  shape.axes = {1u << 31, 1u << 31, 1u << 31};
  EXPECT_THAT(refused(1, shape).message(), HasSubstr("got more than 1048576"));
  shape.axes = {};
  shape.wait_ms = -1;
  EXPECT_THAT(refused(1, shape).message(), HasSubstr("wait_ms: expected 0 to"));
  shape.wait_ms = 0;
  shape.memory_bytes = -1;
  EXPECT_THAT(refused(1, shape).message(), HasSubstr("memory_bytes: expected 0 or more"));
}

TEST_F(SliceQueueTest, AWaitingClientGetsNoDevicesOfADrainingHostUntilItIsUndrained) {
  host(2);
  const SliceId held = take(1, alone(2, 0));
  wait(2, alone(2, 60'000));
  hosts_.set_draining("host-0", true);
  give_back(held);
  EXPECT_THAT(reported_, IsEmpty());
  EXPECT_THAT(queue_.waits_for(SessionId(2)),
              HasSubstr("the cluster has 0, each to itself; draining hosts: host-0"));
  hosts_.set_draining("host-0", false);
  reactor_->run_ready();
  EXPECT_THAT(reported_, ElementsAre("2: 2"));
}

TEST_F(SliceQueueTest, DevicesKeptForTheFirstClientAreKeptElsewhereWhenTheirHostDrains) {
  host(2);
  host(2);
  const SliceId first = take(1, alone(1, 0)), second = take(1, alone(2, 0));
  wait(2, alone(2, 60'000));  // The first host is kept for client 2.
  EXPECT_THAT(refused(3, alone(1, 0)).message(), HasSubstr("2 are kept for client 2"));
  hosts_.set_draining("host-0", true);
  reactor_->run_ready();
  give_back(first);
  EXPECT_THAT(reported_, IsEmpty());
  give_back(second);
  EXPECT_THAT(reported_, ElementsAre("2: 2"));
}

TEST_F(SliceQueueTest, TheReasonOfAWaitNamesMissingDevicesTheirHoldersOrThoseKeptForOthers) {
  host(2);
  wait(1, alone(4, 60'000));
  EXPECT_THAT(queue_.waits_for(SessionId(1)), HasSubstr("4 devices, for 0 ns: the cluster has 2"));
  host(2);
  EXPECT_THAT(reported_, ElementsAre("1: 4"));
  wait(2, alone(4, 60'000));
  wait(3, alone(1, 60'000));
  EXPECT_THAT(queue_.waits_for(SessionId(3)), HasSubstr("client 1 holds 4 devices"));
  host(1);
  EXPECT_THAT(queue_.waits_for(SessionId(3)), HasSubstr("4 are kept for client 2"));
  fibers_[1].cancel();
  reactor_->run_ready();
  EXPECT_THAT(reported_, ElementsAre("1: 4", "2: cancelled", "3: 1"));
}

}  // namespace
}  // namespace gangway
