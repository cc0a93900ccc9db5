#include "runtime/os/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "runtime/base/durable_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/limit_hint.h"
#include "runtime/net/fd_watch.h"

extern char** environ;

namespace gangway {
namespace {

constexpr char kLifelineVariable[] = "GANGWAY_LIFELINE_FD";

// All that the child needs, prepared before fork(): in the child only async-signal-safe calls are
// allowed.
struct Plan {
  std::vector<char*> arguments;
  std::vector<char*> environment;
  int output_fd = -1;
  int lifeline_fd = -1;
  int failure_fd = -1;
  pid_t parent = 0;
};

struct Pipe {
  Pipe() {
    if (pipe2(fds, O_CLOEXEC) != 0)
      throw Error(ErrorKind::kOverloaded, cat("process: no pipe: ", std::strerror(errno)), {},
                  limit_hint(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int i) {
    if (fds[i] >= 0) close(std::exchange(fds[i], -1));
  }
  int fds[2] = {-1, -1};
};

[[noreturn]] void run_child(const Plan& plan) {
  const auto give_up = [&plan] {
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(plan.failure_fd, &error, sizeof error);
    _exit(127);
  };
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // The parent died before the line above.
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  if (plan.output_fd >= 0 && (dup2(plan.output_fd, 1) < 0 || dup2(plan.output_fd, 2) < 0))
    give_up();
  if (fcntl(plan.lifeline_fd, F_SETFD, 0) != 0) give_up();
  execvpe(plan.arguments[0], plan.arguments.data(), plan.environment.data());
  give_up();
  _exit(127);
}

ExitStatus from_wait_status(int status) {
  if (WIFSIGNALED(status)) return {.code = 0, .signal = WTERMSIG(status)};
  return {.code = WEXITSTATUS(status), .signal = 0};
}

std::vector<std::string> child_environment(const ChildOptions& options, int lifeline_fd) {
  std::vector<std::string> lines;
  const auto is_replaced = [&options](std::string_view line) {
    const std::string_view key = line.substr(0, line.find('='));
    if (key == kLifelineVariable) return true;
    for (const auto& [name, value] : options.environment) {
      if (key == name) return true;
    }
    return false;
  };
  for (char** line = environ; *line != nullptr; ++line) {
    if (!is_replaced(*line)) lines.emplace_back(*line);
  }
  for (const auto& [name, value] : options.environment) lines.push_back(cat(name, "=", value));
  lines.push_back(cat(kLifelineVariable, "=", lifeline_fd));
  return lines;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

std::string to_string(const ExitStatus& status) {
  if (status.signal != 0)
    return cat("was killed by signal ", status.signal, " (", strsignal(status.signal), ")");
  return cat("exited with status ", status.code);
}

ChildProcess::ChildProcess(ChildOptions options) {
  GW_REQUIRE(!options.arguments.empty(), "process: no program to start");
  Pipe lifeline, failure;
  Plan plan;
  plan.arguments = pointers(options.arguments);
  std::vector<std::string> environment = child_environment(options, lifeline.fds[0]);
  plan.environment = pointers(environment);
  plan.lifeline_fd = lifeline.fds[0];
  plan.failure_fd = failure.fds[1];
  plan.parent = getpid();
  if (!options.output_file.empty()) {
    plan.output_fd =
        open(options.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (plan.output_fd < 0) fail_file("open the output file", options.output_file, errno);
  }
  pid_ = fork();
  if (pid_ == 0) run_child(plan);
  const int fork_error = errno;
  if (plan.output_fd >= 0) close(plan.output_fd);
  if (pid_ < 0)
    throw Error(ErrorKind::kOverloaded, cat("process: can't start: ", std::strerror(fork_error)),
                {}, limit_hint(fork_error));
  failure.close_end(1);
  try {
    if (options.reactor != nullptr) internal::wait_readable(*options.reactor, failure.fds[0]);
  } catch (...) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    throw;
  }
  int error = 0;
  ssize_t n;
  while ((n = read(failure.fds[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == sizeof error) {
    waitpid(pid_, nullptr, 0);
    throw Error(ErrorKind::kInvalid,
                cat("process: can't start ", options.arguments[0], ": ", std::strerror(error)));
  }
  pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  const int pid_fd_error = errno;
  lifeline_fd_ = std::exchange(lifeline.fds[1], -1);
  if (pid_fd_ >= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(lifeline_fd_);
  throw Error(ErrorKind::kOverloaded,
              cat("process: can't watch ", options.arguments[0], ": ", std::strerror(pid_fd_error)),
              {}, limit_hint(pid_fd_error));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pid_fd_(std::exchange(other.pid_fd_, -1)),
      lifeline_fd_(std::exchange(other.lifeline_fd_, -1)),
      status_(other.status_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pid_fd_, other.pid_fd_);
  std::swap(lifeline_fd_, other.lifeline_fd_);
  std::swap(status_, other.status_);
  return *this;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !poll()) {
    signal(SIGKILL);
    wait();
  }
  if (pid_fd_ >= 0) close(pid_fd_);
  if (lifeline_fd_ >= 0) close(lifeline_fd_);
}

void ChildProcess::signal(int number) {
  // The system does not give the number to another process before this one is reaped.
  if (!status_) kill(pid_, number);
}

ExitStatus ChildProcess::wait() {
  int status = 0;
  while (!status_) {
    if (waitpid(pid_, &status, 0) == pid_) {
      status_ = from_wait_status(status);
    } else if (errno != EINTR) {
      status_ = ExitStatus{.code = 127};  // Other code reaped the child.
    }
  }
  return *status_;
}

std::optional<ExitStatus> ChildProcess::poll() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = from_wait_status(status);
  return status_;
}

Future<ExitStatus> ChildProcess::exited(Reactor& reactor) {
  Promise<ExitStatus> promise;
  Future<ExitStatus> future = promise.future();
  reactor
      .spawn("wait for process",
             [this, &reactor, p = std::move(promise)]() mutable {
               if (!poll()) internal::wait_readable(reactor, pid_fd_);
               p.set(wait());
             })
      .detach();
  return future;
}

Future<void> parent_gone(Reactor& reactor) {
  Promise<void> promise;
  Future<void> future = promise.future();
  reactor
      .spawn("watch parent",
             [&reactor, p = std::move(promise)]() mutable {
               const std::optional<std::string> text = environment_value(kLifelineVariable);
               const int fd = text ? std::atoi(text->c_str()) : -1;
               if (fd < 0 || fcntl(fd, F_GETFD) < 0) {
                 WaitQueue never;
                 never.wait("for a parent that is none");
               }
               // Nothing is ever written: readable means end of file.
               internal::wait_readable(reactor, fd);
               p.set();
             })
      .detach();
  return future;
}

}  // namespace gangway
