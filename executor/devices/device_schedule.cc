#include "executor/devices/device_schedule.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "executor/devices/device_stream.h"

namespace gangway {
namespace {

// Turns a chain of works that begins with the newest into one that begins with the oldest.
Work* reversed(Work* newest, Work* Work::* next) {
  Work* oldest = nullptr;
  while (newest != nullptr) {
    Work* older = newest->*next;
    newest->*next = oldest;
    oldest = newest;
    newest = older;
  }
  return oldest;
}

bool share_a_state(const Work& a, const Work& b) {
  const auto of_a = a.states(), of_b = b.states();
  const std::less<const void*> before;
  for (auto i = of_a.begin(), j = of_b.begin(); i != of_a.end() && j != of_b.end();) {
    if (*i == *j) return true;
    if (before(*i, *j)) {
      ++i;
    } else {
      ++j;
    }
  }
  return false;
}

// Ranks of one run have the same tickets, and separate parts of a region.
bool lie_over_one_another(const Work& a, const Work& b) {
  return a.region() != nullptr && a.region() == b.region() && a.ticket() != b.ticket();
}

}  // namespace

void DeviceSchedule::push(Work& work, RankStream* rank_stream) {
  work.rank_stream_ = rank_stream;
  Work* head = incoming_.load(std::memory_order_relaxed);
  do {
    work.next_ = head;
  } while (!incoming_.compare_exchange_weak(head, &work, std::memory_order_release,
                                            std::memory_order_relaxed));
}

bool DeviceSchedule::take_incoming() {
  if (incoming_.load(std::memory_order_relaxed) == nullptr) return false;
  Work* work = reversed(incoming_.exchange(nullptr, std::memory_order_acquire), &Work::next_);
  while (work != nullptr) {
    Work* next = work->next_;
    work->next_ = nullptr;
    RankStream* rank_stream = work->rank_stream_;
    if (rank_stream == nullptr) {
      tasks_.push_back(work);
    } else if (rank_stream->first_ == nullptr) {
      rank_stream->first_ = rank_stream->last_ = work;
      streams_.push_back(rank_stream);
    } else {
      rank_stream->last_->next_ = work;
      rank_stream->last_ = work;
    }
    work = next;
  }
  return true;
}

void DeviceSchedule::drop() {
  take_incoming();
  while (settling_ != nullptr) {
    Work* work = settling_;
    settling_ = work->next_;
    work->retire(false);
  }
  for (Work* task : std::exchange(tasks_, {})) task->retire(false);
  for (RankStream* rank_stream : std::exchange(streams_, {})) {
    while (rank_stream->first_ != nullptr) {
      Work* work = rank_stream->first_;
      rank_stream->first_ = work->next_;
      work->retire(false);
    }
  }
}

Progress DeviceSchedule::advance(Turn& turn) {
  turn.incoming = &incoming_;
  settle(turn);
  do {
    take_incoming();
  } while (advance_one(turn));
  const bool idle = streams_.empty() && tasks_.empty() && settling_ == nullptr;
  return idle ? Progress::kDone : Progress::kPending;
}

int64_t DeviceSchedule::brief_ns(int64_t limit_ns) {
  take_incoming();
  if (!tasks_.empty() || settling_ != nullptr || holder_.work != nullptr) return kNever;
  int64_t sum_ns = 0;
  for (const RankStream* rank_stream : streams_) {
    for (const Work* work = rank_stream->first_; work != nullptr; work = work->next_) {
      const int64_t ns = work->modelled_ns();
      if (work->needs_others() || ns > limit_ns - sum_ns) return kNever;
      sum_ns += ns;
    }
  }
  return sum_ns;
}

// Works with lower tickets than one that was seen had been pushed, and granted, before it, so they
// can all be found now.
bool DeviceSchedule::missed_candidates() const {
  if (candidates_.empty()) return false;  // A ring comes.
  if (incoming_.load(std::memory_order_acquire) != nullptr) return true;
  if (candidates_.size() == tasks_.size() + streams_.size()) return false;
  const auto ready = std::count_if(
      streams_.begin(), streams_.end(),
      [](const RankStream* rank_stream) { return rank_stream->first_->ticket() != kNoTicket; });
  return tasks_.size() + static_cast<size_t>(ready) != candidates_.size();
}

void DeviceSchedule::find_candidates() {
  do {
    take_incoming();
    candidates_.clear();
    for (Work* task : tasks_) candidates_.push_back({task->ticket(), candidates_.size(), task});
    for (RankStream* rank_stream : streams_) {
      const uint64_t ticket = rank_stream->first_->ticket();
      if (ticket != kNoTicket)
        candidates_.push_back({ticket, candidates_.size(), rank_stream->first_, rank_stream});
    }
  } while (missed_candidates());
  if (candidates_.size() < 2) return;
  std::sort(candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.ticket, a.place) < std::pair(b.ticket, b.place);
  });
}

