// Tokens between processes as users start them: a process that shows no token, or a wrong one, gets
// an error that says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "client/client.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class TokenTest : public testing::Test {
 protected:
  // Starts `gangway ...` as a user whose token file is `token_`.
  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", token_}},
                         .output_file = output.path()});
  }
  std::string run(std::vector<std::string> arguments, int status) const {
    AnonymousFile output("output");
    EXPECT_EQ(start(std::move(arguments), output).wait().code, status) << output_of(output);
    return output_of(output);
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  const TempDir folder_;
  const std::string token_ = (folder_.path() / "state" / "token").string();
};

TEST_F(TokenTest, ATcpPortAsksForATokenThatProcessesOfItsUserFindByThemselves) {
  AnonymousFile said("controller"), executor_said("executor");
  ChildProcess controller =
      start({"controller", "--listen", "127.0.0.1:0", "--log-level", "warn"}, said);
  std::string address;
  ASSERT_TRUE(eventually([&] { return !(address = first_line_of(said)).empty(); }));
  struct stat status{};
  ASSERT_EQ(stat(token_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  ChildProcess executor =
      start({"executor", "--connect", address, "--name", "host-0"}, executor_said);
  EXPECT_TRUE(eventually([&] {
    return run({"devices", "--connect", address}, 0).find("host-0") != std::string::npos;
  })) << executor_said.text();

  const std::string nowhere = path("none");
  EXPECT_THAT(run({"ps", "--connect", address, "--token-file", nowhere}, 2),
              AllOf(HasSubstr(cat(address, " asks for a token: there is none in ", nowhere)),
                    HasSubstr("--token-file or GANGWAY_TOKEN_FILE")));
  run({"token", "add", "eve", "--out", path("of-another-controller"), "--token-file",
       path("other-state")},
      0);
  EXPECT_THAT(
      error_text_of([&] { connect(address, {.token_file = path("of-another-controller")}); }),
      HasSubstr(cat(address, " does not take the token in ", path("of-another-controller"))));
  EXPECT_TRUE(eventually([&] {
    const std::string log = said.text();
    return log.find("it shows no token") != log.npos &&
           log.find("nobody has the token that it shows") != log.npos;
  })) << said.text();
}

TEST_F(TokenTest, ASecondOwnerUsesTheControllerUntilItsTokenIsRemoved) {
  AnonymousFile said("controller");
  ChildProcess controller = start({"controller", "--listen", "127.0.0.1:0"}, said);
  std::string address;
  ASSERT_TRUE(eventually([&] { return !(address = first_line_of(said)).empty(); }));
  EXPECT_EQ(run({"token", "add", "bob", "--out", path("bob")}, 0), "");
  EXPECT_THAT(run({"token", "list"}, 0), HasSubstr("  bob\n"));
  {
    const Client bob = connect(address, {.name = "bobs", .token_file = path("bob")});
    const std::vector<ProgramStatus> programs = bob.status().programs;
    ASSERT_EQ(programs.size(), 1u);
    EXPECT_EQ(programs[0].owner, "bob");
    EXPECT_EQ(programs[0].name, "bobs");
    // Only the user that runs the controller sees that another owner's program exists.
    const Client own = connect(address, {.name = "own", .token_file = token_});
    for (const char* name : {"own", "nothing"}) {
      const std::string asked = cat(own_user_name(), "/", name);
      EXPECT_THAT(error_text_of([&] { bob.stop_program(asked, 0); }),
                  HasSubstr(cat("there is no program \"", asked, "\" that bob may end")));
    }
    EXPECT_EQ(own.status().programs.size(), 2u);
    EXPECT_TRUE(own.stop_program("bob/bobs", 0));
    EXPECT_EQ(own.status().programs.size(), 1u);
  }
  EXPECT_THAT(run({"executor", "--connect", address, "--token-file", path("bob")}, 2),
              HasSubstr(cat("expected one of ", own_user_name(), ", who runs the controller")));
  run({"token", "remove", "bob"}, 0);
  EXPECT_THAT(error_text_of([&] { connect(address, {.token_file = path("bob")}); }),
              HasSubstr("does not take the token"));
  EXPECT_THAT(run({"token", "remove", "bob"}, 2), HasSubstr("there is none of \"bob\""));
}

}  // namespace
}  // namespace gangway
