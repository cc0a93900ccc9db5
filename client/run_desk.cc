#include "client/run_desk.h"

#include <array>
#include <span>
#include <utility>

#include "protocol/frames.h"

namespace gangway::internal {

// The run is entered before its end can come.
bool RunDesk::send(const RunFrame& frame, RunDone& done) {
  if (!direct_->is_lent()) return false;
  std::array<Frame, 2> frames{nullptr, encode(frame)};
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  if (!released_.empty()) frames[0] = encode(FreeFrame{released_});
  const auto run = runs_.emplace(frame.run, std::move(done)).first;
  if (direct_->send(std::span(frames).subspan(released_.empty() ? 1 : 0))) {
    released_.clear();
    return true;
  }
  done = std::move(run->second);
  runs_.erase(run);
  return false;
}

bool RunDesk::release(ArrayId array) {
  const std::lock_guard lock(mutex_);
  if (!is_looked_for_ || is_closed_) return false;
  released_.push_back(array);
  return true;
}

void RunDesk::add(RunId run, RunDone done) {
  const std::lock_guard lock(mutex_);
  runs_.emplace(run, std::move(done));
}

RunDone RunDesk::take(RunId run) {
  const std::lock_guard lock(mutex_);
  auto node = runs_.extract(run);
  return node.empty() ? nullptr : std::move(node.mapped());
}

std::map<RunId, RunDone> RunDesk::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  return std::exchange(runs_, {});
}

std::vector<ArrayId> RunDesk::take_released() {
  const std::lock_guard lock(mutex_);
  return std::exchange(released_, {});
}

bool RunDesk::begin_to_look() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(is_looked_for_, true);
}

bool RunDesk::may_end_to_look() {
  const std::lock_guard lock(mutex_);
  if (released_.empty()) is_looked_for_ = false;
  return !is_looked_for_;
}

}  // namespace gangway::internal
