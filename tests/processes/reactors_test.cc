// Long work is done outside the event loops of processes, which report for how long they were
// blocked.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "gangway.h"
#include "runtime/os/temp_dir.h"

namespace gangway {
namespace {

using testing::HasSubstr;

TEST(ReactorsTest, ATextOfHundredsOfMegabytesHoldsUpNoProcess) {
  setenv("GANGWAY_REACTOR_LIMIT_MS", "100", 1);  // Ends a process that is blocked longer.
  const TempDir folder;
  const std::filesystem::path path = folder.path() / "text";
  std::ofstream(path) << "text";
  std::filesystem::resize_file(path, size_t{400} << 20);
  ProgramBuilder b("reading", Mesh{{{"data", 2}}});
  const Value tokens = b.source("tokens", {"text", {{"path", path.string()}, {"seed", int64_t{1}}}},
                                i32({4, 16}), {{"data", shard(0)}});
  b.output("sum", sum(convert(tokens, DType::kF32)));
  const Program program = b.build();
  const Client client = connect("local:2x1", {.memory_bytes = 64 << 20});
  const Slice slice = client.allocate({.devices = 2});
  const Executable step = slice.compile(program);
  EXPECT_GE(step.run()["sum"].item<float>(), 0.0f);
  const std::string metrics = client.status().metrics;
  EXPECT_THAT(metrics, HasSubstr("gangway_reactor_longest_ms{process=\"controller\"} "));
  EXPECT_THAT(metrics,
              HasSubstr("gangway_reactor_longest_ms{host=\"host-0\",process=\"executor\"} "));
}

}  // namespace
}  // namespace gangway
