// Users' calls to a program while it is brought back: here it waits for devices until a test gives
// it some. No bit of its states and losses changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/recovery/trainer.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using sim::alone;
using sim::Trainer;
using sim::with_trainer;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBehind = 9;  // Steps before the host dies; a checkpoint holds 6 of them.

// Loses a host with steps under way; others come while the program waits.
void lose_a_host(Trainer& trainer) {
  trainer.train(kBehind);
  trainer.enqueue();
  trainer.cluster.kill(1);
  trainer.wait_told("the program waits for 4 devices");
  for (int i = 0; i < 3; ++i) trainer.enqueue();
}

void expect_it_goes_on(Trainer& trainer) {
  trainer.train(Trainer::kSteps);
  EXPECT_EQ(trainer.losses, alone());
  EXPECT_TRUE(trainer.was_told("the program goes on on host-0, host-1"));
}

TEST(RecoveryMeanwhileTest, ARunThatIsCancelledEndsAtOnceAndTakesThoseBehindIt) {
  for (size_t cancelled = 0; cancelled < 6; ++cancelled) {
    with_trainer(2, [&](Trainer& trainer) {
      lose_a_host(trainer);
      ASSERT_GE(trainer.open.size(), 4u);
      if (cancelled >= trainer.open.size()) return;
      trainer.open[cancelled].cancel();
      const Error error = error_of([&] { trainer.open[cancelled].wait(); });
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << cancelled;
      for (size_t i = cancelled + 1; i < trainer.open.size(); ++i) {
        const Error behind = error_of([&] { trainer.open[i].wait(); });
        EXPECT_EQ(behind.kind(), ErrorKind::kCancelled) << cancelled << " " << i;
        EXPECT_THAT(behind.what(), HasSubstr("nothing was committed"));
      }
      trainer.open.resize(cancelled, trainer.open.front());
      trainer.enqueued = kBehind + static_cast<int>(cancelled);
      EXPECT_FALSE(trainer.was_told("the program goes on on"));
      trainer.cluster.start_again(1);
      expect_it_goes_on(trainer);
    });
  }
}

