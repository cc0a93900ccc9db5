// Programs whose set of states changes while they keep checkpoints, and which then lose a host, on
// virtual time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/recovery/trainer.h"
#include "tests/sim/sim_time.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using sim::Trainer;
using sim::with_trainer;
using ::testing::HasSubstr;

// Another program of the trainer's slice: each run adds two to its own state "z".
Program adding() {
  ProgramBuilder b("adding", Mesh{{{"data", 4}}});
  const Value z = b.state("z", zeros(f32({4})), {{"data", shard(0)}});
  b.update(z, z + 2.0);
  b.output("z", z);
  return b.build();
}

float z_of(const Trainer& trainer) { return trainer.slice->read_state("z").as<float>()[0]; }
double steps_of(const Trainer& trainer) {
  return sim::as_double(trainer.slice->read_state("steps"));
}

void wait_for_checkpoint(const Trainer& trainer, uint64_t version) {
  const auto newest = [&] { return trainer.client->status().programs.at(0).checkpoint; };
  for (int i = 0; i < 1000 && newest() < version; ++i) pass(trainer.reactor, kMillisecond);
  EXPECT_GE(newest(), version);
}

// The state is added while a checkpoint waits for version 6, at several versions before it.
TEST(RecoveryStatesTest, AStateThatComesWhileACheckpointWaitsIsInIt) {
  for (const int before : {0, 1, 4, 5}) {
    with_trainer(3, [&](Trainer& trainer) {
      trainer.train(before, 1);
      const Executable add = trainer.slice->compile(adding());
      if (before < 5) add.run().wait();  // Version before + 1.
      trainer.train(Trainer::kEvery, 1);
      wait_for_checkpoint(trainer, Trainer::kEvery);
      trainer.cluster.kill(1);
      trainer.train(Trainer::kEvery + 2, 1);
      trainer.wait_told("the program goes on on");
      EXPECT_EQ(z_of(trainer), before < 5 ? 2 : 0) << before;
      EXPECT_EQ(steps_of(trainer), Trainer::kEvery + 2);
    });
  }
}

TEST(RecoveryStatesTest, AStateThatIsYoungerThanTheNewestCheckpointComesAgain) {
  for (const int runs : {0, 3}) {
    with_trainer(3, [&](Trainer& trainer) {
      trainer.train(Trainer::kEvery, 1);
      wait_for_checkpoint(trainer, Trainer::kEvery);
      const Executable add = trainer.slice->compile(adding());
      for (int i = 0; i < runs; ++i) add.run().wait();
      trainer.cluster.kill(1);
      add.run().wait();
      trainer.wait_told("the program goes on on");
      EXPECT_EQ(z_of(trainer), 2.0f * static_cast<float>(runs + 1));
      EXPECT_EQ(steps_of(trainer), Trainer::kEvery);
    });
  }
}

TEST(RecoveryStatesTest, AProgramGoesOnWithoutAStateThatNoExecutableHasAnyMore) {
  with_trainer(3, [&](Trainer& trainer) {
    {
      const Executable add = trainer.slice->compile(adding());
      add.run().wait();
    }
    trainer.train(2 * Trainer::kEvery, 1);
    wait_for_checkpoint(trainer, 2 * Trainer::kEvery);
    EXPECT_EQ(z_of(trainer), 2) << "as long as no host is lost it is there";
    trainer.cluster.kill(1);
    trainer.train(Trainer::kSteps);
    EXPECT_EQ(trainer.losses, sim::alone());
    trainer.wait_told("the program goes on on");
    EXPECT_TRUE(
        trainer.was_told("goes on without its states \"z\", which no executable has "
                         "any more"));
    const Error error = error_of([&] { trainer.slice->compile(adding()); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_THAT(error.what(), HasSubstr("state \"z\" is lost: no executable had it when a host"));
  });
}

// The checkpoint keeps the state meanwhile, and an executable has it again before the host is lost.
TEST(RecoveryStatesTest, AStateThatAnExecutableHasAgainKeepsItsValue) {
  with_trainer(3, [&](Trainer& trainer) {
    trainer.slice->compile(adding()).run().wait();
    trainer.train(2 * Trainer::kEvery, 1);
    wait_for_checkpoint(trainer, 2 * Trainer::kEvery);
    const Executable add = trainer.slice->compile(adding());
    trainer.cluster.kill(1);
    add.run().wait();
    trainer.wait_told("the program goes on on");
    EXPECT_EQ(z_of(trainer), 4);
  });
}

// A program on the trainer's slice and on another one, which has state "z".
Program adding_elsewhere() {
  const Mesh four{{{"data", 4}}}, two{{{"data", 2}}};
  Builder f("twice", four);
  f.result("out", f.parameter("in", f32({4}), {{"data", shard(0)}}) * 2.0);
  Builder g("add", two);
  g.result("next", g.parameter("z", f32({4}), {{"data", shard(0)}}) + 2.0);
  ProgramBuilder b("elsewhere", four);
  const uint32_t other = b.slice("other", two);
  const ProgramValue given = b.input_on(0, "in", f32({4}), {{"data", shard(0)}});
  b.output_of("out", b.call(0, "twice", std::make_shared<const Function>(f.build()), {given})[0]);
  const ProgramValue z = b.state_on(other, "z", zeros(f32({4})), {{"data", shard(0)}});
  b.call(other, "add", std::make_shared<const Function>(g.build()), {z}, {{0, z.edge.node}});
  return b.build();
}

TEST(RecoveryStatesTest, AStateThatLayAloneOnALostHostHoldsUpNoCheckpoint) {
  with_trainer(3, [&](Trainer& trainer) {
    {
      const Slice other = trainer.client->allocate({.devices = 2, .exclusive = true});
      const Executable add = trainer.slice->compile(adding_elsewhere(), {other});
      add.run({{"in", HostTensor::of<float>({4}, std::vector<float>(4, 1.0f))}}).wait();
    }
    trainer.train(2 * Trainer::kEvery, 1);
    wait_for_checkpoint(trainer, 2 * Trainer::kEvery);
    EXPECT_EQ(z_of(trainer), 2);
    trainer.cluster.kill(2);
    trainer.train(4 * Trainer::kEvery, 1);
    wait_for_checkpoint(trainer, 4 * Trainer::kEvery);
    EXPECT_TRUE(
        trainer.was_told("host \"host-2\" was lost: the program goes on without its states "
                         "\"z\""));
    EXPECT_FALSE(trainer.was_told("the program goes on on"));
    trainer.train(Trainer::kSteps);
    EXPECT_EQ(trainer.losses, sim::alone());
  });
}

}  // namespace
}  // namespace gangway
