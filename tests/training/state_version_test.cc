// State that is read while runs are in flight is the version between two runs, never a mix.
#include <gtest/gtest.h>

#include "gangway.h"

namespace gangway {
namespace {

constexpr int64_t kElements = 1 << 20;

Program count_runs(const Mesh& mesh) {
  ProgramBuilder b("count_runs", mesh);
  Value w = b.state("w", zeros(f32({kElements})));
  b.update(w, w + 1.0);
  return b.build();
}

class StateVersionTest : public testing::Test {
 protected:
  // The value that all elements have.
  float constant() const {
    const HostTensor tensor = slice_.read_state("w");
    const auto values = tensor.as<float>();
    EXPECT_EQ(std::count(values.begin(), values.end(), values[0]), kElements);
    return values[0];
  }

  Client client_ = connect("local:2x2", {.in_process = true, .memory_bytes = 64 << 20});
  Slice slice_ = client_.allocate({.devices = 4});
  Executable step_ = slice_.compile(count_runs(slice_.mesh({{"data", 4}})));
};

TEST_F(StateVersionTest, AReadIsTheStateAfterTheRunsEnqueuedBeforeIt) {
  float enqueued = 0;
  for (int burst : {7, 1, 20, 3, 40, 0, 12}) {
    for (int i = 0; i < burst; ++i) step_.run();
    enqueued += static_cast<float>(burst);
    EXPECT_EQ(constant(), enqueued);
  }
}

TEST_F(StateVersionTest, AWriteStandsBetweenTheRunsBeforeAndBehindIt) {
  for (int round = 1; round <= 5; ++round) {
    const auto base = static_cast<float>(round) * 1000;
    for (int i = 0; i < 9; ++i) step_.run();
    slice_.write_state("w",
                       HostTensor::of<float>({kElements}, std::vector<float>(kElements, base)));
    for (int i = 0; i < 9; ++i) step_.run();
    EXPECT_EQ(constant(), base + 9);
  }
}

}  // namespace
}  // namespace gangway
