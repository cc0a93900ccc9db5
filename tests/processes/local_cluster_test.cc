// A cluster of real processes: it starts, trains, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "gangway.h"
#include "runtime/base/environment.h"
#include "tests/processes/process_tree.h"

namespace gangway {
namespace {

Program count_up(const Mesh& mesh) {
  ProgramBuilder b("count_up", mesh);
  Value w = b.state("w", zeros(f32({8})));
  Value x = b.input("x", f32({16, 8}), {{"data", shard(0)}});
  Value next = w + sum(x, {0});
  b.update(w, next);
  b.output("sum", sum(next, {0}));
  return b.build();
}

HostTensor ones() { return HostTensor::of<float>({16, 8}, std::vector<float>(128, 1.0f)); }

TEST(LocalClusterTest, ProcessesTrainAsOneProcessDoes) {
  Client client = connect("local:2x2", {.memory_bytes = 64 << 20});
  EXPECT_EQ(children_of(getpid()).size(), 3u);
  Slice slice = client.allocate({.devices = 4});
  Executable step = slice.compile(count_up(slice.mesh({{"data", 4}})));
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(step.run({{"x", ones()}})["sum"].item<float>(), 128.0f * static_cast<float>(i));
  }
  EXPECT_THAT(slice.read_state("w").as<float>(), testing::Each(160.0f));
}

TEST(LocalClusterTest, AnEmptyNameOfTheToolCountsAsNone) {
  const std::optional<std::string> before = environment_value("GANGWAY_TOOL");
  setenv("GANGWAY_TOOL", "", 1);
  EXPECT_EQ(connect("local:1x1", {.memory_bytes = 64 << 20}).status().hosts.size(), 1u);
  before ? setenv("GANGWAY_TOOL", before->c_str(), 1) : unsetenv("GANGWAY_TOOL");
}

TEST(LocalClusterTest, NoProcessIsLeftWhenTheClientIsClosed) {
  Client client = connect("local:2x1", {.memory_bytes = 64 << 20});
  ASSERT_EQ(children_of(getpid()).size(), 3u);
  client.close();
  EXPECT_EQ(children_of(getpid()).size(), 0u);
}

}  // namespace
}  // namespace gangway
