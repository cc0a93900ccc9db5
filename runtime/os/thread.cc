#include "runtime/os/thread.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "runtime/fibers/kj_error.h"

namespace gangway {

Thread::Thread(std::string name, std::function<void()> body)
    : state_(new State{std::move(name), std::move(body), {}}) {
  try {
    thread_ = std::thread([state = state_.get()] { run(*state); });
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kOverloaded,
                cat("thread \"", state_->name, "\": could not start: ", error.what()), {},
                "raise the limit on processes (ulimit -u), or use fewer devices");
  }
}

// NOLINTNEXTLINE(performance-noexcept-move-constructor): a join throws.
Thread& Thread::operator=(Thread&& other) {
  if (joinable()) join();
  state_ = std::move(other.state_);
  thread_ = std::move(other.thread_);
  return *this;
}

Thread::~Thread() {
  if (!joinable()) return;
  thread_.join();
  if (state_->error)
    std::fprintf(stderr, "thread \"%s\" failed: %s\n", state_->name.c_str(), state_->error->what());
}

void Thread::join() {
  if (!joinable()) return;
  thread_.join();
  if (state_->error) throw *state_->error;
}

void Thread::run(State& state) {
  set_thread_name(state.name);
  try {
    state.body();
  } catch (...) {
    state.error = current_error();
  }
  state.body = nullptr;  // Captured objects die on the thread that used them.
}

void set_thread_name(const std::string& name) {
  constexpr size_t kNameBytesMax = 15;
  pthread_setname_np(pthread_self(), name.substr(0, kNameBytesMax).c_str());
}

std::string thread_name() {
  char name[16] = {};
  pthread_getname_np(pthread_self(), name, sizeof name);
  return name;
}

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

}  // namespace gangway
