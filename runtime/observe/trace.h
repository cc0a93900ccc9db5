// Tracer: spans of time, cheap enough to leave on, shown as a timeline by chrome://tracing and
// ui.perfetto.dev.
//
// Each thread records into a bounded ring of its own, which keeps the newest events. drain() turns
// them into a TraceDump, a value that can be sent; dumps of several processes of one machine become
// one Chrome trace, since they share CLOCK_MONOTONIC. With a simulated clock the same seed gives
// the same events.
//
// Threads: a thread records after attach(); without it spans cost a load and a branch. drain() and
// newest() anywhere, also while others record. Names are literals: they must live as long as the
// process.
// Ownership: the tracer outlives the attachments of its threads; main() owns it, there is no global
// one.
// Cost: 60-80 ns a span. Memory: 48 bytes an event, kTraceEventsPerThread of them. A span is for
// code that does not suspend. For intervals that contain a suspension, add_row() takes the times.
//
// The viewer shows processes and rows in the order of their numbers ("host-2" before "host-10"). It
// shows arrows from the span in which the controller dispatches a run to those in which hosts
// receive it, and from where a host enqueues a node to where devices run it. It shows counters as
// curves. All parts of one collective have one id, "run/node/step", as the argument "meeting".
// Arrows cost nothing when they are recorded: to_chrome_json() finds both ends by the run, the node
// and the mark.
//
// Example:
//   Tracer tracer(clock, "executor 3");
//   TraceAttachment attached = tracer.attach("reactor");
//   {
//     TraceSpan span("dispatch", run_id, node_id);
//     dispatch(run);
//   }
//   write(to_chrome_json({tracer.drain()}));
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/hash.h"
#include "runtime/fibers/clock.h"

namespace gangway {

inline constexpr size_t kTraceEventsPerThread = 1 << 15;

// The mark that the viewer draws for an event, if any, in addition to its span.
enum class TraceMark : uint8_t {
  kSpan,          // A span alone.
  kRunLeaves,     // Arrows of its run begin here,
  kRunArrives,    // and end here.
  kNodeEnqueued,  // Arrows of its node in its run begin here,
  kNodeRuns,      // and end here.
  kMeeting,       // One member's part of a collective: all parts have one run, node and step.
  kCounter,       // No span: from begin_ns on, the counter's value is `run`.
  kRunBegins,     // An instant: the run is of the plan whose number on this host is `node`.
};

struct TraceEvent {
  const char* name = nullptr;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;  // Equal to begin_ns: an instant.
  uint64_t run = 0;
  uint64_t node = 0;
  // Below 2^56. For a kernel or a collective: its step in its function, as ir/plan/step_map.h
  // counts. For the ends of nodes' arrows: trace_number() of the host, since several hosts may run
  // in one process.
  uint64_t step = 0;
  TraceMark mark = TraceMark::kSpan;
};

// Events that one thread recorded, oldest first.
struct TraceThread {
  std::string name;
  uint32_t id = 0;
  uint64_t lost = 0;  // Number of earlier events that are missing.
  std::vector<TraceEvent> events;
};

struct TraceDump {
  std::string process;
  int64_t pid = 0;
  std::vector<TraceThread> threads;
};

namespace internal {

// One thread's ring. Only that thread writes. drain() may run on any thread; it drops events that
// were overwritten while it copied.
class TraceBuffer {
 public:
  TraceBuffer(const Clock& clock, std::string name, uint32_t id, size_t events);
  int64_t now_ns() const { return clock_.now_ns(); }
  void record(const TraceEvent& event) {
    const uint64_t at = written_.load(std::memory_order_relaxed);
    // Announced first, so that a reader knows which slot is being overwritten.
    writing_.store(at + 1, std::memory_order_relaxed);
    Slot& slot = slots_[at & mask_];
    slot[0].store(reinterpret_cast<uint64_t>(event.name), std::memory_order_release);
    slot[1].store(static_cast<uint64_t>(event.begin_ns), std::memory_order_release);
    slot[2].store(static_cast<uint64_t>(event.end_ns), std::memory_order_release);
    slot[3].store(event.run, std::memory_order_release);
    slot[4].store(event.node, std::memory_order_release);
    slot[5].store(event.step | uint64_t{static_cast<uint8_t>(event.mark)} << kMarkShift,
                  std::memory_order_release);
    written_.store(at + 1, std::memory_order_release);
  }
  // The value of a counter from now on.
  void count(const char* name, int64_t value) {
    const int64_t at_ns = now_ns();
    record({.name = name,
            .begin_ns = at_ns,
            .end_ns = at_ns,
            .run = static_cast<uint64_t>(value),
            .mark = TraceMark::kCounter});
  }
  TraceThread drain();
  TraceThread newest(size_t events) const;

 private:
  TraceThread copy(uint64_t from, uint64_t end) const;
  static constexpr int kMarkShift = 56;
  using Slot = std::array<std::atomic<uint64_t>, 6>;
  const Clock& clock_;
  std::string name_;
  uint32_t id_;
  uint64_t mask_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> writing_{0};
  std::atomic<uint64_t> written_{0};
  uint64_t drained_ = 0;  // The tracer's mutex guards it.
};

// This thread's ring; null when it records nothing.
TraceBuffer*& trace_buffer();

}  // namespace internal

// Records this thread's events while it lives. Created and destroyed on the thread itself.
class [[nodiscard]] TraceAttachment {
 public:
  explicit TraceAttachment(internal::TraceBuffer* buffer);
  TraceAttachment(const TraceAttachment&) = delete;
  TraceAttachment& operator=(const TraceAttachment&) = delete;
  ~TraceAttachment();

 private:
  internal::TraceBuffer* before_;
};

class Tracer {
 public:
  Tracer(const Clock& clock, std::string process, size_t events_per_thread = kTraceEventsPerThread);

  TraceAttachment attach(std::string thread);
  // A row of the timeline that is no thread, such as a device: the caller records with one thread
  // at a time.
  internal::TraceBuffer& add_row(std::string name);
  // Events recorded since the last drain.
  TraceDump drain();
  // The last `events_per_row` events of each row, drained or not. The events stay in the rings.
  TraceDump newest(size_t events_per_row);

 private:
  const Clock& clock_;
  std::string process_;
  size_t events_per_thread_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<internal::TraceBuffer>> buffers_;
};

class TraceSpan {
 public:
  explicit TraceSpan(const char* name, uint64_t run = 0, uint64_t node = 0,
                     TraceMark mark = TraceMark::kSpan, uint64_t step = 0)
      : buffer_(internal::trace_buffer()) {
    if (buffer_ != nullptr) event_ = {name, buffer_->now_ns(), 0, run, node, step, mark};
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (buffer_ == nullptr) return;
    event_.end_ns = buffer_->now_ns();
    buffer_->record(event_);
  }

 private:
  internal::TraceBuffer* buffer_;
  TraceEvent event_;
};

// {"traceEvents": [...]}, for chrome://tracing and ui.perfetto.dev. The events of a row are in the
// order of their beginnings.
std::string to_chrome_json(const std::vector<TraceDump>& dumps);

// Merges several texts of to_chrome_json() into one trace. Other texts, such as the empty text of a
// process that was killed, are left out.
std::string merge_chrome_json(const std::vector<std::string>& texts);

// A number for a name, below 2^56. Two names hardly ever have the same number.
uint64_t trace_number(std::string_view name);

}  // namespace gangway
