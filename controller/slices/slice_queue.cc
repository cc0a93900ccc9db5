#include "controller/slices/slice_queue.h"

#include <algorithm>
#include <utility>

#include "runtime/base/units.h"

namespace gangway {

// A place in the queue, as long as its fiber waits.
class SliceQueue::Place {
 public:
  Place(SliceQueue& queue, SessionId session, const SliceShape& shape)
      : queue_(queue),
        at_(queue.waits_.insert(queue.waits_.end(),
                                Wait{session, shape, queue.clock_.now_ns(), {}, {}})) {
    queue_.hosts_.freed().is_new = true;
  }
  ~Place() {
    if (at_->got) queue_.slices_.release(*at_->got);  // The fiber ended before it took its slice.
    if (queue_.first_ == &*at_) queue_.first_ = nullptr;
    queue_.waits_.erase(at_);
    if (queue_.waits_.empty()) queue_.memory_.reset();
    queue_.hosts_.freed().raise();  // Others may get the devices that were kept for it.
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  Wait& wait() { return *at_; }

 private:
  SliceQueue& queue_;
  std::list<Wait>::iterator at_;
};

SliceRecord& SliceQueue::allocate(SessionId session, const SliceShape& shape,
                                  const StopToken& stop) {
  require_possible(shape);
  const std::optional<OverQuota> over = over_quota(session, shape);
  if (over && (over->for_ever || shape.wait_ms == 0)) throw refusal(session, shape);
  if (shape.wait_ms == 0) {
    may_look_ns_ = 0;  // Clients that wait get freed memory before this one.
    serve();
    std::vector<DeviceRef> devices = slices_.find_place(shape, kept_);
    if (devices.empty()) throw refusal(session, shape);
    return slices_.add(session, shape, std::move(devices));
  }
  const auto waiting = std::count_if(waits_.begin(), waits_.end(),
                                     [&](const Wait& wait) { return wait.session == session; });
  if (static_cast<size_t>(waiting) >= kWaitsMax) {
    throw Error(ErrorKind::kOverloaded, cat("allocate: this client waits for ", waiting,
                                            " slices: expected at most ", kWaitsMax));
  }
  Place place(*this, session, shape);
  return wait_in_line(place.wait(), stop);
}

SliceRecord& SliceQueue::wait_in_line(Wait& wait, const StopToken& stop) {
  const int64_t until_ns = wait.since_ns + wait.shape.wait_ms * 1'000'000;
  const StopRegistration on_stop = stop.on_stop([this, &wait](const Error& why) {
    wait.ended = why;
    hosts_.freed().waiting.wake_all();
  });
  while (true) {
    serve();
    if (wait.got) return slices_.at(*std::exchange(wait.got, std::nullopt), wait.session);
    if (wait.ended) throw Error(*wait.ended);
    if (clock_.now_ns() >= until_ns) {
      const Error why = refusal(wait.session, wait.shape);
      throw Error(why.kind(),
                  cat(why.message(), "; it waited for ",
                      format_duration_ns(wait.shape.wait_ms * 1'000'000)),
                  why.where(), "ask for less, or wait longer");
    }
    const int64_t look_ns = has_memory_come_ ? std::min(may_look_ns_, until_ns) : until_ns;
    hosts_.freed().waiting.wait_until_ns("for devices of a slice", look_ns);
  }
}

// Serves the waits in order, and only once for all fibers that one change wakes.
void SliceQueue::serve() {
  const bool is_memory_due = has_memory_come_ && clock_.now_ns() >= may_look_ns_;
  if (!std::exchange(hosts_.freed().is_new, false) && !is_memory_due) return;
  if (is_memory_due) may_look_ns_ = clock_.now_ns() + kMemoryPauseNs;
  kept_.clear();
  first_ = nullptr;
  for (Wait& wait : waits_) {
    if (wait.got || wait.ended || over_quota(wait.session, wait.shape)) continue;
    std::vector<DeviceRef> devices = slices_.find_place(wait.shape, kept_);
    if (!devices.empty()) {
      wait.got = slices_.add(wait.session, wait.shape, std::move(devices)).id;
      hosts_.freed().waiting.wake_all();
    } else if (first_ == nullptr) {
      const std::vector<DeviceRef> keep = slices_.find_place_if_idle(wait.shape);
      if (keep.empty()) continue;
      first_ = &wait;
      kept_.insert(keep.begin(), keep.end());
    }
  }
  watch_memory();
}

void SliceQueue::watch_memory() {
  std::set<int64_t> sizes;
  for (const Wait& wait : waits_) {
    if (!wait.got && !wait.ended && wait.shape.memory_bytes > 0)
      sizes.insert(wait.shape.memory_bytes);
  }
  has_memory_come_ = false;
  memory_.emplace(hosts_.freed().memory, sizes, [this] {
    has_memory_come_ = true;
    hosts_.freed().waiting.wake_all();
  });
}

Error SliceQueue::refusal(SessionId session, const SliceShape& shape) const {
  if (const auto over = over_quota(session, shape))
    return Error(ErrorKind::kOverloaded, cat("allocate: ", over->text()), {}, kQuotaHint);
  if (first_ == nullptr || slices_.find_place(shape).empty()) return slices_.refusal(shape);
  return Error(
      ErrorKind::kOverloaded,
      cat("allocate: not so many devices are free: ", kept_.size(), " are kept for ",
          slices_.holder_name(first_->session), ", which waits for ", first_->shape.devices),
      {}, "wait for them (SliceOptions::wait_ms), or ask for less");
}

void SliceQueue::session_closed(SessionId session) {
  for (Wait& wait : waits_) {
    if (wait.session != session) continue;
    wait.ended = Error(ErrorKind::kUnavailable, "allocate: its session was closed");
    if (wait.got) slices_.release(*std::exchange(wait.got, std::nullopt));
  }
  hosts_.freed().raise();
}

std::string SliceQueue::in_the_way(const Wait& wait) const {
  if (const auto over = over_quota(wait.session, wait.shape)) return over->text();
  if (first_ != nullptr && first_ != &wait && !slices_.find_place(wait.shape).empty())
    return cat(kept_.size(), " are kept for ", slices_.holder_name(first_->session));
  return slices_.in_the_way(wait.shape);
}

std::string SliceQueue::waits_for(SessionId session) const {
  std::string text;
  for (const Wait& wait : waits_) {
    if (wait.session != session || wait.got || wait.ended) continue;
    const std::string why = in_the_way(wait);
    text += cat(text.empty() ? "" : "; ", wait.shape.devices, " devices, for ",
                format_duration_ns(clock_.now_ns() - wait.since_ns), why.empty() ? "" : ": ", why);
  }
  return text;
}

}  // namespace gangway
