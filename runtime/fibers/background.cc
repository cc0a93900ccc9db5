#include "runtime/fibers/background.h"

namespace gangway {

void Background::stop() {
  std::deque<Work> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    std::swap(dropped, waiting_);
  }
  added_.notify_all();
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
  for (const Work& work : dropped)
    work.drop(Error(ErrorKind::kCancelled, cat(name_, ": has ended")));
}

void Background::add(Work work) {
  bool is_short = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw Error(ErrorKind::kCancelled, cat(name_, ": has ended"));
    waiting_.push_back(std::move(work));
    is_short = waiting_.size() > idle_;
  }
  if (is_short && threads_.size() < threads_max_) {
    threads_.emplace_back(name_, [this] { serve(); });
  } else {
    added_.notify_one();
  }
}

void Background::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    added_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    --idle_;
    if (stopping_) return;
    Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work.drop = nullptr;
    work.run();
    work.run = nullptr;
    lock.lock();
  }
}

}  // namespace gangway
