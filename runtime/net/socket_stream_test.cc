#include "runtime/net/socket_stream.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"

namespace gangway {
namespace {

// A socket_stream(), and the raw socket of its peer.
struct Pair {
  Pair() {
    int ends[2];
    KJ_SYSCALL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends));
    stream = internal::socket_stream(*reactor->port().unix_port(), kj::AutoCloseFd(ends[0]));
    peer = kj::AutoCloseFd(ends[1]);
  }

  // Reads all bytes that have arrived.
  std::string peer_reads() const {
    std::string text(1 << 20, '\0');
    const ssize_t n = ::read(peer, text.data(), text.size());
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return text;
  }
  void peer_writes(const std::string& text) const {
    EXPECT_EQ(::write(peer, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string reads(size_t min_bytes, size_t max_bytes) {
    std::string text(max_bytes, '\0');
    reactor->run([&] { text.resize(await(stream->tryRead(text.data(), min_bytes, max_bytes))); });
    return text;
  }

  std::unique_ptr<Reactor> reactor = Reactor::make_real();
  Stream stream;
  kj::AutoCloseFd peer;
};

// Whether a process that sleeps in its event loop would wake: some epoll descriptor has events.
bool would_wake() {
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(fd.path(), gone) != "anon_inode:[eventpoll]") continue;
    pollfd state{std::stoi(fd.path().filename().string()), POLLIN, 0};
    if (::poll(&state, 1, 0) > 0) return true;
  }
  return false;
}

TEST(SocketStream, APeerThatReadsWakesNobody) {
  Pair pair;
  pair.reactor->run([&] { await(pair.stream->write("hello", 5)); });
  pair.reactor->run_ready();
  ASSERT_FALSE(would_wake());
  EXPECT_EQ(pair.peer_reads(), "hello");
  EXPECT_FALSE(would_wake());
  pair.peer_writes("an answer");
  EXPECT_TRUE(would_wake());
}

TEST(SocketStream, ReadsWhatComesUntilThePeerLeaves) {
  Pair pair;
  pair.peer_writes("one");
  EXPECT_EQ(pair.reads(1, 100), "one");
  for (const std::string text : {"two", "three"}) {
    std::string got(100, '\0');
    Fiber reader = pair.reactor->spawn(
        "reader", [&] { got.resize(await(pair.stream->tryRead(got.data(), 1, got.size()))); });
    pair.reactor->run_ready();
    EXPECT_FALSE(reader.done());
    pair.peer_writes(text);
    reader.join();
    EXPECT_EQ(got, text);
  }
  pair.peer_writes("the last words");
  pair.peer = nullptr;
  EXPECT_EQ(pair.reads(1, 100), "the last words");
  EXPECT_EQ(pair.reads(1, 100), "");
}

TEST(SocketStream, AReadWaitsForAllThatItWants) {
  Pair pair;
  std::string got(6, '\0');
  Fiber reader = pair.reactor->spawn("reader", [&] { await(pair.stream->read(got.data(), 6)); });
  for (const std::string text : {"ab", "cd", "ef"}) {
    EXPECT_FALSE(reader.done());
    pair.peer_writes(text);
    pair.reactor->run_ready();
  }
  reader.join();
  EXPECT_EQ(got, "abcdef");
}

TEST(SocketStream, WritesMoreThanTheSystemTakesAtOnce) {
  Pair pair;
  std::string all;
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    texts.emplace_back(static_cast<size_t>(i * 13), static_cast<char>('a' + i % 26));
    all += texts.back();
  }
  std::vector<kj::ArrayPtr<const kj::byte>> pieces;
  for (const std::string& text : texts)
    pieces.emplace_back(reinterpret_cast<const kj::byte*>(text.data()), text.size());
  Fiber writer = pair.reactor->spawn(
      "writer", [&] { await(pair.stream->write(kj::arrayPtr(pieces.data(), pieces.size()))); });
  pair.reactor->run_ready();
  EXPECT_FALSE(writer.done());  // A socket takes some 200 KiB.
  std::string got;
  while (got.size() < all.size()) {
    got += pair.peer_reads();
    pair.reactor->run_ready();
  }
  writer.join();
  EXPECT_TRUE(got == all);
}

TEST(SocketStream, APeerThatHasGoneIsADisconnection) {
  Pair pair;
  pair.peer = nullptr;
  const Result<void> written = pair.reactor->run([&] {
    return result_of([&] { await(kj::evalNow([&] { return pair.stream->write("hello", 5); })); });
  });
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind(), ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace gangway
