#include "runtime/fibers/reactor.h"

#include <cxxabi.h>

#include <boost/fiber/algo/round_robin.hpp>
#include <boost/fiber/context.hpp>
#include <boost/fiber/fiber.hpp>
#include <boost/fiber/operations.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "runtime/fibers/fiber_queue.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/mailbox.h"
#include "runtime/fibers/port.h"
#include "runtime/fibers/sim_port.h"
#include "runtime/fibers/stretch_watch.h"

namespace gangway {
namespace {

// Turns of KJ between two looks at the fibers, and turns of the pump between two looks at the
// sockets while fibers keep it busy: both bound how long one side can starve the other.
constexpr unsigned kKjTurnsMax = 256;
constexpr uint32_t kTurnsPerPoll = 16;
// A fiber that still waits after being cancelled this often ignores kCancelled.
constexpr int kCancelRounds = 1000;

Reactor*& thread_reactor() {
  thread_local Reactor* reactor = nullptr;
  return reactor;
}

// The C++ runtime keeps the exceptions being handled per thread, not per fiber. A fiber that
// suspends inside a catch block or a destructor would mix them up with another fiber's, so each
// wait saves and restores them. The layout is fixed by the Itanium C++ ABI.
class ExceptionState {
 public:
  ExceptionState() {
    std::memcpy(&saved_, globals(), sizeof saved_);
    std::memset(globals(), 0, sizeof saved_);
  }
  ~ExceptionState() { std::memcpy(globals(), &saved_, sizeof saved_); }

