#include "runtime/net/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runtime/fibers/await.h"
#include "runtime/net/sim_network.h"
#include "runtime/net/socket_address.h"
#include "runtime/os/temp_dir.h"
#include "tests/support/error_of.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

void ignore(Incoming) {}

TEST(SocketAddress, ReadsBackWhatItPrints) {
  for (const char* text : {"127.0.0.1:7040", "[::1]:7040", "unix:/tmp/x", "10.1.2.3:0"})
    EXPECT_EQ(internal::parse_socket_address(text).text(), text);
  EXPECT_EQ(internal::parse_socket_address("localhost:1").text(), "127.0.0.1:1");
}

TEST(SocketAddress, InvalidAddressesAreRefusedWithTheReason) {
  for (const char* text : {"", "7040", ":7040", "127.0.0.1:", "127.0.0.1:70400", "127.0.0.1:x",
                           "unix:", "127.0.0.1:-1"}) {
    EXPECT_THAT(error_text_of([&] { internal::parse_socket_address(text); }),
                HasSubstr(cat("invalid: address \"", text, "\": ")));
  }
  EXPECT_THAT(
      error_text_of([] { internal::parse_socket_address("unix:/" + std::string(200, 'x')); }),
      HasSubstr("1 to 107 bytes"));
}

class SocketTest : public testing::Test {
 protected:
  TempDir dir_;
  std::unique_ptr<Reactor> reactor_ = Reactor::make_real();
  SocketNetwork network_{*reactor_};
};

TEST_F(SocketTest, PortInUseNamesThePortAndWhatToDo) {
  auto first = network_.listen("127.0.0.1:0", ignore);
  const std::string text = error_text_of([&] { (void)network_.listen(first->address(), ignore); });
  EXPECT_THAT(text, HasSubstr("listen: " + first->address() + " is in use by another process"));
  EXPECT_THAT(text, HasSubstr("choose another port"));
}

TEST_F(SocketTest, ListeningForOtherMachinesIsRefusedWithAWayOut) {
  for (const char* address : {"0.0.0.0:0", "192.0.2.1:7040", "[::]:0"}) {
    const std::string text = error_text_of([&] { (void)network_.listen(address, ignore); });
    EXPECT_THAT(text, HasSubstr("not encrypted"));
    EXPECT_THAT(text, AllOf(HasSubstr("--tls"), HasSubstr("ssh -L")));
  }
}

TEST_F(SocketTest, ConnectingToAnotherMachineWithoutTlsIsRefused) {
  for (const char* address : {"192.0.2.1:7040", "[2001:db8::1]:7040"}) {
    EXPECT_THAT(error_text_of([&] { (void)network_.connect(address); }),
                AllOf(HasSubstr(cat("invalid: connect: ", address, " is beyond this machine")),
                      HasSubstr("--tls")));
  }
}

TEST_F(SocketTest, ConnectGivesUpAfterItsTimeLimitAndNamesTheAddress) {
  std::string address;
  {
    auto closed_again = network_.listen("127.0.0.1:0", ignore);
    address = closed_again->address();
  }
  const std::string text =
      error_text_of([&] { (void)network_.connect(address, {.time_limit = 30ms}); });
  EXPECT_THAT(text, HasSubstr("unavailable: connect: nobody answers at " + address));
  EXPECT_THAT(text, HasSubstr("after 30.0 ms"));
}

TEST_F(SocketTest, ConnectWaitsForAListenerThatStartsLater) {
  const std::string address = "unix:" + (dir_.path() / "late").string();
  std::unique_ptr<Listener> listener;
  Fiber starter = reactor_->spawn("start", [&] {
    reactor_->clock().sleep_for(20ms);
    listener = network_.listen(address, ignore);
  });
  EXPECT_NO_THROW((void)network_.connect(address));
  starter.join();
}

TEST_F(SocketTest, UnixSocketIsPrivateReplacesAStaleFileAndIsRemovedAtTheEnd) {
  const std::string path = (dir_.path() / "s").string();
  {
    // A killed process leaves behind a bound socket that nobody listens on.
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const auto address = internal::parse_socket_address("unix:" + path);
    ASSERT_EQ(bind(fd, address.get(), address.size), 0);
    close(fd);
  }
  auto listener = network_.listen("unix:" + path, ignore);
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THAT(error_text_of([&] { (void)network_.listen("unix:" + path, ignore); }),
              HasSubstr("in use"));
  listener.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SocketTest, ListeningAtAPathThatIsNoSocketLeavesWhatIsThere) {
  const std::filesystem::path file = dir_.path() / "notes", link = dir_.path() / "link",
                              folder = dir_.path() / "folder";
  std::ofstream(file) << "precious";
  std::filesystem::create_symlink(file, link);
  std::filesystem::create_directory(folder);
  for (const auto& [path, kind] :
       {std::pair(file, "is a regular file that is already there"),
        std::pair(link, "is a symbolic link"), std::pair(folder, "is a folder")}) {
    EXPECT_THAT(
        error_text_of([&, &at = path] { (void)network_.listen("unix:" + at.string(), ignore); }),
        AllOf(HasSubstr("listen: unix:" + path.string()), HasSubstr(kind),
              HasSubstr("choose another path")));
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_directory(folder));
  std::string text;
  std::ifstream(file) >> text;
  EXPECT_EQ(text, "precious");
}

