#include "executor/devices/stream.h"

#include <utility>

#include "executor/devices/device.h"

namespace gangway {

void Stream::drop() {
  while (settling_ != nullptr) {
    Work* work = settling_;
    settling_ = work->next_;
    work->retire(false);
  }
  while (first_ != nullptr || take_incoming()) {
    Work* work = first_;
    first_ = work->next_;
    work->retire(false);
  }
}

void Stream::push(Work& work) {
  Work* head = incoming_.load(std::memory_order_relaxed);
  do {
    work.next_ = head;
  } while (!incoming_.compare_exchange_weak(head, &work, std::memory_order_release,
                                            std::memory_order_relaxed));
}

bool Stream::take_incoming() {
  Work* newest = incoming_.exchange(nullptr, std::memory_order_acquire);
  if (newest == nullptr) return false;
  Work* tail = newest;
  Work* head = nullptr;
  while (newest != nullptr) {
    Work* older = newest->next_;
    newest->next_ = head;
    head = newest;
    newest = older;
  }
  (first_ == nullptr ? first_ : last_->next_) = head;
  last_ = tail;
  return true;
}

Progress Stream::advance(Turn& turn) {
  settle(turn);
  while (first_ != nullptr || take_incoming()) {
    if (first_->advance(turn) == Progress::kPending) return Progress::kPending;
    end_first(turn);
  }
  return settling_ == nullptr ? Progress::kDone : Progress::kPending;
}

void Stream::end_first(Turn& turn) {
  Work* done = first_;
  first_ = done->next_;
  if (!turn.device.discrete()) {
    done->settled(turn, nullptr);
    done->retire(true);
    return;
  }
  done->mark_ = turn.device.mark();
  done->next_ = nullptr;
  (settling_ == nullptr ? settling_ : settling_last_->next_) = done;
  settling_last_ = done;
  settle(turn);
}

void Stream::settle(Turn& turn) {
  while (settling_ != nullptr) {
    std::shared_ptr<const Error> failure;
    if (turn.device.reached(settling_->mark_, &failure) == Progress::kPending) return;
    Work* done = settling_;
    settling_ = done->next_;
    done->settled(turn, failure);
    done->retire(true);
  }
}

}  // namespace gangway
