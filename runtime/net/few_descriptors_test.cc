// Tests of a process that runs out of file descriptors. Not built with sanitizers: they open pipes
// to look at types, and report a wrong type when they get no pipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/fibers/future.h"
#include "runtime/net/socket_address.h"
#include "runtime/net/transport.h"
#include "runtime/os/descriptor_limit.h"
#include "runtime/tls/tls.h"
#include "tests/support/net/issued_folders.h"

namespace gangway {
namespace {

// Lets this process open only this many more files while the object lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t free) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    const int next = dup(0);
    now.rlim_cur = static_cast<rlim_t>(next) + 16;
    close(next);
    setrlimit(RLIMIT_NOFILE, &now);
    for (int fd = dup(0); fd >= 0; fd = dup(0)) taken_.push_back(fd);
    for (; free > 0 && !taken_.empty(); --free) {
      close(taken_.back());
      taken_.pop_back();
    }
  }
  ~FewDescriptors() {
    for (int fd : taken_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

// The connection takes the last descriptor, and its stream finds none.
TEST(FewDescriptorsTest, AListenerGoesOnAfterAConnectionForWhichThereWereTooFewDescriptors) {
  const auto reactor = Reactor::make_real();
  SocketNetwork network(*reactor);
  int connections = 0;
  std::vector<std::string> told;
  auto listener =
      network.listen("127.0.0.1:0", [&](Incoming) { ++connections; },
                     {.on_trouble = [&](const Error& why) { told.push_back(why.what()); }});
  const auto address = internal::parse_socket_address(listener->address());
  const int early = socket(AF_INET, SOCK_STREAM, 0), late = socket(AF_INET, SOCK_STREAM, 0);
  uint64_t limit = 0;
  {
    const FewDescriptors few(1);
    limit = descriptor_limit().soft;
    ASSERT_EQ(connect(early, address.get(), address.size), 0);
    reactor->run_until([&] {
      char byte;
      return recv(early, &byte, 1, MSG_DONTWAIT) == 0;
    });
  }
  ASSERT_EQ(connect(late, address.get(), address.size), 0);
  const int64_t limit_ns = reactor->clock().now_ns() + 5'000'000'000;
  reactor->run_until([&] { return connections > 0 || reactor->clock().now_ns() > limit_ns; });
  EXPECT_EQ(connections, 1);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], testing::HasSubstr(cat("this process may have ", limit)));
  EXPECT_THAT(told[0], testing::HasSubstr("ulimit -n"));
  close(early);
  close(late);
}

TEST(FewDescriptorsTest, ARenewalThatFindsTooFewDescriptorsIsReadAtTheNextHandshake) {
  const IssuedFolders folders;
  folders.issue("host", {.kind = CertifiedKind::kHost, .name = "node7"});
  folders.issue("owner", {.name = "ada"});
  folders.issue("new", {.name = "ada"});
  const auto reactor = Reactor::make_real();
  reactor->run([&] {
    SocketNetwork plain(*reactor);
    std::vector<ErrorKind> unread;
    Tls host(folders.in("host"));
    Tls owner(folders.in("owner"), [&](const Error& why) { unread.push_back(why.kind()); });
    const int64_t deadline_ns = reactor->clock().now_ns() + 10'000'000'000;
    size_t taken = 0;
    Promise<void> both_taken;
    const auto listener = plain.listen("127.0.0.1:0", [&](Incoming in) {
      if (++taken == 2) both_taken.set();
      (void)host.accept(*reactor, kj::mv(in.stream), Tls::Clients::kCertified, deadline_ns);
    });
    Stream early = plain.connect(listener->address()), late = plain.connect(listener->address());
    both_taken.future().await();
    for (const char* file : {"/certificate.pem", "/key.pem"})
      std::filesystem::rename(folders.in("new") + file, folders.in("owner") + file);
    {
      const FewDescriptors none(0);
      (void)owner.dial(*reactor, kj::mv(early), "there", deadline_ns);
    }
    EXPECT_THAT(unread, testing::ElementsAre(ErrorKind::kOverloaded));
    EXPECT_EQ(owner.own().name.number, 2u);
    (void)owner.dial(*reactor, kj::mv(late), "there", deadline_ns);
    EXPECT_EQ(owner.own().name.number, 3u);
    EXPECT_EQ(unread.size(), 1u);
  });
}

}  // namespace
}  // namespace gangway