TEST_F(SocketTest, AListenerThatEndsLeavesAFileThatTookItsPath) {
  const std::filesystem::path path = dir_.path() / "s";
  auto listener = network_.listen("unix:" + path.string(), ignore);
  std::filesystem::remove(path);
  std::ofstream(path) << "precious";
  listener.reset();
  EXPECT_TRUE(std::filesystem::is_regular_file(path));
}

class SimNetworkTest : public testing::Test {
 protected:
  ~SimNetworkTest() noexcept override {}
  // Opens one connection; the bytes that the server has read so far are in `received_`.
  void open(SimNetworkOptions options) {
    network_ = std::make_unique<SimNetwork>(*reactor_, options);
    listener_ = network_->endpoint("b").listen("sim:b", [this](Incoming in) {
      Stream stream = kj::mv(in.stream);
      char byte;
      try {
        while (await(stream->tryRead(&byte, 1, 1)) == 1) received_ += byte;
        received_ += '.';
      } catch (const Error& error) {
        received_ += '!';
      }
      ended_at_ns_ = reactor_->clock().now_ns();
    });
    stream_ = network_->endpoint("a").connect("sim:b");
  }
  void write(char c) { await(stream_->write(&c, 1)); }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = 3});
  std::unique_ptr<SimNetwork> network_;
  std::unique_ptr<Listener> listener_;
  std::string received_;
  int64_t ended_at_ns_ = -1;
  Stream stream_;
};

TEST_F(SimNetworkTest, DelayedBytesArriveInOrderAndLastOfAllTheEnd) {
  open({.delay = 1ms, .jitter = 5ms});
  for (char c = 'a'; c <= 'z'; ++c) write(c);
  EXPECT_EQ(received_, "");
  stream_ = nullptr;
  reactor_->run_until([&] { return ended_at_ns_ >= 0; });
  EXPECT_EQ(received_, "abcdefghijklmnopqrstuvwxyz.");
  EXPECT_GE(ended_at_ns_, 1'000'000);
}

TEST_F(SimNetworkTest, PartitionHoldsBytesAndConnectionsUntilItHeals) {
  open({});
  write('1');
  network_->partition("a", "b");
  write('2');
  reactor_->run([&] { reactor_->clock().sleep_for(1s); });
  EXPECT_EQ(received_, "1");
  EXPECT_THAT(
      error_text_of([&] { (void)network_->endpoint("a").connect("sim:b", {.time_limit = 1s}); }),
      HasSubstr("unavailable: connect: nobody answers at sim:b"));
  network_->heal("a", "b");
  reactor_->run_ready();
  EXPECT_EQ(received_, "12");
}

TEST_F(SimNetworkTest, BrokenConnectionEndsBothSides) {
  open({.delay = 1ms});
  write('1');
  reactor_->run([&] { reactor_->clock().sleep_for(1s); });
  network_->break_connections("b");
  reactor_->run_ready();
  EXPECT_EQ(received_, "1!");
  EXPECT_THAT(error_text_of([&] { write('2'); }), HasSubstr("unavailable"));
}

TEST_F(SimNetworkTest, AListenerThatIsGoneTakesNoConnection) {
  SimNetwork network(*reactor_);
  bool taken = false;
  auto listener = network.endpoint("b").listen("sim:b", [&](Incoming) { taken = true; });
  Stream stream;
  reactor_->run([&] {
    stream = network.endpoint("a").connect("sim:b");
    listener.reset();  // Before the connection's fiber has begun.
    char byte;
    EXPECT_EQ(await(stream->tryRead(&byte, 1, 1)), 0u) << "it is closed";
  });
  EXPECT_FALSE(taken);
}

TEST_F(SimNetworkTest, OneSeedGivesOneSetOfDelays) {
  const auto run_once = [](uint64_t seed) {
    auto reactor = Reactor::make_simulated({.seed = seed});
    SimNetwork network(*reactor, {.delay = 1us, .jitter = 1ms});
    auto listener = network.endpoint("b").listen("sim:b", [](Incoming in) {
      Stream stream = kj::mv(in.stream);
      char byte;
      while (await(stream->tryRead(&byte, 1, 1)) == 1) await(stream->write(&byte, 1));
    });
    reactor->run([&] {
      Stream stream = network.endpoint("a").connect("sim:b");
      for (int i = 0; i < 20; ++i) {
        char byte = 'x';
        await(stream->write(&byte, 1));
        await(stream->read(&byte, 1));
      }
    });
    return reactor->clock().now_ns();
  };
  reactor_.reset();
  EXPECT_EQ(run_once(5), run_once(5));
  EXPECT_NE(run_once(5), run_once(6));
}

}  // namespace
}  // namespace gangway
