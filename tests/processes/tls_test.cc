// Processes with certificates, as users start them: who may be an executor, who an owner, and what
// the others are told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/user.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/net/issued_folders.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway::tls_processes_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    folders_.issue("node7", {.kind = CertifiedKind::kHost, .name = "node7", .days = 20});
    folders_.issue("ada", {.name = own_user_name()});
    controller_.emplace(start({"controller", "--listen", "127.0.0.1:0", "--page", "127.0.0.1:0",
                               "--log-level", "warn", "--tls", in("node7")},
                              said_));
    EXPECT_TRUE(eventually([&] { return !(address_ = first_line_of(said_)).empty(); }))
        << output_of(said_);
  }

  std::string in(const char* name) const { return folders_.in(name); }
  ChildProcess start(std::vector<std::string> arguments, const AnonymousFile& output) const {
    arguments.insert(arguments.begin(), tests::gangway_tool());
    return ChildProcess({.arguments = std::move(arguments),
                         .environment = {{"GANGWAY_TOKEN_FILE", in("token")}},
                         .output_file = output.path()});
  }
  std::string run(std::vector<std::string> arguments, int status) const {
    AnonymousFile output("output");
    EXPECT_EQ(start(std::move(arguments), output).wait().code, status) << output_of(output);
    return output_of(output);
  }
  // Waits until the controller has printed or logged the text.
  void expect_logged(const std::string& line) const {
    EXPECT_TRUE(eventually([&] { return said_.text().find(line) != std::string::npos; }))
        << line << "\n"
        << said_.text();
  }

  const IssuedFolders folders_;
  AnonymousFile said_{"controller"};
  std::optional<ChildProcess> controller_;
  std::string address_;
};

TEST_F(TlsTest, AHostsCertificateIsItsExecutorsAndAnOwnersItsPrograms) {
  AnonymousFile executor_said("executor");
  ChildProcess executor =
      start({"executor", "--connect", address_, "--tls", in("node7")}, executor_said);
  EXPECT_TRUE(eventually([&] {
    return run({"devices", "--connect", address_, "--tls", in("ada")}, 0).find("node7: island") !=
           std::string::npos;
  })) << executor_said.text();
  EXPECT_THAT(run({"devices", "--connect", address_, "--tls", in("ada")}, 0),
              AllOf(HasSubstr("the controller's certificate ends on"),
                    HasSubstr("its certificate ends on"), HasSubstr(" days: make another")));
  EXPECT_THAT(run({"devices", "--connect", address_, "--metrics", "--tls", in("ada")}, 0),
              HasSubstr("gangway_certificate_end_seconds{host=\"node7\""));
  const Client client = connect(address_, {.name = "p", .tls_folder = in("ada")});
  EXPECT_EQ(client.status().programs.size(), 1u);
  EXPECT_EQ(client.status().programs[0].owner, own_user_name());
}

TEST_F(TlsTest, ACertificateOpensNothingButWhatItNames) {
  const std::string own = own_user_name();
  EXPECT_THAT(run({"executor", "--connect", address_, "--tls", in("ada")}, 2),
              HasSubstr(cat("expected a certificate: that of host ", own, ", got that of owner ",
                            own, " (number 2)")));
  expect_logged(cat("shows the certificate of owner ", own, " (number 2)"));
  EXPECT_THAT(
      run({"executor", "--connect", address_, "--name", "node8", "--tls", in("node7")}, 2),
      HasSubstr("expected a certificate: that of host node8, got that of host node7 (number 1)"));
  EXPECT_THAT(error_text_of([&] { connect(address_, {.name = "p", .tls_folder = in("node7")}); }),
              HasSubstr("expected a certificate: an owner's, got that of host node7 (number 1)"));
  expect_logged("client \"p\" shows the certificate of host node7");
}

TEST_F(TlsTest, WithoutACertificateOrWithARevokedOneThereIsOnlyARefusal) {
  EXPECT_THAT(run({"ps", "--connect", address_}, 2),
              AllOf(HasSubstr("takes connections by TLS only"), HasSubstr("--tls")));
  expect_logged("it does not speak TLS");
  run({"cert", "revoke", "2", "--tls", in("node7")}, 0);
  EXPECT_THAT(run({"ps", "--connect", address_, "--tls", in("ada")}, 2),
              HasSubstr(cat("owner ", own_user_name(), " (number 2): it was revoked")));
  expect_logged(cat("the certificate of owner ", own_user_name(), " (number 2) was revoked"));
}

TEST_F(TlsTest, ThePageIsPrintedAtTheAddressToWhichItIsBound) {
  expect_logged(cat("page: https://", "127.0.0.1:"));
}

TEST_F(TlsTest, WithoutTlsNothingListensBeyondThisMachine) {
  const std::vector<std::vector<std::string>> commands = {
      {"--listen", "0.0.0.0:0"}, {"--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"}};
  for (const std::vector<std::string>& options : commands) {
    std::vector<std::string> arguments{"controller"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_THAT(run(arguments, 2), AllOf(HasSubstr("is beyond this machine"), HasSubstr("--tls")));
  }
}

}  // namespace
}  // namespace gangway::tls_processes_test
