// Programs that go on behind a restart of their controller, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <set>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "controller/service/resumed_programs.h"
#include "ir/types/limits.h"
#include "protocol/text_limits.h"
#include "runtime/base/hash.h"
#include "tests/sim/restarts/resumed.h"
#include "tests/support/error_of.h"
#include "tests/support/seed.h"

namespace gangway::restarts_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST_F(ResumedTest, ATextThatOnlyGrewIsReadAsItWas) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    const std::string text = FolderTest::read(text_);
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(30ms);
    cluster.kill_controller();
    FolderTest::write("text.txt", text + "more");
    start(cluster);
    for (int i = 0; i < 20'000 && cluster.controller().program_counts().at(0).runs_done == 0; ++i)
      cluster.pass(1ms);
    cluster.end_executor(1);
    FolderTest::write("text.txt", text + "more and more");
    cluster.start_executor(1);
    expect_the_rest(cluster);
  });
}

TEST_F(ResumedTest, ATextThatWasChangedKeepsItsProgramFromGoingOnWhichSaysWhatWasExpected) {
  for (const bool is_restart : {true, false}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      const std::string text = FolderTest::read(text_);
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      cluster.pass(30ms);
      if (is_restart) cluster.kill_controller();
      if (!is_restart) cluster.end_executor(1);
      std::string changed = text;
      changed[2000] = '#';
      FolderTest::write("text.txt", changed);
      if (is_restart) start(cluster);
      if (!is_restart) cluster.start_executor(1);
      for (int i = 0; i < 200; ++i) cluster.pass(100ms);
      std::string told = log();
      Controller& controller = cluster.controller();
      if (const auto trainer = controller.programs().find_log(own_user_name(), "trainer")) {
        const ProgramLog read = controller.programs().log_of(*trainer)->read(0);
        for (const LoggedLine& line : read.lines) told += line.text;
      }
      EXPECT_THAT(told, HasSubstr("is another text on host "));
      EXPECT_THAT(told,
                  HasSubstr(cat("expected 4000 bytes with the BLAKE2b hash ", content_hash(text))));
      EXPECT_THAT(told, HasSubstr(content_hash(changed)));
      FolderTest::write("text.txt", text);
      if (!is_restart) return;
      // After a restart the program is kept, and is tried again until a host has its text.
      const auto goes_on = [&] {
        const std::vector<ProgramCounts> programs = cluster.controller().program_counts();
        return !programs.empty() && programs[0].runs_done > 0;
      };
      for (int i = 0; i < 1000 && !goes_on(); ++i) cluster.pass(100ms);
      ASSERT_TRUE(goes_on());
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, ARepeatedProgramGoesOnBehindARestartWithTheBitsThatItHasAlone) {
  const uint64_t seed = gangway::tests::test_seed();
  for (uint64_t round = 0; round < 12; ++round) {
    Rng rng(seed + round, 0x4E57);
    auto reactor = Reactor::make_simulated({.seed = seed + round});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      const int kills = 1 + static_cast<int>(rng.below(3));
      for (int kill = 0; kill < kills; ++kill) {
        cluster.pass(std::chrono::microseconds(rng.below(120'000)));
        cluster.kill_controller();
        cluster.pass(std::chrono::milliseconds(rng.below(20'000)));
        cluster.start_controller(state(), options());
        const std::vector<ProgramCounts> programs = cluster.controller().program_counts();
        ASSERT_EQ(programs.size(), 1u);
        EXPECT_EQ(programs[0].name, "trainer");
        EXPECT_TRUE(programs[0].detached);
        for (int i = 0; i < 20'000 && cluster.controller().program_counts().at(0).runs_done == 0;
             ++i)
          cluster.pass(1ms);
      }
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
  EXPECT_GT(std::set<uint64_t>(done_again_.begin(), done_again_.end()).size(), 3u)
      << "they went on from different checkpoints: " << ::testing::PrintToString(done_again_);
}

// Replaces the learning rates in a record by a list of the same rates, as earlier releases wrote
// it.
ProgramRecord with_listed_rates(ProgramRecord record, const std::vector<double>& rates) {
  auto& inputs = record.repetition.inputs;
  const auto rate = std::ranges::find_if(inputs, [](const ScheduledInput& input) {
    const auto* schedule = std::get_if<Schedule>(&input.value);
    return schedule != nullptr && schedule->slope < 0;
  });
  if (rate == inputs.end()) throw Error(ErrorKind::kBug, "the record has no rates that fall");
  record.repetition.earlier = {{rate->input, std::make_shared<const EarlierSchedule>(rates)}};
  inputs.erase(rate);
  return record;
}

TEST_F(ResumedTest, ARepetitionWhoseRecordHasAListOfRatesGoesOnWithThemAndKeepsThemInItsRecord) {
  std::vector<double> listed;
  for (int step = 0; step < kSteps; ++step) listed.push_back(value_at(rates(), step));
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(30ms);
    cluster.kill_controller();
    const std::string text = print_record(with_listed_rates(state_of_record(), listed));
    std::ofstream(record(), std::ios::binary) << text;
    for (int restart = 0; restart < 2; ++restart) {
      cluster.start_controller(state(), options());
      for (int i = 0; i < 20'000 && cluster.controller().program_counts().at(0).runs_done == 0; ++i)
        cluster.pass(1ms);
      EXPECT_EQ(state_of_record().repetition.earlier.size(), 1u);
      if (restart == 0) cluster.kill_controller();
    }
    expect_the_rest(cluster);
  });
}

TEST_F(ResumedTest, AProgramIsResumedThoughItsCheckpointsAreLostOrDamaged) {
  enum class Lost { kAllFiles, kNewest, kOneBit, kNothing };
  for (const Lost lost : {Lost::kAllFiles, Lost::kNewest, Lost::kOneBit, Lost::kNothing}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      {
        // A closed trainer whose files the next trainer must not use.
        begin(cluster);
        cluster.pass(1s);
        cluster.attach("visitor", "trainer").close();
        EXPECT_FALSE(CheckpointDir(checkpoints()).steps().empty());
      }
      begin(cluster);
      if (lost != Lost::kNothing) {
        const auto newest = [&] {
          return cluster.controller().program_counts()[0].checkpoint.value_or(StateVersion()).value;
        };
        while (newest() == 0) cluster.pass(1ms);
        for (const uint64_t first = newest(); newest() == first;) cluster.pass(1ms);
      }
      cluster.kill_controller();
      if (lost == Lost::kAllFiles) {
        std::filesystem::remove_all(checkpoints());
      } else if (lost != Lost::kNothing) {
        const std::vector<int64_t> steps = CheckpointDir(checkpoints()).steps();
        ASSERT_EQ(steps.size(), 2u);
        const std::filesystem::path newest = CheckpointDir(checkpoints()).folder_of(steps[1]);
        if (lost == Lost::kOneBit) {
          std::fstream file(newest / kModelFile, std::ios::in | std::ios::out | std::ios::binary);
          file.seekg(-1, std::ios::end);
          const auto last = static_cast<char>(file.peek() ^ 1);
          file.seekp(-1, std::ios::end);
          file.put(last);
        } else {
          for (const auto& file : std::filesystem::directory_iterator(newest))
            std::filesystem::resize_file(file.path(), 20);
        }
      }
      start(cluster);
      expect_the_rest(cluster);
      if (lost == Lost::kNewest || lost == Lost::kOneBit) {
        EXPECT_LT(done_again_.back(), kSteps);
      } else {
        EXPECT_EQ(done_again_.back(), kSteps);
      }
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, StepsOfTheClientAreNotRepeatedAndSoOneMustBeKeptBehindThem) {
  for (const bool is_kept : {true, false}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      // The client runs 5 steps itself; the checkpoint of version 10 includes them.
      begin(cluster, 5);
      while (cluster.controller().program_counts()[0].checkpoint.value_or(StateVersion()).value <
             30)
        cluster.pass(1ms);
      cluster.kill_controller();
      if (!is_kept) std::filesystem::remove_all(checkpoints());
      start(cluster);
      if (is_kept) return expect_the_rest(cluster, 5);
      cluster.pass(1s);
      EXPECT_TRUE(cluster.controller().program_counts().empty());
      EXPECT_EQ(cluster.controller().counts().total(), 0u);
    });
    if (!is_kept) {
      EXPECT_THAT(log(), HasSubstr("it could not go on behind a restart of its controller: it was "
                                   "to go on from version 5 or a later one, and there is no "
                                   "checkpoint of it"));
      EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "programs"));
    }
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, AProgramWaitsForItsDevicesAndMayBeStoppedMeanwhile) {
  for (const bool stops : {true, false}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      restart_without_a_host(cluster);
      EXPECT_THAT(cluster.controller().program_counts().at(0).waits_for,
                  HasSubstr("4 devices, for "));
      const Error early = error_of([&] { cluster.attach("visitor", "trainer"); });
      EXPECT_EQ(early.kind(), ErrorKind::kOverloaded);
      EXPECT_THAT(early.what(), HasSubstr("the program \"trainer\" of "));
      EXPECT_THAT(early.what(), HasSubstr("is brought back behind a restart of its controller"));
      EXPECT_THAT(early.hint(), HasSubstr("gangway ps"));
      // The record outlives another restart.
      cluster.kill_controller();
      EXPECT_TRUE(std::filesystem::exists(record()));
      start(cluster);
      const Client onlooker = cluster.connect("onlooker");
      if (stops) {
        EXPECT_FALSE(onlooker.stop_program("trainer", 0));
        onlooker.close();
        cluster.pass(1s);
        EXPECT_EQ(cluster.controller().counts().total(), 0u);
        EXPECT_TRUE(std::filesystem::is_empty(folder_ / "state" / "programs"));
        return;
      }
      onlooker.close();
      cluster.start_executor(1);
      cluster.pass(8s);
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

// One of its hosts answers nothing, so that it is not compiled yet.
TEST_F(ResumedTest, NobodyReadsStatesBeforeTheyAreThoseOfTheCheckpoint) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    {
      const Client client = cluster.attach("visitor", "trainer");
      client.slices().at(0).allow_read("*");
      client.detach();
    }
    while (!cluster.controller().program_counts().at(0).checkpoint) cluster.pass(1ms);
    const StateVersion kept = *cluster.controller().program_counts()[0].checkpoint;
    cluster.kill_controller();
    cluster.end_executor(1);
    start(cluster);
    cluster.stop_executor(0);
    cluster.start_executor(1);
    const auto devices = [&] { return cluster.controller().program_counts().at(0).devices; };
    for (int i = 0; i < 1000 && devices() < 4; ++i) cluster.pass(1ms);
    EXPECT_EQ(devices(), 4u);
    const Client reader = cluster.connect("reader");
    const Error early = error_of([&] { reader.open_states("trainer"); });
    EXPECT_EQ(early.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(early.what(), HasSubstr("the program \"trainer\" is brought back behind a restart "
                                        "of its controller"));
    EXPECT_EQ(early.hint(), "try again later; \"gangway ps\" may show what it waits for");
    cluster.resume_executor(0);
    wait_for_steps(cluster, 1);
    {
      const SharedStates states = reader.open_states("trainer");
      EXPECT_GE(states.latest().version(), kept.value);
    }
    reader.close();
    expect_the_rest(cluster);
  });
}

// The program has no slice yet, and so no states.
TEST_F(ResumedTest, AReaderOfAProgramThatWaitsForItsDevicesIsToldToTryAgainLater) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    restart_without_a_host(cluster);
    EXPECT_EQ(cluster.controller().program_counts().at(0).devices, 0u);
    const Client reader = cluster.connect("reader");
    const Error early = error_of([&] { reader.open_states("trainer"); });
    EXPECT_EQ(early.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(early.what(), HasSubstr("the program \"trainer\" is brought back behind a restart "
                                        "of its controller"));
    EXPECT_THAT(early.hint(), HasSubstr("gangway ps"));
    EXPECT_EQ(error_of([&] { reader.open_states("nobody"); }).kind(), ErrorKind::kInvalid);
    cluster.start_executor(1);
    wait_for_steps(cluster, 1);
    EXPECT_EQ(reader.open_states("trainer").states().size(), 1u);
    reader.close();
    expect_the_rest(cluster);
  });
}

// The slice that has its states is there before the devices of the other one are.
TEST_F(ResumedTest, NobodyReadsStatesOfAProgramThatWaitsForDevicesOfAnotherSlice) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    {
      const Client client = cluster.connect("trainer");
      const Slice slice = client.allocate({.devices = 2});
      const Slice other = client.allocate({.devices = 4});
      ProgramBuilder b("counting", Mesh{{{"data", 2}}});
      const Value w = b.state("w", zeros(f32()));
      b.update(w, timed(w + 1.0, 500));
      const Executable step = slice.compile(b.build());
      slice.allow_read("*");
      slice.keep_checkpoints({.every = 10});
      step.repeat(1'000'000, {});
      client.detach();
    }
    cluster.pass(30ms);
    cluster.kill_controller();
    cluster.end_executor(1);
    start(cluster);
    EXPECT_THAT(cluster.controller().program_counts().at(0).waits_for,
                HasSubstr("4 devices, for "));
    const Client reader = cluster.connect("reader");
    const Error early = error_of([&] { reader.open_states("trainer"); });
    EXPECT_EQ(early.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(early.what(), HasSubstr("is brought back behind a restart of its controller"));
    cluster.start_executor(1);
    wait_for_steps(cluster, 1);
    EXPECT_EQ(reader.open_states("trainer").states().size(), 1u);
    reader.close();
    cluster.attach("visitor", "trainer").close();
  });
}

TEST_F(ResumedTest, AHostThatIsLostDuringTheRestartOrLaterIsWaitedFor) {
  for (uint64_t round = 0; round < 12; ++round) {
    Rng rng(gangway::tests::test_seed() + round, 0x4057);
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed() + round});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster);
      cluster.pass(40ms);
      cluster.kill_controller();
      cluster.start_controller(state(), options());
      while (cluster.names().size() < 2) cluster.pass(100us);
      cluster.pass(std::chrono::microseconds(rng.below(400)));
      cluster.end_executor(1);
      cluster.start_executor(1);
      cluster.pass(10s);
      expect_the_rest(cluster);
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

