#include "runtime/os/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/base/limit_hint.h"
#include "runtime/net/fd_watch.h"

namespace gangway {
namespace {

// Descriptor that the handler writes to. A global, since a handler gets no argument of ours.
std::atomic<int> handler_fd{-1};

void on_signal(int number) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = write(handler_fd.load(), &byte, 1);
  errno = saved;
}

}  // namespace

Signals::Signals(Reactor& reactor, std::initializer_list<int> numbers) : reactor_(reactor) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
    throw Error(ErrorKind::kOverloaded, cat("signals: no pipe: ", std::strerror(errno)), {},
                limit_hint(errno));
  read_fd_ = fds[0];
  write_fd_ = fds[1];
  int none = -1;
  GW_ASSERT(handler_fd.compare_exchange_strong(none, write_fd_), "one Signals at a time");
  for (const int number : numbers) {
    struct sigaction action{}, before{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, &before);
    before_.emplace_back(number, before);
  }
}

Signals::~Signals() {
  for (const auto& [number, action] : before_) sigaction(number, &action, nullptr);
  handler_fd = -1;
  close(read_fd_);
  close(write_fd_);
}

bool Signals::was_ignored(int number) const {
  return std::ranges::any_of(before_, [number](const auto& one) {
    return one.first == number && one.second.sa_handler == SIG_IGN;
  });
}

int Signals::next() {
  unsigned char number = 0;
  while (read(read_fd_, &number, 1) != 1) internal::wait_readable(reactor_, read_fd_);
  return number;
}

}  // namespace gangway
