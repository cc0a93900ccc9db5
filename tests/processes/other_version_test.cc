// Processes of two versions of Gangway refuse one another in words, whichever of them is the older.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "protocol/rpc_values.h"
#include "protocol/token_file.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/processes/process_tree.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::HasSubstr;

const Version kOther{.protocol = kProtocolVersion + 1, .release = "9.9.9"};

// A controller of another version.
class OtherController final : public wire::Controller::Server {
  kj::Promise<void> registerExecutor(RegisterExecutorContext context) override {
    return in_fiber("register", [context]() mutable {
      auto params = context.getParams();
      require_same_version(kOther, read(params.getVersion()),
                           cat("executor \"", params.getDescription().getName().cStr(), "\""));
    });
  }
};

TEST(OtherVersionTest, AnExecutorThatItsControllerRefusesSaysWhyAndExitsWithTwo) {
  auto reactor = Reactor::make_real();
  SocketNetwork network(*reactor);
  Server server(*reactor, network, "127.0.0.1:0",
                {.bootstrap = [](const Peer&) { return kj::heap<OtherController>(); }});
  AnonymousFile said("executor.log");
  ChildProcess executor({.arguments = {tests::gangway_tool(), "executor", "--connect",
                                       server.address(), "--name", "host-3"},
                         .output_file = said.path()});
  const ExitStatus status = reactor->run([&] { return executor.exited(*reactor).await(); });
  EXPECT_EQ(status.code, 2) << to_string(status);
  EXPECT_THAT(said.text(), HasSubstr(cat("executor \"host-3\": of another version: expected "
                                         "protocol ",
                                         kOther.protocol, " (release 9.9.9), got protocol ",
                                         kProtocolVersion, " (release ", kRelease, ")")));
  EXPECT_THAT(said.text(), HasSubstr("run the same release of Gangway everywhere"));
}

TEST(OtherVersionTest, AControllerRefusesExecutorsAndClientsOfAnotherVersion) {
  AnonymousFile said("controller.log");
  ChildProcess controller(
      {.arguments = {tests::gangway_tool(), "controller", "--listen", "127.0.0.1:0"},
       .output_file = said.path()});
  std::string address;
  ASSERT_TRUE(eventually([&] { return !(address = first_line_of(said)).empty(); }));
  auto reactor = Reactor::make_real();
  SocketNetwork network(*reactor);
  const auto refusal_of = [&](auto&& ask) {
    return reactor->run([&]() -> std::string {
      Connection connection =
          Connection::connect(*reactor, network, address, {.token = shown_at(address, {})});
      try {
        ask(connection.bootstrap<wire::Controller>());
      } catch (const Error& error) {
        return error.what();
      }
      return "none";
    });
  };
  const std::string executor = refusal_of([](wire::Controller::Client to) {
    auto request = to.registerExecutorRequest();
    write(request.initVersion(), kOther);
    request.initDescription().setName("host-3");
    await(request.send());
  });
  const std::string client = refusal_of([](wire::Controller::Client to) {
    auto request = to.connectRequest();
    write(request.initVersion(), kOther);
    request.setName("trainer");
    await(request.send());
  });
  EXPECT_THAT(executor, HasSubstr("executor \"host-3\": of another version: expected protocol"));
  EXPECT_THAT(executor, HasSubstr("(release 9.9.9)"));
  EXPECT_THAT(client, HasSubstr("client \"trainer\": of another version: expected protocol"));
}

}  // namespace
}  // namespace gangway
