// Two nets are trained together, each by an optimizer of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gangway.h"
#include "programs/optim/adamw.h"

namespace gangway::programs {
namespace {

using testing::Each;
using testing::FloatNear;

constexpr float kExact = 1e-4f;

class TwoNets : public testing::Test {
 protected:
  // A net of one state, which begins at 1 and has itself as its gradient: a first step of AdamW
  // takes the whole learning rate from it.
  static void add_net(ProgramBuilder& b, const std::string& name, const AdamwConfig& config) {
    const Value w = b.state(name, filled(f32({4}), 1.0));
    Tree parameters, gradients;
    parameters.set(name, w);
    gradients.set(name, w * 1.0);
    b.output(name + "_norm", adamw(b, parameters, gradients, config).grad_norm);
  }
  // A program of one net, whose optimizer has the usual inputs.
  static Program net(const std::string& name) {
    ProgramBuilder b("net_" + name, Mesh{});
    add_net(b, name, {});
    return b.build();
  }
  void expect(const std::string& state, float value) const {
    EXPECT_THAT(slice_.read_state(state).as<float>(), Each(FloatNear(value, kExact))) << state;
  }

  Client client_ = connect("local:1x1", {.in_process = true, .memory_bytes = 16 << 20});
  Slice slice_ = client_.allocate({});
};

TEST_F(TwoNets, InOneProgramHaveLearningRatesOfTheirOwn) {
  ProgramBuilder b("two_nets", Mesh{});
  add_net(b, "actor", {});
  add_net(b, "critic", {.lr_input = "critic_lr", .step_input = "critic_step"});
  const Executable step = slice_.compile(b.build());
  step.run({{"lr", 0.125f}, {"step", 1.0f}, {"critic_lr", 0.5f}, {"critic_step", 1.0f}}).wait();
  expect("actor", 0.875f);
  expect("critic", 0.5f);
  step.run({{"lr", 0.125f}, {"step", 2.0f}, {"critic_lr", 0.0f}, {"critic_step", 2.0f}}).wait();
  expect("critic", 0.5f);
}

TEST_F(TwoNets, InTwoProgramsOnOneSliceAreTrainedInTurns) {
  const Executable actor = slice_.compile(net("actor")), critic = slice_.compile(net("critic"));
  actor.run({{"lr", 0.125f}, {"step", 1.0f}}).wait();
  expect("actor", 0.875f);
  expect("critic", 1.0f);
  critic.run({{"lr", 0.5f}, {"step", 1.0f}}).wait();
  expect("actor", 0.875f);
  expect("critic", 0.5f);
}

}  // namespace
}  // namespace gangway::programs
