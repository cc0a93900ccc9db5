#include "executor/work/event.h"

namespace gangway {

void Event::record() { settle(kOk); }

void Event::fail(std::shared_ptr<const Error> error) {
  error_ = std::move(error);
  settle(kFailed);
}

void Event::settle(State state) {
  std::vector<std::function<void()>> listeners;
  {
    std::lock_guard lock(mutex_);
    state_.store(state, std::memory_order_release);
    listeners.swap(listeners_);
  }
  for (const auto& ring : listeners) ring();
}

void Event::on_ready(std::function<void()> ring) {
  {
    std::lock_guard lock(mutex_);
    if (!ready()) {
      listeners_.push_back(std::move(ring));
      return;
    }
  }
  ring();
}

}  // namespace gangway
