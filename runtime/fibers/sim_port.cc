#include "runtime/fibers/sim_port.h"

#include "runtime/base/error.h"
#include "runtime/base/units.h"

namespace gangway::internal {
namespace {

// 2026-01-01: virtual time has to start on some date.
constexpr int64_t kSimEpochNs = 1'767'225'600'000'000'000;

class SimPort final : public Port {
 public:
  explicit SimPort(SimPortOptions options)
      : options_(options), timer_(to_kj_time(options.start_ns)), loop_(unused_), scope_(loop_) {}

  ~SimPort() noexcept override {}
  kj::EventLoop& loop() override { return loop_; }
  kj::Timer& timer() override { return timer_; }
  kj::LowLevelAsyncIoProvider* sockets() override { return nullptr; }
  kj::UnixEventPort* unix_port() override { return nullptr; }
  int64_t now_ns() const override { return from_kj_time(timer_.now()); }
  int64_t wall_ns() const override { return kSimEpochNs + now_ns(); }

  void block() override {
    KJ_IF_MAYBE (next, timer_.nextEvent()) {
      if (from_kj_time(*next) - options_.start_ns > options_.time_limit_ns) {
        throw Error(ErrorKind::kCancelled, cat("simulation: passed its time limit of ",
                                               format_duration_ns(options_.time_limit_ns)));
      }
      // A timer set for the past is overdue already.
      timer_.advanceTo(kj::max(*next, timer_.now()));
    } else {
      throw Error(ErrorKind::kBug, "simulation: deadlock: no fiber can run and no timer is set");
    }
  }
  void poll() override {}
  // Mail from another thread has no time in a simulation; the pump delivers it before the next
  // block().
  void wake() const override {}

 private:
  // The pump blocks through block(); KJ itself never waits, since nobody calls kj::Promise::wait().
  class UnusedEventPort final : public kj::EventPort {
    bool wait() override { GW_ASSERT(false, "kj::Promise::wait() on a reactor: use await()"); }
    bool poll() override { return false; }
  };

  SimPortOptions options_;
  kj::TimerImpl timer_;
  UnusedEventPort unused_;
  kj::EventLoop loop_;
  kj::WaitScope scope_;
};

}  // namespace

std::unique_ptr<Port> make_sim_port(SimPortOptions options) {
  return std::make_unique<SimPort>(options);
}

}  // namespace gangway::internal