TEST(RecoveryMeanwhileTest, MessagesThatWaitForARecoveryAreBounded) {
  with_trainer(2, [&](Trainer& trainer) {
    lose_a_host(trainer);
    Controller& core = trainer.cluster.controller.controller();
    const SessionId session = core.program_counts().at(0).id;
    const std::vector<ArrayId> names(Recovery::kDeferredMax / 2, ArrayId(1));
    core.on_message(session, FreeFrame{names});
    const Error error = error_of([&] { core.on_message(session, FreeFrame{names}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("too much while its program is brought back: expected at "
                                        "most 1048576"));
    trainer.cluster.start_again(1);
    expect_it_goes_on(trainer);
  });
}

TEST(RecoveryMeanwhileTest, ReadsOfArraysAndStatesWaitForTheRecovery) {
  std::vector<float> rows[2];
  double steps[2] = {0, 0};
  for (const bool dies : {false, true}) {
    with_trainer(2, [&](Trainer& trainer) {
      trainer.train(kBehind - 1);
      const gangway::Run told =
          trainer.open.front();  // The next step; its result comes before the loss.
      trainer.look();
      if (dies) {
        trainer.cluster.kill(1);
        trainer.wait_told("the program waits for 4 devices");
      }
      trainer.enqueue();
      const gangway::Run later = trainer.open.back();
      int done = 0;
      Fiber read = trainer.reactor.spawn("read", [&] {
        for (const gangway::Run& run : {told, later}) {
          const HostTensor row = run["row"].to_host();
          rows[dies].insert(rows[dies].end(), row.as<float>().begin(), row.as<float>().end());
          ++done;
        }
      });
      Fiber state = trainer.reactor.spawn("read state", [&] {
        steps[dies] = sim::as_double(trainer.slice->read_state("steps"));
        ++done;
      });
      pass(trainer.reactor, 1000 * kMillisecond);
      if (dies) {
        EXPECT_EQ(done, 0);
        trainer.cluster.start_again(1);
      }
      read.join();
      state.join();
      trainer.train(Trainer::kSteps);
      EXPECT_EQ(trainer.losses, alone());
    });
  }
  EXPECT_EQ(rows[1].size(), 2u * 8 * 4);
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_EQ(steps[0], steps[1]);
}

TEST(RecoveryMeanwhileTest, AnArrayThatIsOlderThanTheCheckpointIsLostAndSaysSo) {
  with_trainer(2, [&](Trainer& trainer) {
    trainer.train(2);
    const gangway::Run old = trainer.open.front();
    lose_a_host(trainer);
    trainer.cluster.start_again(1);
    expect_it_goes_on(trainer);
    EXPECT_EQ(error_of([&] { old["row"].to_host(); }).kind(), ErrorKind::kUnavailable);
  });
}

TEST(RecoveryMeanwhileTest, TwoProgramsThatWaitForTheSameDevicesLetTimeGoOn) {
  with_trainer(2, [&](Trainer& trainer) {
    std::vector<std::string> told;
    const Client other = trainer.cluster.connect(
        "other", {.on_warning = [&told](const std::string& line) { told.push_back(line); }});
    {
      const Slice slice = other.allocate({.devices = 4});
      const Executable step = slice.compile(sim::trained_program());
      slice.keep_checkpoints({.every = Trainer::kEvery});
      step.run({{"x", sim::number(1)}}).wait();
      lose_a_host(trainer);
      pass(trainer.reactor, 5 * kSecond);
      EXPECT_THAT(told, Contains(HasSubstr("the program waits for 4 devices")));
      trainer.cluster.start_again(1);
      expect_it_goes_on(trainer);
      step.run({{"x", sim::number(1)}}).wait();
      EXPECT_THAT(told, Contains(HasSubstr("the program goes on on host-0, host-1")));
    }
    other.close();
  });
}

TEST(RecoveryMeanwhileTest, ASuspensionWaitsForTheRecovery) {
  with_trainer(2, [&](Trainer& trainer) {
    const Client other = trainer.cluster.connect("other");
    lose_a_host(trainer);
    bool is_suspended = false;
    Fiber suspend = trainer.reactor.spawn("suspend", [&] {
      other.suspend_program("trainer");
      is_suspended = true;
    });
    pass(trainer.reactor, 1000 * kMillisecond);
    EXPECT_FALSE(is_suspended);
    trainer.cluster.start_again(1);
    suspend.join();
    EXPECT_TRUE(trainer.was_told("the program goes on on"));
    other.resume_program("trainer");
    expect_it_goes_on(trainer);
    other.close();
  });
}

TEST(RecoveryMeanwhileTest, ASuspendedProgramIsRecoveredOnceItIsResumed) {
  with_trainer(3, [&](Trainer& trainer) {
    const Client other = trainer.cluster.connect("other");
    trainer.train(kBehind);
    other.suspend_program("trainer");
    trainer.cluster.kill(1);
    for (int i = 0; i < 3; ++i) trainer.enqueue();
    pass(trainer.reactor, 1000 * kMillisecond);
    EXPECT_FALSE(trainer.was_told("the program goes on on"));
    other.resume_program("trainer");
    trainer.train(Trainer::kSteps);
    EXPECT_EQ(trainer.losses, alone());
    EXPECT_TRUE(trainer.was_told("the program goes on on host-0, host-2"));
    other.close();
  });
}

TEST(RecoveryMeanwhileTest, ADetachedProgramGoesOnWithItsRuns) {
  with_trainer(2, [&](Trainer& trainer) {
    lose_a_host(trainer);
    const int enqueued = trainer.enqueued;
    trainer.client->detach();
    trainer.close();
    pass(trainer.reactor, 1000 * kMillisecond);
    trainer.cluster.start_again(1);
    trainer.client = trainer.cluster.attach("second", {.name = "trainer"});
    ASSERT_EQ(trainer.client->slices().size(), 1u);
    trainer.slice = trainer.client->slices()[0];
    trainer.step = trainer.client->executable("training");
    EXPECT_EQ(sim::as_double(trainer.slice->read_state("steps")), enqueued);
    trainer.losses.assign(alone().begin(), alone().begin() + enqueued);
    trainer.enqueued = enqueued;
    trainer.train(Trainer::kSteps);
    EXPECT_EQ(trainer.losses, alone());
  });
}

TEST(RecoveryMeanwhileTest, ADetachedProgramGoesOnWithItsRepetition) {
  with_trainer(2, [&](Trainer& trainer) {
    trainer.step->repeat(Trainer::kSteps, {{"x", sim::inputs_of_steps()}});
    while (trainer.step->repetition()->status().done < kBehind) pass(trainer.reactor, 100'000);
    trainer.cluster.kill(1);
    trainer.wait_told("the program waits for 4 devices");
    trainer.client->detach();
    trainer.close();
    pass(trainer.reactor, 1000 * kMillisecond);
    trainer.cluster.start_again(1);
    trainer.client = trainer.cluster.attach("second", {.name = "trainer"});
    const RepeatStatus status = trainer.client->executable("training").repetition()->wait();
    EXPECT_EQ(status.done, Trainer::kSteps);
    EXPECT_EQ(status.outputs.at(0).value, alone().back());
  });
}

TEST(RecoveryMeanwhileTest, AProgramThatIsStoppedEndsAndReleasesItsDevices) {
  for (const bool is_detached : {false, true}) {
    with_trainer(2, [&](Trainer& trainer) {
      const Client other = trainer.cluster.connect("other");
      lose_a_host(trainer);
      if (is_detached) {
        trainer.client->detach();
        trainer.close();
      }
      // No client of the program gets the request to stop.
      other.stop_program("trainer", 5000);
      EXPECT_THAT(other.status().programs, ::testing::SizeIs(1));
      EXPECT_EQ(other.allocate({.devices = 2}).devices(), 2);
      trainer.cluster.start_again(1);
      EXPECT_EQ(other.allocate({.devices = 4, .wait_ms = 10'000}).devices(), 4);
      other.close();
    });
  }
}

TEST(RecoveryMeanwhileTest, AHostThatIsLostWhileTheProgramWaitsIsWaitedForToo) {
  with_trainer(3, [&](Trainer& trainer) {
    trainer.train(kBehind);
    trainer.cluster.kill(2);
    trainer.cluster.kill(1);
    trainer.wait_told("the program waits for 4 devices");
    trainer.cluster.kill(0);
    trainer.cluster.start_again(2);
    pass(trainer.reactor, 1000 * kMillisecond);
    EXPECT_FALSE(trainer.was_told("the program goes on on"));
    trainer.cluster.start_again(1);
    trainer.train(Trainer::kSteps);
    EXPECT_EQ(trainer.losses, alone());
    EXPECT_TRUE(trainer.was_told("the program goes on on host-1, host-2"));
  });
}

}  // namespace
}  // namespace gangway