TEST_F(ResumedTest, AHostThatIsLostBehindARestartDoesNotEndTheProgram) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(40ms);
    for (int round = 0; round < 2; ++round) {
      cluster.kill_controller();
      start(cluster);
      wait_for_steps(cluster, 15);
      cluster.end_executor(1);
      cluster.pass(100ms);
      EXPECT_THAT(cluster.controller().program_counts().at(0).waits_for, HasSubstr("4 devices"));
      cluster.start_executor(1);
      cluster.pass(100ms);
    }
    expect_the_rest(cluster);
  });
}

// The program shrinks to the remaining devices; after the restart the lost host is back, or not.
TEST_F(ResumedTest, AProgramThatHasShrunkGoesOnBehindARestart) {
  for (const bool comes_back : {false, true}) {
    auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
    reactor->run([&] {
      Restarts cluster(*reactor);
      start(cluster);
      begin(cluster, 0, "trainer", {"data"});
      cluster.pass(40ms);
      cluster.end_executor(1);
      const auto devices = [&] { return cluster.controller().program_counts().at(0).devices; };
      while (devices() != 2) cluster.pass(1ms);
      cluster.attach("visitor", "trainer").detach();  // Its record is written again.
      cluster.pass(1ms);
      EXPECT_EQ(state_of_record().slices.at(0).shape.devices, 4u);
      cluster.kill_controller();
      if (comes_back) cluster.start_executor(1);
      start(cluster);
      cluster.pass(std::chrono::milliseconds(ResumedPrograms::kWholeWaitMs));
      EXPECT_EQ(devices(), comes_back ? 4u : 2u);
      const Client client = cluster.attach("visitor", "trainer");
      const RepeatStatus status = client.executable("walking").repetition()->wait();
      EXPECT_EQ(status.done, kSteps);
      ASSERT_FALSE(status.outputs.empty());
      EXPECT_NEAR(status.outputs[0].value, alone_.back(), 1e-4);
      client.close();
    });
    std::filesystem::remove_all(folder_ / "state");
    std::filesystem::remove_all(folder_ / "kept");
  }
}

