// The tool suspends and resumes a program that shares its device with another one, between
// processes as users start them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kWidth = 512;  // States take 2 MiB.

Program trainer() {
  ProgramBuilder b("trainer", Mesh{{{"data", 2}}});
  const Value w = b.state("w", normal(f32({kWidth, kWidth}), 0.1));
  const Value v = b.state("v", zeros(f32({kWidth, kWidth})));
  const Value x = b.input("x", f32({8, kWidth}), {{"data", shard(0)}});
  const Value h = tanh(dot(x, w));
  b.update(v, v * 0.9 + dot(transpose(x), h));
  b.update(w, w - v * 0.01);
  b.output("loss", mean(mean(h * h)));
  return b.build();
}

HostTensor batch(int step) {
  std::vector<float> values;
  for (int64_t i = 0; i < 8 * kWidth; ++i)
    values.push_back(static_cast<float>((i * 7 + step * 13) % 29) / 29 - 0.5f);
  return HostTensor::of<float>({8, kWidth}, values);
}

float loss(const Executable& step, int number) {
  return step.run({{"x", batch(number)}})["loss"].item<float>();
}

class SuspendTest : public testing::Test {
 protected:
  SuspendTest()
      : controller_({.arguments = {tests::gangway_tool(), "controller", "--listen", address_},
                     .output_file = said_.path()}),
        executor_({.arguments = {tests::gangway_tool(), "executor", "--connect", address_,
                                 "--devices", "2", "--memory", std::to_string(10 << 20)},
                   .output_file = said_.path()}) {
    EXPECT_TRUE(eventually([&] { return !first_line_of(said_).empty(); }));
    EXPECT_TRUE(eventually([&] { return run("devices", {}, 0).find("cpu") != std::string::npos; }))
        << output_of(said_);
  }

  std::string run(const std::string& command, std::vector<std::string> words, int status) const {
    AnonymousFile output("output");
    words.insert(words.begin(), {tests::gangway_tool(), command});
    words.insert(words.end(), {"--connect", address_});
    ChildProcess child({.arguments = words, .output_file = output.path()});
    const int code = child.wait().code;
    EXPECT_EQ(code, status) << command << output_of(output);
    return output_of(output);
  }

  const TempDir folder_;
  const std::string address_ = "unix:" + (folder_.path() / "gangway.sock").string();
  const AnonymousFile said_{"said"};
  ChildProcess controller_, executor_;
};

TEST_F(SuspendTest, TheToolSuspendsAProgramForAnotherOneAndResumesIt) {
  std::vector<float> told;
  const Client client =
      connect(address_, {.name = "first", .on_warning = [](const std::string&) {}});
  const Slice slice = client.allocate({.devices = 2});
  const Executable step = slice.compile(trainer());
  for (int i = 0; i < 3; ++i) told.push_back(loss(step, i));

  EXPECT_THAT(run("suspend", {"second"}, 2), HasSubstr("there is no program \"second\""));
  EXPECT_EQ(run("suspend", {"first"}, 0),
            "first is suspended: 4.0 MiB of its states are in host memory\n");
  EXPECT_THAT(run("ps", {}, 0), HasSubstr("first (suspended)"));
  const auto rows = nlohmann::json::parse(run("ps", {"--json"}, 0));
  EXPECT_EQ(rows.at(0).at("suspended"), true);
  EXPECT_EQ(rows.at(0).at("host_bytes"), 4 << 20);
  EXPECT_EQ(rows.at(0).at("memory_bytes"), 0);
  const gangway::Run waits = step.run({{"x", batch(3)}});
  std::vector<float> alone;
  {
    const Client other = connect(address_, {.name = "second"});
    const Executable another = other.allocate({.devices = 2}).compile(trainer());
    for (int i = 0; i < 5; ++i) alone.push_back(loss(another, i));
    EXPECT_THAT(run("resume", {"first"}, 1),
                AllOf(HasSubstr("resume: there is no room: needs "), HasSubstr(" holds ")));
    EXPECT_FALSE(waits.done());
    other.close();
  }
  EXPECT_EQ(run("resume", {"first"}, 0), "first goes on\n");
  told.push_back(waits["loss"].item<float>());
  told.push_back(loss(step, 4));
  EXPECT_EQ(told, alone);
  EXPECT_EQ(run("ps", {}, 0).find("suspended"), std::string::npos);
}

}  // namespace
}  // namespace gangway
