#include "controller/scheduler/queue.h"

#include <algorithm>
#include <utility>

namespace gangway {

void RunQueue::add(const Waiting& run) {
  last_ = run.run;
  waiting_.emplace(run.run, run);
  by_session_[run.session].insert(run.run);
  policy_->add(run);
}

std::optional<RunId> RunQueue::next(const std::function<bool(RunId)>& has_room) {
  pass_fences();
  return policy_->next([&](RunId run) { return !is_fenced(run) && has_room(run); });
}

Ticket RunQueue::take(RunId run) {
  const Ticket first = next_ticket_;
  next_ticket_ = Ticket(first.value + waiting_.at(run).positions);
  remove(run);
  return first;
}

void RunQueue::remove(RunId run) {
  const auto found = waiting_.find(run);
  if (found == waiting_.end()) return;
  policy_->remove(run);
  const auto session = by_session_.find(found->second.session);
  session->second.erase(run);
  if (session->second.empty()) by_session_.erase(session);
  waiting_.erase(found);
}

void RunQueue::in_order(SessionId session, std::function<void(Ticket)> send) {
  fences_.push_back({session, last_, std::move(send)});
  pass_fences();
}

void RunQueue::session_closed(SessionId session) {
  std::erase_if(fences_, [&](const Fence& fence) { return fence.session == session; });
}

bool RunQueue::is_fenced(RunId run) const {
  const SessionId session = waiting_.at(run).session;
  return std::any_of(fences_.begin(), fences_.end(), [&](const Fence& fence) {
    return fence.session == session && fence.last < run;
  });
}

void RunQueue::pass_fences() {
  for (auto at = fences_.begin(); at != fences_.end();) {
    const auto session = by_session_.find(at->session);
    if (session != by_session_.end() && *session->second.begin() <= at->last) {
      ++at;
      continue;
    }
    at->send(std::exchange(next_ticket_, next_ticket_.next()));
    at = fences_.erase(at);
  }
}

}  // namespace gangway
