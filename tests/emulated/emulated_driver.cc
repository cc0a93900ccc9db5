#include "tests/emulated/emulated_driver.h"

#include <cstring>

namespace gangway::emulated {

using namespace cuda;

std::unique_lock<std::recursive_mutex> EmulatedDriver::enter(std::string_view call) const {
  std::unique_lock lock(core_.mutex);
  if (core_.in_callback)
    core_.report(Fault::kMisuse, std::string(call), "is called by a function of notify()");
  return lock;
}

Status EmulatedDriver::lost(std::string_view label) const {
  if (state().lost.ok()) return {};
  if (state().told.contains(this_thread()))
    core_.report(Fault::kAfterError, std::string(label), "is called on a device that was lost",
                 state().lost.text);
  return tell();
}

Status EmulatedDriver::tell() const {
  if (!state().lost.ok()) state().told.insert(this_thread());
  return state().lost;
}

Status EmulatedDriver::misuse(std::string_view label, std::string text) const {
  core_.report(Fault::kMisuse, std::string(label), text);
  return {StatusKind::kInvalid, false, cat(label, " ", text)};
}

Status EmulatedDriver::enqueue(At at, Work work, bool comm) {
  if (Status status = lost(at.label); !status.ok()) return status;
  Lane* lane = core_.lane(at.stream);
  if (lane == nullptr || lane->device != device_)
    return misuse(at.label, "is enqueued on no stream of this device");
  work.label = std::string(at.label);
  for (StatusKind kind : {StatusKind::kLaunch, StatusKind::kInvalid, StatusKind::kUnsupported}) {
    if (core_.take_injection(kind, at.label)) return {kind, false, work.label};
  }
  if (comm) {
    if (state().comm_lane != nullptr && state().comm_lane != lane)
      return misuse(at.label, "uses a communicator on a second stream of the device");
    state().comm_lane = lane;
  }
  if (lane->capture) {
    Capture& capture = *lane->capture;
    capture.clocks[lane->capture_index].advance(lane->capture_index);
    capture.commands.push_back(
        {.kind = Command::kWork, .lane = lane->capture_index, .work = std::move(work)});
    return {};
  }
  core_.submit(*lane, work, core_.take_injection(StatusKind::kFault, at.label));
  core_.advance_some();
  return {};
}

Status EmulatedDriver::outside_capture(At at, std::string_view call) const {
  const Lane* lane = core_.lane(at.stream);
  if (lane == nullptr) return misuse(at.label, "names no stream");
  if (lane->capture) return misuse(at.label, cat("calls ", call, " inside a capture"));
  return {};
}

GpuInfo EmulatedDriver::info() const {
  const auto lock = enter("info");
  return {.name = "emulated",
          .architecture = 90,
          .memory_bytes = core_.options.memory_bytes,
          .memory_free = core_.options.memory_bytes - state().in_use,
          .multiprocessors = 2,
          .shared_bytes_max = 227 << 10};
}

Status EmulatedDriver::health() const {
  const auto lock = enter("health");
  return tell();
}

Result<StreamHandle> EmulatedDriver::make_stream(std::string_view name, StreamPriority) {
  const auto lock = enter("make_stream");
  return StreamHandle{core_.add_lane(device_, std::string(name)).id};
}

void EmulatedDriver::destroy(StreamHandle stream) {
  const auto lock = enter("destroy stream");
  const Lane* lane = core_.lane(stream);
  if (lane == nullptr) return core_.report(Fault::kMisuse, "destroy", "names no stream");
  // CUDA goes on with what is enqueued, but the owner of a stream also destroys what it calls back.
  if (state().lost.ok() && std::ranges::any_of(lane->queue, &Operation::calls_back))
    core_.report(Fault::kMisuse, cat("destroy ", lane->name), "a callback is still to come");
}

Result<EventHandle> EmulatedDriver::make_event() {
  const auto lock = enter("make_event");
  core_.events.emplace_back();
  return EventHandle{core_.events.size()};
}

void EmulatedDriver::destroy(EventHandle handle) {
  const auto lock = enter("destroy event");
  if (PointPtr* point = event(handle)) *point = nullptr;
}

PointPtr* EmulatedDriver::event(EventHandle handle) {
  const bool known = handle && handle.bits <= core_.events.size();
  if (!known) core_.report(Fault::kMisuse, "event", "names no event");
  return known ? &core_.events[handle.bits - 1] : nullptr;
}

Status EmulatedDriver::record(At at, EventHandle handle) {
  const auto lock = enter(at.label);
  if (Status status = lost(at.label); !status.ok()) return status;
  Lane* lane = core_.lane(at.stream);
  PointPtr* latest = event(handle);
  if (lane == nullptr || latest == nullptr) return misuse(at.label, "records on no stream");
  if (!lane->capture) {
    *latest = core_.record(*lane, std::string(at.label));
    core_.advance_some();
    return {};
  }
  Capture& capture = *lane->capture;
  const auto index = static_cast<uint32_t>(capture.points.size());
  capture.points.push_back(capture.clocks[lane->capture_index]);
  capture.commands.push_back(
      {.kind = Command::kRecord, .lane = lane->capture_index, .point = index, .work = {}});
  *latest = std::make_shared<Point>();
  (*latest)->capture = lane->capture;
  (*latest)->index = index;
  return {};
}

Status EmulatedDriver::wait(At at, EventHandle handle) {
  const auto lock = enter(at.label);
  if (Status status = lost(at.label); !status.ok()) return status;
  Lane* lane = core_.lane(at.stream);
  PointPtr* latest = event(handle);
  if (lane == nullptr || latest == nullptr) return misuse(at.label, "waits on no stream");
  const PointPtr point = *latest;
  if (point == nullptr) return {};
  if (!point->capture) {
    if (lane->capture) return misuse(at.label, "waits in a capture for what is outside of it");
    core_.wait(*lane, point, std::string(at.label));
    core_.advance_some();
    return {};
  }
  Capture& capture = *point->capture;
  if (!capture.active || (lane->capture && lane->capture != point->capture))
    return misuse(at.label, "waits for an event of another capture");
  if (!lane->capture) {  // The stream joins the capture.
    lane->capture = point->capture;
    lane->capture_index = static_cast<uint32_t>(capture.lanes.size());
    capture.lanes.push_back(lane);
    capture.clocks.emplace_back();
  }
  capture.clocks[lane->capture_index].join(capture.points[point->index]);
  capture.clocks[lane->capture_index].advance(lane->capture_index);
  capture.commands.push_back(
      {.kind = Command::kWait, .lane = lane->capture_index, .point = point->index, .work = {}});
  return {};
}

Status EmulatedDriver::query(EventHandle handle) {
  const auto lock = enter("query");
  PointPtr* latest = event(handle);
  if (latest == nullptr) return {StatusKind::kInvalid, false, "query: no event"};
  const PointPtr point = *latest;
  if (point != nullptr && point->capture) return misuse("query", "asks for a captured event");
  core_.advance_some();
  if (!state().lost.ok()) return tell();
  if (point == nullptr) return {};
  if (!point->done) return {StatusKind::kNotReady, false, {}};
  core_.host_clock.join(point->clock);
  return point->status;
}

Status EmulatedDriver::wait_for(const PointPtr& point,
                                std::unique_lock<std::recursive_mutex>& lock) {
  if (point == nullptr) return {};
  if (point->capture) return misuse("synchronize", "waits for a captured event");
  if (!core_.run_until([&] { return point->done; }, lock)) {
    core_.report(Fault::kStuck, "synchronize", "waits for what cannot come");
    return {StatusKind::kInvalid, false, "synchronize: nothing can end this wait"};
  }
  // The clock of a lost device is joined too, since that touches nothing any more.
  core_.host_clock.join(point->clock);
  if (!state().lost.ok()) return tell();
  return point->status;
}

Status EmulatedDriver::synchronize(EventHandle handle) {
  auto lock = enter("synchronize");
  PointPtr* latest = event(handle);
  if (latest == nullptr) return {StatusKind::kInvalid, false, "synchronize: no event"};
  return wait_for(PointPtr(*latest), lock);
}

Status EmulatedDriver::synchronize(StreamHandle stream) {
  auto lock = enter("synchronize");
  if (Status status = outside_capture({stream, "synchronize"}, "synchronize"); !status.ok())
    return status;
  return wait_for(core_.record(*core_.lane(stream), "synchronize"), lock);
}

// Answers a microsecond for each operation that ran in between.
Result<int64_t> EmulatedDriver::elapsed_ns(EventHandle from, EventHandle to) {
  const auto lock = enter("elapsed_ns");
  PointPtr *begin = event(from), *end = event(to);
  if (begin == nullptr || end == nullptr || *begin == nullptr || *end == nullptr ||
      !(*begin)->done || !(*end)->done)
    return to_error(misuse("elapsed_ns", "asks for events that are not done"));
  return 1000 * (static_cast<int64_t>((*end)->time) - static_cast<int64_t>((*begin)->time));
}

Status EmulatedDriver::notify(At at, void (*function)(void*), void* argument) {
  const auto lock = enter(at.label);
  if (Status status = outside_capture(at, "notify"); !status.ok()) return status;
  return enqueue(at, {{}, {}, [this, function, argument] {
                        return Operation{.run =
                                             [this, function, argument] {
                                               core_.in_callback = true;
                                               function(argument);
                                               core_.in_callback = false;
                                               return Status{};
                                             },
                                         .calls_back = true};
                      }});
}

std::unique_ptr<Driver> make_driver(Core& core, uint32_t device) {
  return std::make_unique<EmulatedDriver>(core, device);
}

}  // namespace gangway::emulated