// The newest checkpoint does not have the other executable's state.
TEST_F(ResumedTest, AnExecutableThatIsYoungerThanTheNewestCheckpointComesAgain) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    {
      const Client client = cluster.connect("trainer");
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(walking(text_));
      slice.keep_checkpoints({.every = 10, .keep = 2});
      step.repeat(kSteps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      while (!cluster.controller().program_counts()[0].checkpoint) cluster.pass(100us);
      ProgramBuilder b("another", Mesh{{{"data", 4}}});
      const Value z = b.state("z", zeros(f32()));
      b.update(z, z + 1.0);
      const Executable another = slice.compile(b.build());
      client.detach();
    }
    EXPECT_EQ(cluster.controller().program_counts().at(0).checkpoint, StateVersion(10));
    cluster.kill_controller();
    start(cluster);
    expect_the_rest(cluster);
  });
}

TEST_F(ResumedTest, StatesThatNoExecutableHadAnyMoreAreNamedAndNobodyTakesThemForNewOnes) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    ProgramBuilder b("another", Mesh{{{"data", 4}}});
    const Value z = b.state("z", zeros(f32()));
    b.update(z, z + 1.0);
    const Program another = b.build();
    {
      const Client client = cluster.connect("trainer");
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(walking(text_));
      slice.compile(another);  // The executable is released at once.
      slice.keep_checkpoints({.every = 10, .keep = 2});
      step.repeat(kSteps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      client.detach();
    }
    for (int restart = 0; restart < 2; ++restart) {
      cluster.pass(30ms);
      EXPECT_EQ(state_of_record().released_states, std::vector<std::string>{"z"});
      cluster.kill_controller();
      start(cluster);
      wait_for_steps(cluster, 1);
      std::string told;
      Controller& controller = cluster.controller();
      if (const auto trainer = controller.programs().find_log(own_user_name(), "trainer")) {
        const ProgramLog read = controller.programs().log_of(*trainer)->read(0);
        for (const LoggedLine& line : read.lines) told += line.text;
      }
      EXPECT_THAT(told, HasSubstr("goes on without its states \"z\", which no executable has any "
                                  "more"));
    }
    const Client client = cluster.attach("visitor", "trainer");
    const Error error = error_of([&] { client.slices().at(0).compile(another); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("state \"z\" is lost: no executable had it"));
    client.close();
  });
}

