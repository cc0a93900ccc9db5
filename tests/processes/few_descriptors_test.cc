// A controller that runs out of file descriptors logs this once, with the limit, and goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gangway.h"
#include "runtime/net/server.h"
#include "runtime/net/socket_address.h"
#include "runtime/net/transport.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "runtime/os/temp_dir.h"
#include "tests/processes/process_tree.h"
#include "tests/support/error_of.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway {
namespace {

using testing::HasSubstr;

class FewDescriptorsTest : public testing::Test {
 protected:
  // Starts a controller in a shell that has set these limits with ulimit.
  ChildProcess start(const std::string& limits, const std::string& listen = "127.0.0.1:0") const {
    return ChildProcess({.arguments = {"/bin/sh", "-c",
                                       cat(limits, "; exec ", tests::gangway_tool(),
                                           " controller --listen ", listen)},
                         .output_file = said_.path()});
  }
  std::string address() const {
    std::string address;
    EXPECT_TRUE(eventually([&] { return !(address = first_line_of(said_)).empty(); }));
    return address;
  }
  size_t complaints() const {
    const std::string text = output_of(said_);
    size_t count = 0;
    for (size_t at = text.find(kComplaint); at != std::string::npos;
         at = text.find(kComplaint, at + 1))
      ++count;
    return count;
  }

  static constexpr char kComplaint[] = "no connection can be taken";
  const AnonymousFile said_{"controller"};
};

TEST_F(FewDescriptorsTest, AControllerWithoutDescriptorsSaysSoOnceAndServesOthersLater) {
  ChildProcess controller = start("ulimit -n 48");
  const std::string at = address();
  const auto target = internal::parse_socket_address(at);
  const Client client = gangway::connect(at);
  std::vector<int> idle;  // Each holds one of the controller's descriptors for ten seconds.
  for (int i = 0; i < 64; ++i) {
    idle.push_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(idle.back(), target.get(), target.size), 0);
  }
  EXPECT_TRUE(eventually([&] { return complaints() > 0; })) << output_of(said_);
  for (int i = 0; i < 50; ++i) client.status();  // The controller goes on trying meanwhile.
  EXPECT_THAT(client.status().metrics, HasSubstr("gangway_out_of_descriptors_total 1\n"));
  EXPECT_EQ(complaints(), 1u) << output_of(said_);
  EXPECT_THAT(output_of(said_), HasSubstr("this process may have 48 files and connections open"));
  for (const int fd : idle) close(fd);
  gangway::connect(at).close();
  client.close();
  controller.signal(SIGTERM);
  EXPECT_TRUE(controller.wait().ok());
}

TEST_F(FewDescriptorsTest, AControllerTakesAsManyDescriptorsAsTheSystemAllows) {
  const ChildProcess controller = start("ulimit -S -n 48; ulimit -H -n 200");
  const std::string at = address();
  const auto target = internal::parse_socket_address(at);
  std::vector<int> idle;
  for (int i = 0; i < 64; ++i) {
    idle.push_back(socket(AF_INET, SOCK_STREAM, 0));
    ASSERT_EQ(connect(idle.back(), target.get(), target.size), 0);
  }
  gangway::connect(at).close();
  EXPECT_EQ(complaints(), 0u);
  for (const int fd : idle) close(fd);
}

TEST_F(FewDescriptorsTest, OneUserHasConnectionsForAtMostAQuarterOfTheDescriptors) {
  const TempDir folder;
  const ChildProcess controller =
      start("ulimit -n 64", cat("unix:", (folder.path() / "gangway.sock").string()));
  const std::string at = address();
  const auto reactor = Reactor::make_real();
  reactor->run([&] {
    SocketNetwork network(*reactor);
    std::vector<Connection> taken;
    const Error refused = error_of([&] {
      while (taken.size() < 64) taken.push_back(Connection::connect(*reactor, network, at));
    });
    EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
    EXPECT_THAT(refused.what(),
                HasSubstr("has as many connections of this user as one user may have"));
    EXPECT_EQ(taken.size(), 16u);
  });
}

}  // namespace
}  // namespace gangway
