// Programs that lose a host and whose newest checkpoints are damaged, on virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "client/shared_states.h"
#include "controller/programs/checkpoints.h"
#include "runtime/os/user.h"
#include "tests/sim/recovery/trainer.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"

namespace gangway::damaged_test {
namespace {

using sim::Trainer;
using sim::with_trainer;
using ::testing::HasSubstr;

std::filesystem::path folder_of(const Trainer& trainer) {
  return trainer.root.path() / Checkpoints::escaped(own_user_name()) / "trainer";
}

void wait_for_checkpoint(const Trainer& trainer, uint64_t version) {
  const auto newest = [&] { return trainer.client->status().programs.at(0).checkpoint; };
  for (int i = 0; i < 1000 && newest() < version; ++i) pass(trainer.reactor, kMillisecond);
  ASSERT_GE(newest(), version);
}

void flip_last_bit(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const auto last = static_cast<char>(file.peek() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(last);
}

// Damages the first checkpoint, before which there are only the initial values, or the second.
TEST(RecoveryDamagedTest, AProgramWhoseNewestCheckpointIsDamagedGoesBackToTheOneBefore) {
  for (const int version : {Trainer::kEvery, 2 * Trainer::kEvery}) {
    with_trainer(3, [&](Trainer& trainer) {
      trainer.train(version, 1);
      wait_for_checkpoint(trainer, static_cast<uint64_t>(version));
      flip_last_bit(CheckpointDir(folder_of(trainer)).folder_of(version) / kModelFile);
      trainer.cluster.kill(1);
      trainer.train(Trainer::kSteps);
      trainer.wait_told(cat("goes back to version ", version - Trainer::kEvery));
      EXPECT_TRUE(trainer.was_told(": the file is damaged: expected the BLAKE2b hash"));
      EXPECT_EQ(trainer.losses, sim::alone());
      // Its next checkpoint is whole.
      wait_for_checkpoint(trainer, Trainer::kSteps);
      const CheckpointDir written(folder_of(trainer));
      TensorFiles::open(*written.latest()).read({});
    });
  }
}

// Its plans were installed again by then, with first values.
TEST(RecoveryDamagedTest, NobodyIsShownTheStatesOfAProgramWhoseCheckpointsAreAllDamaged) {
  with_trainer(3, [&](Trainer& trainer) {
    const Client reader = trainer.cluster.connect("reader");
    {
      trainer.train(Trainer::kEvery, 1);
      wait_for_checkpoint(trainer, Trainer::kEvery);
      trainer.train(2 * Trainer::kEvery, 1);
      wait_for_checkpoint(trainer, 2 * Trainer::kEvery);
      for (const int version : {Trainer::kEvery, 2 * Trainer::kEvery})
        flip_last_bit(CheckpointDir(folder_of(trainer)).folder_of(version) / kModelFile);
      trainer.slice->allow_read("friend");
      const SharedStates states = reader.open_states("trainer");
      const Snapshot waits = states.at(Trainer::kSteps);
      trainer.cluster.kill(1);
      trainer.wait_told("can't be brought back");
      const auto expect_refused = [&](const std::function<void()>& call) {
        const Error error = error_of(call);
        EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
        EXPECT_THAT(error.what(), HasSubstr("can't be brought back"));
        EXPECT_THAT(error.what(), HasSubstr(": the file is damaged: expected the BLAKE2b hash"));
      };
      expect_refused([&] { trainer.slice->read_state("steps"); });
      expect_refused([&] { trainer.slice->write_state("steps", sim::number(1)); });
      expect_refused([&] { waits.wait(); });
      expect_refused([&] { states.latest().wait(); });
      expect_refused([&] { reader.open_states("trainer"); });
      expect_refused([&] { trainer.slice->compile(sim::trained_program()); });
      expect_refused(
          [&] { trainer.slice->keep_checkpoints({.every = Trainer::kEvery, .keep = 2}); });
      // The program goes on on another slice, while its client still has this one.
      const Slice next = trainer.client->allocate({.devices = 4});
      const Executable step = next.compile(sim::trained_program());
      expect_refused([&] { trainer.slice->read_state("steps"); });
      next.allow_read("friend");
      next.keep_checkpoints({.every = Trainer::kEvery, .keep = 2});
      step.run({{"x", sim::number(1)}}).wait();
      const Snapshot latest = reader.open_states("trainer").latest();
      EXPECT_EQ(latest.version(), 1u);
      EXPECT_EQ(sim::as_double(latest.read("steps")), 1);
    }
    reader.close();
  });
}

}  // namespace
}  // namespace gangway::damaged_test