// The program's names, slices and numbers are as long, as many and as large as its calls accept.
TEST_F(ResumedTest, AProgramAtTheBoundsOfItsCallsIsResumedAndCallsBeyondThemAreRefused) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  const std::string name(kProgramNameBytesMax, 'n');
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    EXPECT_EQ(error_of([&] { cluster.connect(name + "n"); }).kind(), ErrorKind::kInvalid);
    EXPECT_EQ(error_of([&] { cluster.connect("caf\xE9"); }).kind(), ErrorKind::kInvalid);
    {
      const Client client = cluster.connect(name);
      const Slice slice = client.allocate({.devices = 4});
      std::vector<Slice> others;
      for (int i = 0; i < 300; ++i) others.push_back(client.allocate({.devices = 1}));
      const Executable step = slice.compile(walking(text_, std::string(kNameBytesMax, 'w')));
      EXPECT_EQ(
          error_of([&] { slice.keep_checkpoints({.every = kCheckpointEveryMax + 1}); }).kind(),
          ErrorKind::kInvalid);
      slice.keep_checkpoints({.every = kCheckpointEveryMax});
      step.repeat(kSteps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      client.detach();
    }
    cluster.pass(1ms);
    EXPECT_EQ(state_of_record().slices.size(), 301u);
    cluster.kill_controller();
    start(cluster);
    wait_for_steps(cluster, kSteps);
    EXPECT_EQ(cluster.controller().program_counts()[0].name, name);
    cluster.attach("visitor", name).close();
  });
}