// Whether the candidates before it, which wait, let it go on.
bool DeviceSchedule::may_go_on(const Candidate& candidate, const DeviceStream& stream) const {
  for (size_t i = 0; i < passed_over_; ++i) {
    const Work& before = *candidates_[i].work;
    if (share_a_state(before, *candidate.work) || lie_over_one_another(before, *candidate.work))
      return false;
  }
  if (!stream.collectives_block() || !candidate.work->meets_others()) return true;
  return std::none_of(candidates_.begin(),
                      candidates_.begin() + static_cast<std::ptrdiff_t>(passed_over_),
                      [&](const Candidate& before) {
                        return before.ticket > 0 && before.ticket < candidate.ticket;
                      });
}

// Advances one piece of the work that holds the device, or of another rank that it lets go on.
// False: they wait.
bool DeviceSchedule::advance_blocked(Turn& turn) {
  turn.until_ticket = 0;
  turn.alone = false;
  if (advance(holder_, turn) != Progress::kPending || holder_.work == nullptr) return true;
  return advance_others(turn);
}

// Advances one piece of another rank that the holder lets go on. False: none can go on.
bool DeviceSchedule::advance_others(Turn& turn) {
  const Candidate holder = holder_;
  turn.until_ticket = 0;
  turn.alone = false;
  for (RankStream* rank_stream : streams_) {
    if (holder.work->blocks() != Blocks::kOthers) return false;
    Work* other = rank_stream->first_;
    if (other == holder.work || other->ticket() != holder.work->ticket()) continue;
    const Progress progress = advance({other->ticket(), 0, other, rank_stream}, turn);
    if (holder_.work == nullptr) holder_ = holder;
    if (progress != Progress::kPending) return true;
    if (other->blocks() == Blocks::kAll) return false;
  }
  return false;
}

// Advances one piece of the lowest ticket that can go on. False: all wait.
bool DeviceSchedule::advance_one(Turn& turn) {
  if (holder_.work != nullptr) return advance_blocked(turn);
  find_candidates();
  turn.alone = streams_.size() + tasks_.size() == 1;
  for (passed_over_ = 0; passed_over_ < candidates_.size(); ++passed_over_) {
    const Candidate candidate = candidates_[passed_over_];
    if (!may_go_on(candidate, turn.stream)) continue;
    // The works that wait may go on after any piece, so they are tried again then.
    const bool last = passed_over_ + 1 == candidates_.size();
    turn.until_ticket = passed_over_ > 0 ? 0 : last ? kNoTicket : candidates_[1].ticket;
    if (advance(candidate, turn) != Progress::kPending) return true;
    if (holder_.work != nullptr) return advance_others(turn);
    // It may have advanced before it waited, and then no longer blocks others.
    if (candidate.work->ticket() != candidate.ticket) return true;
  }
  return false;
}

Progress DeviceSchedule::advance(const Candidate& candidate, Turn& turn) {
  const Candidate going = candidate;  // A copy, since `candidate` may be the holder's own record.
  turn.stream.at_work = going.work;
  const Progress progress = going.work->advance(turn);
  const bool blocks = progress == Progress::kPending && going.work->blocks() != Blocks::kNothing;
  holder_ = blocks ? going : Candidate{};
  if (progress == Progress::kDone) {
    end(going, turn);
    turn.now_ns = turn.stream.now_ns();
  }
  turn.stream.at_work = nullptr;
  return progress;
}

void DeviceSchedule::end(const Candidate& candidate, Turn& turn) {
  Work* done = candidate.work;
  if (RankStream* rank_stream = candidate.rank_stream; rank_stream == nullptr) {
    tasks_.erase(std::find(tasks_.begin(), tasks_.end(), done));
  } else {
    rank_stream->first_ = done->next_;
    if (rank_stream->first_ == nullptr) std::erase(streams_, rank_stream);
  }
  if (!turn.stream.discrete()) {
    done->settled(turn, nullptr);
    done->retire(true);
    return;
  }
  done->mark_ = turn.stream.mark();
  done->next_ = nullptr;
  (settling_ == nullptr ? settling_ : settling_last_->next_) = done;
  settling_last_ = done;
  settle(turn);
}

void DeviceSchedule::settle(Turn& turn) {
  while (settling_ != nullptr) {
    std::shared_ptr<const Error> failure;
    if (turn.stream.reached(settling_->mark_, &failure) == Progress::kPending) return;
    Work* done = settling_;
    settling_ = done->next_;
    done->settled(turn, failure);
    done->retire(true);
  }
}

}  // namespace gangway
