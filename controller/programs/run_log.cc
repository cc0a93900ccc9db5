#include "controller/programs/run_log.h"

#include <set>
#include <utility>

namespace gangway {

size_t RunLog::bytes_of(const RunFrame& frame) {
  size_t bytes = sizeof(Entry) + frame.outputs.size() * sizeof(ArrayId) +
                 frame.source_positions.size() * sizeof(uint64_t);
  for (const ArgumentFrame& argument : frame.arguments)
    bytes += sizeof(ArgumentFrame) + argument.bytes.size();
  return bytes;
}

bool RunLog::add(const RunFrame& frame) {
  const size_t bytes = bytes_of(frame);
  if (entries_.size() >= kRunsMax || bytes_ + bytes > kBytesMax || by_run_.contains(frame.run))
    return false;
  if (!held_.try_grow(bytes)) {
    forget_before();
    if (!held_.try_grow(bytes)) return false;
  }
  bytes_ += bytes;
  by_run_[frame.run] = entries_.insert(entries_.end(), Entry{.frame = frame});
  return true;
}

RunLog::Entry* RunLog::find(RunId run) {
  const auto found = by_run_.find(run);
  return found == by_run_.end() ? nullptr : &*found->second;
}

void RunLog::remove(RunId run) {
  const auto found = by_run_.find(run);
  if (found == by_run_.end()) return;
  const size_t bytes = bytes_of(found->second->frame);
  bytes_ -= bytes;
  held_.shrink(bytes);
  entries_.erase(found->second);
  by_run_.erase(found);
}

void RunLog::clear() {
  entries_.clear();
  by_run_.clear();
  held_.shrink(bytes_);
  bytes_ = 0;
  forget_before();
}

void RunLog::forget_before() {
  before_.reset();
  before_entries_.clear();
  held_.shrink(std::exchange(before_bytes_, 0));
}

void RunLog::spoil(StateVersion until, const std::string& why) {
  if (spoiled_until_ && *spoiled_until_ > until) return;
  spoiled_until_ = until;
  spoiled_why_ = why;
}

std::vector<RunId> RunLog::written(StateVersion version) {
  const bool is_whole = !spoiled_until_;  // The runs of the log can repeat this version.
  if (spoiled_until_ && version >= *spoiled_until_) spoiled_until_.reset();
  if (version > base_) {
    forget_before();
    if (is_whole) before_ = base_;
    base_ = version;
  }
  // Up to the last run that this version holds.
  auto end = entries_.begin();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->version != StateVersion() && at->version <= version) end = std::next(at);
  }
  // A run that commits nothing may still be under way. Its end is reported without this log, so it
  // is neither run again nor returned.
  std::vector<RunId> past;
  for (auto at = entries_.begin(); at != end;) {
    by_run_.erase(at->frame.run);
    const size_t bytes = bytes_of(at->frame);
    bytes_ -= bytes;
    if (at->is_reported) {
      before_bytes_ += bytes;
      ++at;
    } else {
      if (!at->is_under_way) past.push_back(at->frame.run);
      held_.shrink(bytes);
      at = entries_.erase(at);
    }
  }
  before_entries_.splice(before_entries_.end(), entries_, entries_.begin(), end);
  if (!before_ || before_bytes_ > kBeforeBytesMax) forget_before();
  return past;
}

bool RunLog::step_back() {
  if (!before_) return false;
  for (auto at = before_entries_.begin(); at != before_entries_.end(); ++at)
    by_run_[at->frame.run] = at;
  entries_.splice(entries_.begin(), before_entries_);
  bytes_ += std::exchange(before_bytes_, 0);
  base_ = *std::exchange(before_, std::nullopt);
  return true;
}

std::optional<std::string> RunLog::why_not() const {
  if (spoiled_until_) return spoiled_why_;
  std::set<ArrayId> created;
  for (const Entry& entry : entries_) {
    for (const ArgumentFrame& argument : entry.frame.arguments) {
      if (argument.bytes.empty() && !created.contains(argument.array))
        return "a run since the newest checkpoint took an array that no such run has made, and "
               "that is lost";
    }
    created.insert(entry.frame.outputs.begin(), entry.frame.outputs.end());
  }
  return std::nullopt;
}

}  // namespace gangway