// One program's record can't be read; the other program goes on.
TEST_F(ResumedTest, ARecordThatCantBeReadCostsItsOwnProgramOnly) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    begin(cluster);
    cluster.pass(40ms);
    cluster.kill_controller();
    const std::string other = FolderTest::read(record());
    FolderTest::write("state/programs/ann.spoilt", other.substr(0, other.size() / 2));
    start(cluster);
    expect_the_rest(cluster);
  });
  EXPECT_TRUE(std::filesystem::exists(folder_ / "state" / "set_aside" / "ann.spoilt"));
}

TEST_F(ResumedTest, AProgramThatItsClientRunsIsNotBroughtBack) {
  auto reactor = Reactor::make_simulated({.seed = gangway::tests::test_seed()});
  std::vector<std::string> told;
  reactor->run([&] {
    Restarts cluster(*reactor);
    start(cluster);
    const auto is_kept = [&] {
      cluster.pass(1s);
      const std::filesystem::path folder = folder_ / "state" / "programs";
      return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder);
    };
    {
      const Client client = cluster.connect("trainer", &told);
      const Slice slice = client.allocate({.devices = 4});
      const Executable step = slice.compile(walking(text_));
      const auto repeat = [&](int64_t steps) {
        return step.repeat(steps, {{"lr", rates()}, {"step", Schedule::linear(0, 1)}});
      };
      repeat(5).wait();
      EXPECT_FALSE(is_kept()) << "it has no checkpoints";
      slice.keep_checkpoints({.every = 10});
      step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
      EXPECT_FALSE(is_kept()) << "nothing is repeated";
      repeat(5).wait();
      EXPECT_TRUE(is_kept());
      step.run({{"lr", 0.5f}, {"step", 0.0f}}).wait();
      EXPECT_FALSE(is_kept()) << "its client has run it since";
      const Repeat long_one = repeat(1'000'000);
      EXPECT_TRUE(is_kept());
      EXPECT_TRUE(told.empty());
      slice.write_state("w", HostTensor::of<float>({8, 4}, std::vector<float>(32, 1.0f)));
      EXPECT_FALSE(is_kept()) << "its client has written the states";
      ASSERT_EQ(told.size(), 1u);
      EXPECT_THAT(told[0], HasSubstr("would not go on behind a restart of its controller, until it "
                                     "is repeated again"));
      long_one.cancel();
      long_one.wait();
      const Repeat other = repeat(1'000'000);
      EXPECT_TRUE(is_kept());
      other.cancel();
      EXPECT_TRUE(is_kept()) << "with the steps that it has come to";
      const ProgramRecord record = state_of_record();
      EXPECT_EQ(record.repetition.steps, other.wait().done);
      repeat(1'000'000);
      client.detach();
    }
    EXPECT_TRUE(is_kept());
    EXPECT_EQ(std::filesystem::status(record()).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    cluster.kill_controller();
    cluster.start_controller(state());
    cluster.pass(10s);
    EXPECT_TRUE(cluster.controller().program_counts().empty());
    EXPECT_FALSE(is_kept());
  });
  EXPECT_THAT(log(), HasSubstr("this controller has no folder for them"));
}

}  // namespace
}  // namespace gangway::restarts_test
