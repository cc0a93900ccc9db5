#include "tools/commands/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/limit_hint.h"

namespace gangway::tool {
namespace {

bool is_ignored(int number) {
  struct sigaction action{};
  sigaction(number, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

// Ends the process by the signal, so that a shell shows 128 + its number.
void end_by(int number) {
  ::signal(number, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  raise(number);
}

}  // namespace

StopSignals::StopSignals(std::string notice) : notice_(std::move(notice)) {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (!is_ignored(number)) sigaddset(&taken, number);
  }
  end_fd_ = eventfd(0, EFD_CLOEXEC);
  signals_fd_ = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
  if (end_fd_ < 0 || signals_fd_ < 0)
    throw Error(ErrorKind::kOverloaded, cat("signals: no file for them: ", std::strerror(errno)),
                {}, limit_hint(errno));
  pthread_sigmask(SIG_BLOCK, &taken, &before_);
  thread_ = Thread("signals", [this] { take_signals(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(end_fd_, &one, sizeof(one));
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  close(signals_fd_);
  close(end_fd_);
}

void StopSignals::take_signals() {
  pollfd watched[] = {{.fd = signals_fd_, .events = POLLIN, .revents = 0},
                      {.fd = end_fd_, .events = POLLIN, .revents = 0}};
  int taken = 0, by_hand = 0;
  while (true) {
    poll(watched, 2, -1);
    signalfd_siginfo signal{};
    while (read(signals_fd_, &signal, sizeof(signal)) == sizeof(signal)) {
      const auto number = static_cast<int>(signal.ssi_signo);
      ++taken;
      // A terminal that goes away sends SIGHUP several times, and a system that ends a session
      // sends it beside SIGTERM.
      if (number != SIGHUP && ++by_hand > 1) end_by(number);
    }
    if (taken > 0 && !is_asked_) {
      // A terminal may still have an open line, so the notice begins a new one.
      std::fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) == 1 ? "\n" : "", notice_.c_str());
      is_asked_ = true;
    }
    if ((watched[1].revents & POLLIN) != 0) return;
  }
}

}  // namespace gangway::tool
