#include "executor/service/lasting_executor.h"

#include <algorithm>
#include <utility>

#include "runtime/base/units.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/net/server.h"

namespace gangway {
namespace {

constexpr uint64_t kBackOffStream = 0xBACC0FF;
constexpr int64_t kAttemptMs = 1000;
constexpr int64_t kLogAgainNs = 60'000'000'000;
// A registration that lasts this long was a success: the back-off begins anew.
constexpr int64_t kKeptNs = 10'000'000'000;

}  // namespace

LastingExecutor::LastingExecutor(Reactor& reactor, Network& network, ExecutorServiceOptions options,
                                 const ControllerWait& wait)
    : reactor_(reactor),
      network_(network),
      options_(std::move(options)),
      wait_(wait),
      back_off_(reactor.rng().fork(kBackOffStream + reactor.rng().next_u64()), {}),
      alone_since_ns_(reactor.clock().now_ns()),
      fibers_(reactor) {
  fibers_.spawn("executor", [this] {
    const Result<void> end = result_of([this] { serve(); });
    if (end.ok()) return ended_.set();
    if (end.error().kind() == ErrorKind::kCancelled) throw Error(end.error());
    ended_.fail(end.error());
  });
}

LastingExecutor::~LastingExecutor() {
  is_over_ = true;
  fibers_.cancel();
  service_.reset();
}

void LastingExecutor::serve() {
  while (!is_over_) {
    const Result<void> attempt = try_to_register();
    if (!attempt.ok()) {
      pause_after(attempt.error());
      continue;
    }
    serve_controller();
    if (wait_.is_ended_with_first) return;
  }
}

Result<void> LastingExecutor::try_to_register() {
  ExecutorServiceOptions options = options_;
  options.connect_timeout_ms = kAttemptMs;
  if (wait_.limit_ms)
    options.connect_timeout_ms = std::clamp<int64_t>(*wait_.limit_ms, 1, kAttemptMs);
  Result<Connection> dialled =
      result_of([&] { return connect_to_controller(reactor_, network_, options); });
  if (!dialled.ok()) {
    const Error& why = dialled.error();
    // When dialling, kOverloaded passes: there will be room once others have gone. A later
    // kOverloaded means that this machine has too little.
    if (why.kind() != ErrorKind::kOverloaded) return why;
    return Error(ErrorKind::kUnavailable, why.message(), why.where(), why.hint());
  }
  return result_of([&] {
    service_ =
        std::make_unique<ExecutorService>(reactor_, network_, dialled.take(), std::move(options));
  });
}

void LastingExecutor::serve_controller() {
  if (is_over_) return;
  is_registered_ = true;
  const std::string name = service_->name();
  if (logged_ns_) {
    options_.log.warn("registered after waiting", {{"name", name},
                                                   {"controller", options_.controller},
                                                   {"waited", format_duration_ns(alone_ns())}});
  } else {
    options_.log.info("registered", {{"name", name}, {"controller", options_.controller}});
  }
  logged_ns_.reset();
  options_.host.name = name;  // Keeps the name for the next controller too.
  const int64_t since_ns = reactor_.clock().now_ns();
  const Future<void> disconnected = service_->disconnected();
  const Result<void> gone = result_of([&] { disconnected.await(); });
  if (!gone.ok() && gone.error().kind() == ErrorKind::kCancelled) throw Error(gone.error());
  is_registered_ = false;
  service_.reset();
  alone_since_ns_ = reactor_.clock().now_ns();
  if (alone_since_ns_ - since_ns >= kKeptNs) back_off_.reset();
  if (!wait_.is_ended_with_first) pause_after(gone.error());
}

int64_t LastingExecutor::alone_ns() const { return reactor_.clock().now_ns() - alone_since_ns_; }

void LastingExecutor::pause_after(const Error& why) {
  if (is_over_) return;
  if (why.kind() != ErrorKind::kUnavailable) throw Error(why);
  log_waiting(why);  // Also when there is no time left to wait: the log then says for what.
  const int64_t now_ns = reactor_.clock().now_ns();
  int64_t until_ns = now_ns + back_off_.next_ns();
  if (wait_.limit_ms) {
    const int64_t last_ns = alone_since_ns_ + *wait_.limit_ms * 1'000'000;
    if (now_ns >= last_ns) {
      throw Error(ErrorKind::kUnavailable,
                  cat("executor \"", options_.host.name, "\": no controller for ",
                      format_duration_ns(now_ns - alone_since_ns_), ": ", why.message()),
                  {.host = options_.host.name}, why.hint());
    }
    until_ns = std::min(until_ns, last_ns);
  }
  WaitQueue().wait_until_ns("for a controller", until_ns);
}

void LastingExecutor::log_waiting(const Error& why) {
  const int64_t now_ns = reactor_.clock().now_ns();
  if (logged_ns_ && now_ns - *logged_ns_ < kLogAgainNs) return;
  options_.log.warn(logged_ns_ ? "still waits for its controller" : "waits for its controller",
                    {{"controller", options_.controller},
                     {"for", format_duration_ns(now_ns - alone_since_ns_)},
                     {"why", why.message()}});
  logged_ns_ = now_ns;
}

}  // namespace gangway
