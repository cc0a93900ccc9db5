// A host dies at each distinct moment of a program's life: after each step, while a checkpoint is
// written, and while the program is brought back. No bit changes.
#include <gtest/gtest.h>

#include "tests/sim/recovery/trainer.h"

namespace gangway {
namespace {

using sim::alone;
using sim::Trainer;
using sim::with_trainer;

TEST(RecoveryMomentsTest, AHostThatDiesAsTheResultOfAnyStepIsReportedChangesNoBit) {
  for (int step = 1; step < Trainer::kSteps; ++step) {
    for (const size_t ahead : {1, 3}) {
      with_trainer(3, [&](Trainer& trainer) {
        trainer.train(step, ahead);
        trainer.cluster.kill(step % 2);
        trainer.train(Trainer::kSteps, ahead);
        EXPECT_EQ(trainer.losses, alone()) << "behind step " << step << ", " << ahead << " ahead";
        trainer.wait_told("the program goes on on");
      });
    }
  }
}

// Kills `host` `ns` after a checkpoint begins to be written. Counts in `under_way` whether the
// checkpoint was still being written.
Fiber kill_later(Trainer& trainer, int host, int64_t ns, int& under_way) {
  return trainer.reactor.spawn("kill", [&trainer, &under_way, host, ns] {
    const Checkpoints& checkpoints = trainer.cluster.controller.controller().checkpoints();
    while (checkpoints.under_way() == 0) pass(trainer.reactor, 10'000);
    pass(trainer.reactor, ns);
    under_way += checkpoints.under_way() > 0 ? 1 : 0;
    trainer.cluster.kill(host);
  });
}

TEST(RecoveryMomentsTest, AHostThatDiesWhileACheckpointIsWrittenChangesNoBit) {
  int under_way = 0;
  for (int moment = 0; moment < 30; ++moment) {
    with_trainer(3, [&](Trainer& trainer) {
      trainer.train(2 * Trainer::kEvery - 1);
      Fiber kill = kill_later(trainer, moment % 2, moment * 20'000, under_way);
      trainer.train(Trainer::kSteps);
      kill.join();
      EXPECT_EQ(trainer.losses, alone()) << "moment " << moment;
    });
  }
  EXPECT_GT(under_way, 5);
}

// Kills the program's remaining host, or the host that replaces the dead one, at moments from the
// first death until the program has gone on.
TEST(RecoveryMomentsTest, ASecondHostThatDiesDuringTheRecoveryChangesNoBit) {
  int twice = 0;
  for (int moment = 0; moment < 40; ++moment) {
    with_trainer(5, [&](Trainer& trainer) {
      trainer.train(2 * Trainer::kEvery + 3);
      trainer.cluster.kill(0);
      Fiber kill = trainer.reactor.spawn("kill", [&] {
        pass(trainer.reactor, moment * 150'000);
        trainer.cluster.kill(1 + moment % 2);
      });
      trainer.train(Trainer::kSteps);
      kill.join();
      EXPECT_EQ(trainer.losses, alone()) << "moment " << moment;
      trainer.wait_told("the program goes on on");
      twice += trainer.was_told("\"host-0\", host \"host-") ? 1 : 0;
    });
  }
  EXPECT_GT(twice, 5);
}

}  // namespace
}  // namespace gangway
