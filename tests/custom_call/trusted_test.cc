// Tests which libraries an executor loads if other owners may use it too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "gangway.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class TrustedTest : public testing::Test {
 protected:
  TrustedTest() {
    fs::create_directory(trusted_);
    fs::create_directory(home_);
    fs::copy(tests::user_kernel(), trusted_ / "libkernel.so");
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }));
  }

  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", token_}},
                         .output_file = output.path()});
  }
  ChildProcess start_executor(std::vector<std::string> more) const {
    std::vector<std::string> arguments = {"executor", "--connect", address_, "--memory",
                                          std::to_string(16 << 20)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(std::move(arguments), executor_said_);
  }

  std::vector<float> run(const fs::path& library) const {
    const Client client = connect(address_, {.token_file = token_});
    const Slice slice = client.allocate({.devices = 1, .wait_ms = 20'000});
    ProgramBuilder b("with_kernel", slice.mesh({{"data", 1}}));
    const Value x = b.input("x", f32({2, 2}));
    b.output("y", custom_call(user_kernel(library, "add_ten_times"), {x, x + 1.0}, f32({2, 2})));
    const HostTensor y =
        slice.compile(b.build())
            .run({{"x", HostTensor::of<float>({2, 2}, std::vector<float>{1, 2, 3, 4})}})["y"]
            .to_host();
    return {y.as<float>().begin(), y.as<float>().end()};
  }

  TempDir folder_;
  const fs::path trusted_ = folder_.path() / "trusted", home_ = folder_.path() / "home";
  const std::string token_ = folder_.path() / "state/token";
  AnonymousFile said_{"controller"}, executor_said_{"executor"};
  ChildProcess controller_ = start({"controller", "--listen", "127.0.0.1:0"}, said_);
  std::string address_;
};

TEST_F(TrustedTest, AnExecutorLoadsTrustedLibrariesWhereverTheProgramHasThem) {
  const ChildProcess executor = start_executor({"--trust", trusted_});
  EXPECT_THAT(run(trusted_ / "libkernel.so"), ElementsAre(21, 32, 43, 54));
  // The same content is the same library.
  fs::copy(trusted_ / "libkernel.so", home_ / "mine.so");
  EXPECT_THAT(run(home_ / "mine.so"), ElementsAre(21, 32, 43, 54));
}

TEST_F(TrustedTest, AnyOtherLibraryIsRefusedAlsoOneThatComesIntoTheFolderLater) {
  const ChildProcess executor = start_executor({"--trust", trusted_});
  fs::copy(tests::user_kernel(), home_ / "mine.so");
  std::ofstream(home_ / "mine.so", std::ios::app) << "more";
  const auto refused = [&](const fs::path& library) {
    const Error error = error_of([&] { run(library); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("trusted_test.cc:"));
    EXPECT_THAT(error.what(), HasSubstr("can start it with --trust and a folder"));
    return std::string(error.what());
  };
  const std::string folders = fs::canonical(trusted_);
  EXPECT_THAT(refused(home_ / "mine.so"),
              HasSubstr(cat("library ", (home_ / "mine.so").string(),
                            ": this executor trusts no library of its content")));
  fs::copy(home_ / "mine.so", trusted_ / "later.so");
  EXPECT_THAT(refused(trusted_ / "later.so"),
              HasSubstr("trusted folders, as they were when it was started: " + folders));
  EXPECT_THAT(run(trusted_ / "libkernel.so"), ElementsAre(21, 32, 43, 54)) << "others are served";
}

TEST_F(TrustedTest, AnExecutorThatWasToldNothingLoadsNothing) {
  const ChildProcess executor = start_executor({});
  EXPECT_THAT(error_text_of([&] { run(trusted_ / "libkernel.so"); }),
              HasSubstr("as they were when it was started: none"));
}

TEST_F(TrustedTest, AFolderThatIsNotThereIsRefusedAtTheStart) {
  ChildProcess executor = start_executor({"--trust", folder_.path() / "no"});
  EXPECT_NE(executor.wait().code, 0);
  EXPECT_THAT(output_of(executor_said_), HasSubstr("trusted folder"));
}

}  // namespace
}  // namespace gangway