 private:
  struct Layout {
    void* caught;
    unsigned int uncaught;
  };
  static void* globals() { return abi::__cxa_get_globals(); }
  Layout saved_;
};

// Nothing may be thrown through an ExceptionState: its destructor would undo what the throw has
// counted.
template <class Body>
void isolate_exceptions(const Body& body) {
  std::exception_ptr error;
  {
    ExceptionState exceptions;
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

class ReactorClock final : public Clock {
 public:
  explicit ReactorClock(internal::Port& port) : port_(port) {}
  int64_t now_ns() const override { return port_.now_ns(); }
  int64_t wall_ns() const override { return port_.wall_ns(); }
  void sleep_until_ns(int64_t time_ns) override {
    WaitQueue nothing;
    nothing.wait_until_ns("for time to pass", time_ns);
  }

 private:
  internal::Port& port_;
};

}  // namespace

std::unique_ptr<Reactor> Reactor::make_real(uint64_t seed) {
  GW_ASSERT(thread_reactor() == nullptr, "a thread has one reactor at a time");
  return std::unique_ptr<Reactor>(new Reactor(internal::make_real_port(), seed, false));
}

std::unique_ptr<Reactor> Reactor::make_simulated(SimOptions options) {
  GW_ASSERT(thread_reactor() == nullptr, "a thread has one reactor at a time");
  auto port = internal::make_sim_port(
      {.start_ns = options.start_ns, .time_limit_ns = options.time_limit_ns});
  return std::unique_ptr<Reactor>(new Reactor(std::move(port), options.seed, true));
}

Reactor::Reactor(std::unique_ptr<internal::Port> port, uint64_t seed, bool simulated)
    : port_(std::move(port)),
      queue_(new internal::FiberQueue),
      stacks_(std::make_shared<internal::StackPool>()),
      mailbox_(std::make_unique<Mailbox>(*port_)),
      clock_(std::make_unique<ReactorClock>(*port_)),
      stretches_(simulated ? nullptr : std::make_unique<internal::StretchWatch>()),
      rng_(seed),
      simulated_(simulated) {
  report_stack_overflows();
  thread_reactor() = this;
  boost::fibers::context::active()->get_scheduler()->set_algo(queue_);
}

Reactor::~Reactor() {
  cancel_all();
  while (finished_some_) turn();
  mailbox_.reset();
  boost::fibers::use_scheduling_algorithm<boost::fibers::algo::round_robin>();
  thread_reactor() = nullptr;
}

Reactor& Reactor::current() {
  Reactor* reactor = thread_reactor();
  GW_ASSERT(reactor != nullptr, "this thread has no reactor");
  return *reactor;
}

Reactor* Reactor::current_or_null() { return thread_reactor(); }

Fiber Reactor::start(std::unique_ptr<internal::FiberState> owned) {
  internal::PooledStack allocator(stacks_);
  internal::FiberState* state = owned.get();
  boost::fibers::fiber fiber(boost::fibers::launch::post, std::allocator_arg, allocator,
                             [this, state] { run_body(*state); });
  static_cast<void>(owned.release());  // The fiber owns it now.
  state->stack_ = stacks_->last();
  keep(*state);
  state->next_ = live_;
  if (live_ != nullptr) live_->previous_ = state;
  live_ = state;
  ++live_count_;
  fiber.detach();
  return Fiber(state);
}

void Reactor::run_body(internal::FiberState& state) {
  current_ = &state;
  internal::running_fiber() = {state.name_.c_str(), state.stack_};
  state.context_ = boost::fibers::context::active();
  try {
    if (state.cancelled_)
      throw Error(ErrorKind::kCancelled, cat("fiber \"", state.name_, "\": cancelled"));
    state.run();
  } catch (const boost::context::detail::forced_unwind&) {
    throw;
  } catch (...) {
    state.error_ = current_error();
  }
  finish(state);
}

void Reactor::finish(internal::FiberState& state) noexcept {
  state.done_ = true;
  state.joiners_.wake_all();
  (state.previous_ != nullptr ? state.previous_->next_ : live_) = state.next_;
  if (state.next_ != nullptr) state.next_->previous_ = state.previous_;
  --live_count_;
  finished_some_ = true;
  // Only the reactor's list still refers to the fiber, so nobody can join it.
  if (state.references_ == 1 && state.error_ && !state.error_seen_ &&
      state.error_->kind() != ErrorKind::kCancelled) {
    if (on_unhandled_error) {
      on_unhandled_error(state.name_, *state.error_);
    } else {
      std::fprintf(stderr, "fiber \"%s\" failed: %s\n", state.name_.c_str(), state.error_->what());
    }
  }
  drop(state);
  current_ = nullptr;
  internal::running_fiber() = {};
}

void Reactor::suspend(internal::Waiter& waiter) {
  GW_ASSERT(!in_callback_, "a KJ callback or mail waits ", waiter.what,
            ": it must spawn a fiber for that");
  internal::FiberState* self = current_;
  if (self == nullptr) {
    pump([&waiter] { return waiter.woken; });
    return;
  }
  if (std::exchange(self->cancelled_, false)) {
    waiter.cancelled = true;
  } else {
    waiter.fiber = self;
    self->waiter_ = &waiter;
    current_ = nullptr;
    {
      ExceptionState exceptions;
      boost::fibers::context::active()->suspend();
    }
    current_ = self;
    internal::running_fiber() = {self->name_.c_str(), self->stack_};
    self->waiter_ = nullptr;
  }
  if (waiter.cancelled) {
    throw Error(ErrorKind::kCancelled,
                cat("fiber \"", self->name_, "\": cancelled while waiting ", waiter.what));
  }
}

void Reactor::pump(const std::function<bool()>& done) {
  GW_ASSERT(current_ == nullptr && !in_callback_, "the reactor is pumped from outside its fibers");
  isolate_exceptions([&] {
    while (!done() && (turn() || done() || block())) {
    }
  });
}

void Reactor::run_ready() {
  GW_ASSERT(current_ == nullptr && !in_callback_, "the reactor is pumped from outside its fibers");
  isolate_exceptions([&] {
    port_->poll();
    while (turn()) {
    }
  });
}

int64_t Reactor::longest_stretch_ns() const {
  return stretches_ == nullptr ? 0 : stretches_->longest_ns();
}

// Runs what is ready now. Returns false if nothing was ready and nothing is.
bool Reactor::turn() {
  if (stretches_ == nullptr) return run_what_is_ready();
  stretches_->begin(port_->now_ns());
  const bool any = run_what_is_ready();
  stretches_->end(port_->now_ns());
  return any;
}

bool Reactor::run_what_is_ready() {
  kj::EventLoop& loop = port_->loop();
  struct Callback {
    explicit Callback(bool& flag) : flag_(flag) { flag_ = true; }
    ~Callback() { flag_ = false; }
    bool& flag_;
  };
  bool any = false;
  {
    Callback scope(in_callback_);
    any = mailbox_->deliver_all();
  }
  if (queue_->ready() > 0 || finished_some_) {
    any = true;
    // Nothing else can run: lets finished fibers be freed before the thread sleeps.
    if (queue_->ready() == 0) {
      finished_some_ = false;
      queue_->let_dispatcher_run();
    }
    boost::this_fiber::yield();
  }
  if (loop.isRunnable()) {
    any = true;
    Callback scope(in_callback_);
    loop.run(kKjTurnsMax);
  }
  if (any && ++turns_ % kTurnsPerPoll == 0) port_->poll();
  return any;
}

// Always returns true: there may be something to do now.
bool Reactor::block() {
  if (!mailbox_->fall_asleep()) return true;
  struct Wake {
    Mailbox& mailbox;
    ~Wake() { mailbox.wake_up(); }
  } wake{*mailbox_};
  try {
    port_->block();
    return true;
  } catch (Error& error) {
    if (live_ != nullptr) error.add_context(cat("fibers:\n", describe_fibers()));
    throw;
  }
}

void Reactor::cancel_all() {
  for (int round = 0; live_ != nullptr && round < kCancelRounds; ++round) {
    for (internal::FiberState* state = live_; state != nullptr; state = state->next_) {
      state->cancelled_ = false;  // Each fiber is cancelled once a round.
      internal::cancel(*state);
    }
    run_ready();
  }
  if (live_ == nullptr) return;
  std::fprintf(stderr, "broken promise: fibers outlive their reactor, they ignore kCancelled:\n%s",
               describe_fibers().c_str());
  std::abort();
}

std::string Reactor::describe_fibers() const {
  constexpr int kLinesMax = 50;
  std::string text;
  int lines = 0;
  for (internal::FiberState* state = live_; state != nullptr; state = state->next_) {
    if (++lines > kLinesMax) return text + cat("    ... of ", live_count_, " in all\n");
    const char* what = state->waiting();
    text += cat("    \"", state->name(), "\" ", what != nullptr ? cat("waits ", what) : "is ready",
                "\n");
  }
  return text;
}

bool Fiber::is_current() const {
  const Reactor* reactor = Reactor::current_or_null();
  return state_ != nullptr && reactor != nullptr && reactor->current_fiber() == state_;
}

namespace internal {

void join(FiberState& state) {
  keep(state);
  struct Drop {
    FiberState& state;
    ~Drop() { drop(state); }
  } drop_at_end{state};
  while (!state.done_) state.joiners_.wait("for a fiber to end");
  state.error_seen_ = true;
  if (state.error_) throw *state.error_;
}

void cancel(FiberState& state) {
  if (state.done_) return;
  Waiter* waiter = state.waiter_;
  if (waiter == nullptr || waiter->woken) {
    state.cancelled_ = true;
    return;
  }
  waiter->cancelled = true;
  waiter->queue->wake(*waiter);
}

void resume(Waiter& waiter) {
  if (waiter.fiber != nullptr) boost::fibers::context::active()->schedule(waiter.fiber->context_);
}

}  // namespace internal
}  // namespace gangway
