#include "controller/programs/call_table.h"

#include <utility>

#include "runtime/fibers/kj_error.h"

namespace gangway {
namespace {

// Only calls that were cancelled while the connection was lost are released before they are known.
constexpr size_t kReleasedEarlyMax = 1024;

Error nobody_waits() { return {ErrorKind::kCancelled, "call: nobody waits for it any more"}; }

}  // namespace

CallTable::Created CallTable::once(const Call& call, const Make& make, const StopToken& asker) {
  while (releases_done_ < call.releases && !is_closed_)
    wait(released_, "for what a call comes behind", asker);
  require_open();
  note_number(call.number);
  if (calls_.size() >= kCallsMax && !calls_.contains(call.number)) {
    throw Error(ErrorKind::kOverloaded, cat("call: this client holds what ", calls_.size(),
                                            " calls gave: expected at most ", kCallsMax));
  }
  if (under_way_ >= kUnderWayMax && !calls_.contains(call.number)) {
    throw Error(ErrorKind::kOverloaded, cat("call: this client waits for what ", under_way_,
                                            " calls give: expected at most ", kUnderWayMax));
  }
  const auto [found, is_new] = calls_.try_emplace(call.number);
  if (is_new) found->second = std::make_shared<Entry>();
  const std::shared_ptr<Entry> entry = found->second;
  if (!is_new) {
    while (!entry->ended) wait(entry->changed, "for a call that was asked before", asker);
    return created_by(*entry);
  }
  entry->released = released_early_.erase(call.number) > 0;
  if (entry->released) entry->stop.request_stop(nobody_waits());
  ++under_way_;
  Result<Created> created = result_of([&] { return make(entry->stop.token()); });
  --under_way_;
  entry->ended = true;
  if (created.ok()) {
    entry->created = created.value();
    if (entry->released && !is_closed_) release_(entry->created);
  } else {
    entry->error = created.error();
  }
  if (entry->error || entry->released) calls_.erase(call.number);
  entry->changed.wake_all();
  return created_by(*entry);
}

void CallTable::come_behind(uint64_t releases, const StopToken& asker) {
  while (releases_come_ < releases && !is_closed_)
    wait(released_, "for what a call comes behind", asker);
  require_open();
}

void CallTable::release_under_way() {
  for (const auto& [number, entry] : calls_) {
    if (entry->ended) continue;
    entry->released = true;
    entry->stop.request_stop(Error(ErrorKind::kCancelled, "call: its client has gone"));
  }
}

std::vector<CallTable::Created> CallTable::all_created() const {
  std::vector<Created> all;
  for (const auto& [number, entry] : calls_) {
    if (entry->ended && !entry->released && !entry->error) all.push_back(entry->created);
  }
  return all;
}

CallTable::Created CallTable::created_by(const Entry& entry) const {
  if (entry.error) throw Error(*entry.error);
  require_open();
  // A read of states is returned even so: it tells the client whether hosts still write to its
  // memory.
  const bool is_copy = std::holds_alternative<StatesRead>(entry.created);
  if (entry.released && !is_copy) throw nobody_waits();
  return entry.created;
}

void CallTable::release_has_come() {
  ++releases_come_;
  released_.wake_all();
}

void CallTable::release_later(const std::vector<uint64_t>& numbers) {
  ++releases_done_;
  released_.wake_all();
  for (const uint64_t number : numbers) {
    note_number(number);
    const auto found = calls_.find(number);
    if (found == calls_.end()) {
      if (released_early_.size() < kReleasedEarlyMax) released_early_.insert(number);
      continue;
    }
    const std::shared_ptr<Entry> entry = found->second;
    entry->released = true;
    if (!entry->ended) {
      entry->stop.request_stop(nobody_waits());
      continue;
    }
    calls_.erase(found);
    release_(entry->created);
  }
}

void CallTable::close() {
  is_closed_ = true;
  released_.wake_all();
}

void CallTable::require_open() const {
  if (is_closed_)
    throw Error(ErrorKind::kUnavailable, "call: the client's session is closed", {},
                "connect again");
}

}  // namespace gangway
