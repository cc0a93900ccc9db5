#include "runtime/fibers/background.h"

#include <tuple>

namespace gangway {

void Background::stop() {
  std::map<std::string, Line> dropped;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    std::swap(dropped, lines_);
  }
  added_.notify_all();
  for (Thread& thread : threads_) thread.join();
  threads_.clear();
  for (const auto& [owner, line] : dropped) {
    for (const Work& work : line.waiting)
      work.drop(Error(ErrorKind::kCancelled, cat(name_, ": has ended")));
  }
}

void Background::add(const std::string& owner, Work work) {
  bool is_short = false;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) throw Error(ErrorKind::kCancelled, cat(name_, ": has ended"));
    // A new owner has its turn after the owners that already wait.
    const auto [line, is_new] = lines_.try_emplace(owner);
    if (is_new) line->second.last_turn = turns_;
    line->second.waiting.push_back(std::move(work));
    ++waiting_;
    is_short = waiting_ > idle_;
  }
  if (is_short && threads_.size() < bounds_.threads_max) {
    threads_.emplace_back(name_, [this] { serve(); });
  } else {
    added_.notify_one();
  }
}

// Picks the waiting owner that has the fewest threads; among equals, the one that has waited
// longest for a turn. Returns end() if no owner may begin. The caller holds the lock.
std::map<std::string, Background::Line>::iterator Background::next() {
  auto best = lines_.end();
  const auto rank = [](const Line& line) { return std::tuple(line.under_way, line.last_turn); };
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    if (line->second.waiting.empty() || line->second.under_way >= bounds_.of_one_owner_max)
      continue;
    if (best == lines_.end() || rank(line->second) < rank(best->second)) best = line;
  }
  return best;
}

void Background::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    added_.wait(lock, [this] { return stopping_ || next() != lines_.end(); });
    --idle_;
    if (stopping_) return;
    const auto line = next();
    const std::string owner = line->first;
    Work work = std::move(line->second.waiting.front());
    line->second.waiting.pop_front();
    --waiting_;
    ++line->second.under_way;
    line->second.last_turn = ++turns_;
    lock.unlock();
    work.drop = nullptr;
    work.run();
    work.run = nullptr;
    lock.lock();
    end_turn(owner);
  }
}

// The caller holds the lock.
void Background::end_turn(const std::string& owner) {
  const auto line = lines_.find(owner);
  if (line == lines_.end()) return;  // stop() has emptied it.
  line->second.last_turn = ++turns_;
  if (--line->second.under_way == 0 && line->second.waiting.empty()) lines_.erase(line);
  added_.notify_one();
}

}  // namespace gangway
