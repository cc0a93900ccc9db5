#include "runtime/observe/trace.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cstdio>
#include <string_view>
#include <utility>

#include "runtime/base/quote.h"

namespace gangway {
namespace {

constexpr std::string_view kJsonBegin = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
constexpr std::string_view kJsonEnd = "\n]}\n";

// Order of processes in the viewer: the client, the controller, then hosts by the number at the end
// of their names.
int64_t place_of(const std::string& process) {
  constexpr int64_t kHosts = 10;
  constexpr size_t kDigitsMax = 9;
  if (process.starts_with("client")) return 0;
  if (process == "controller") return 1;
  size_t digits = 0;
  while (digits < std::min(process.size(), kDigitsMax) &&
         std::isdigit(static_cast<unsigned char>(process[process.size() - digits - 1])) != 0)
    ++digits;
  return digits == 0 ? kHosts : kHosts + std::stol(process.substr(process.size() - digits));
}

// Appends the name of a process or a row, and its position in the viewer.
void append_name(std::string& out, const char* what, int64_t pid, uint32_t tid,
                 const std::string& name, int64_t place) {
  char text[192];
  std::snprintf(text, sizeof text,
                "{\"ph\":\"M\",\"name\":\"%s_name\",\"pid\":%ld,\"tid\":%u,\"args\":{\"name\":",
                what, static_cast<long>(pid), tid);
  out += text;
  out += internal::quote(name);
  std::snprintf(text, sizeof text,
                "}},\n{\"ph\":\"M\",\"name\":\"%s_sort_index\",\"pid\":%ld,\"tid\":%u,\"args\":{"
                "\"sort_index\":%ld}},\n",
                what, static_cast<long>(pid), tid, static_cast<long>(place));
  out += text;
}

// Mixes the bits, so that arrow ids of runs and of nodes collide as seldom as any two numbers of 64
// bits.
uint64_t mix(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

bool is_arrow(TraceMark mark) {
  return mark == TraceMark::kRunLeaves || mark == TraceMark::kRunArrives ||
         mark == TraceMark::kNodeEnqueued || mark == TraceMark::kNodeRuns;
}

// Appends the id of an arrow, which both ends compute.
void append_arrow(std::string& out, const TraceEvent& event) {
  const bool of_run = event.mark == TraceMark::kRunLeaves || event.mark == TraceMark::kRunArrives;
  const bool leaves = event.mark == TraceMark::kRunLeaves || event.mark == TraceMark::kNodeEnqueued;
  const uint64_t id = mix(mix(event.run + 1) + (of_run ? 0 : mix(event.node + 1) ^ event.step));
  char text[64];
  std::snprintf(text, sizeof text, ",\"bind_id\":\"0x%lx\",\"flow_%s\":true",
                static_cast<unsigned long>(id), leaves ? "out" : "in");
  out += text;
}

void append_counter(std::string& out, int64_t pid, const std::string& row,
                    const TraceEvent& event) {
  char text[128];
  out += "{\"name\":";
  out += internal::quote(row + ": " + event.name);
  std::snprintf(text, sizeof text,
                ",\"ph\":\"C\",\"ts\":%.3f,\"pid\":%ld,\"args\":{\"value\":%ld}},\n",
                static_cast<double>(event.begin_ns) / 1e3, static_cast<long>(pid),
                static_cast<long>(event.run));
  out += text;
}

// Written by hand: a thread has up to 32,768 of them, and this is four times as fast as a JSON
// library (2 us an event).
void append_event(std::string& out, int64_t pid, uint32_t tid, const TraceEvent& event) {
  const bool instant = event.end_ns == event.begin_ns;
  out += "{\"name\":";
  out += internal::quote(event.name);
  char text[256];
  const auto begin = static_cast<double>(event.begin_ns) / 1e3;
  if (instant) {
    std::snprintf(text, sizeof text, ",\"ph\":\"i\",\"s\":\"t\",\"ts\":%.3f", begin);
  } else {
    std::snprintf(text, sizeof text, ",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f", begin,
                  static_cast<double>(event.end_ns - event.begin_ns) / 1e3);
  }
  out += text;
  if (is_arrow(event.mark)) append_arrow(out, event);
  const auto run = static_cast<unsigned long>(event.run);
  const auto node = static_cast<unsigned long>(event.node);
  std::snprintf(text, sizeof text, ",\"pid\":%ld,\"tid\":%u,\"args\":{\"run\":%lu,\"%s\":%lu",
                static_cast<long>(pid), tid, run,
                event.mark == TraceMark::kRunBegins ? "plan" : "node", node);
  out += text;
  const auto step = static_cast<unsigned long>(event.step);
  const bool is_meeting = event.mark == TraceMark::kMeeting;
  if (is_meeting || (event.mark == TraceMark::kSpan && step != 0)) {
    std::snprintf(text, sizeof text, ",\"step\":%lu", step);
    out += text;
  }
  if (is_meeting) {
    std::snprintf(text, sizeof text, ",\"meeting\":\"%lu/%lu/%lu\"", run, node, step);
    out += text;
  }
  out += "}},\n";
}

// Sorts events by their beginnings; an event inside another comes after it.
std::vector<TraceEvent> in_order(std::vector<TraceEvent> events) {
  std::ranges::stable_sort(events, [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  return events;
}

}  // namespace

namespace internal {

TraceBuffer::TraceBuffer(const Clock& clock, std::string name, uint32_t id, size_t events)
    : clock_(clock),
      name_(std::move(name)),
      id_(id),
      mask_(std::bit_ceil(std::max<size_t>(events, 2)) - 1),
      slots_(new Slot[mask_ + 1]{}) {}

TraceThread TraceBuffer::drain() {
  const uint64_t end = written_.load(std::memory_order_acquire);
  TraceThread thread = copy(drained_, end);
  drained_ = end;
  return thread;
}

TraceThread TraceBuffer::newest(size_t events) const {
  const uint64_t end = written_.load(std::memory_order_acquire);
  TraceThread thread = copy(end - std::min<uint64_t>(end, events), end);
  thread.lost = end - thread.events.size();
  return thread;
}

// Copies the events from `from` to `end` that the ring still has.
TraceThread TraceBuffer::copy(uint64_t from, uint64_t end) const {
  TraceThread thread{name_, id_, 0, {}};
  const uint64_t wanted = from;
  const uint64_t kept = mask_ + 1;
  from = std::max(from, end > kept ? end - kept : 0);
  thread.events.reserve(end - from);
  for (uint64_t at = from; at < end; ++at) {
    const Slot& slot = slots_[at & mask_];
    const auto get = [&slot](size_t i) { return slot[i].load(std::memory_order_acquire); };
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a slot is words, so that tearing is harmless.
    thread.events.push_back({reinterpret_cast<const char*>(get(0)), static_cast<int64_t>(get(1)),
                             static_cast<int64_t>(get(2)), get(3), get(4),
                             get(5) & ((uint64_t{1} << kMarkShift) - 1),
                             static_cast<TraceMark>(get(5) >> kMarkShift)});
  }
  // Slots that the writer has begun to overwrite since are torn: everything older than a ring
  // before its position.
  const uint64_t writing = writing_.load(std::memory_order_relaxed);
  const uint64_t whole = writing > kept ? writing - kept : 0;
  if (whole > from) {
    const uint64_t torn = std::min(whole, end) - from;
    thread.events.erase(thread.events.begin(),
                        thread.events.begin() + static_cast<std::ptrdiff_t>(torn));
    from += torn;
  }
  thread.lost = from - wanted;
  return thread;
}

TraceBuffer*& trace_buffer() {
  thread_local TraceBuffer* buffer = nullptr;
  return buffer;
}

}  // namespace internal

TraceAttachment::TraceAttachment(internal::TraceBuffer* buffer)
    : before_(std::exchange(internal::trace_buffer(), buffer)) {}
TraceAttachment::~TraceAttachment() { internal::trace_buffer() = before_; }

Tracer::Tracer(const Clock& clock, std::string process, size_t events_per_thread)
    : clock_(clock), process_(std::move(process)), events_per_thread_(events_per_thread) {}

TraceAttachment Tracer::attach(std::string thread) {
  return TraceAttachment(&add_row(std::move(thread)));
}

internal::TraceBuffer& Tracer::add_row(std::string name) {
  std::lock_guard lock(mutex_);
  buffers_.push_back(std::make_unique<internal::TraceBuffer>(
      clock_, std::move(name), static_cast<uint32_t>(buffers_.size() + 1), events_per_thread_));
  return *buffers_.back();
}

TraceDump Tracer::drain() {
  std::lock_guard lock(mutex_);
  TraceDump dump{process_, getpid(), {}};
  for (const auto& buffer : buffers_) dump.threads.push_back(buffer->drain());
  return dump;
}

TraceDump Tracer::newest(size_t events_per_row) {
  std::lock_guard lock(mutex_);
  TraceDump dump{process_, getpid(), {}};
  for (const auto& buffer : buffers_) dump.threads.push_back(buffer->newest(events_per_row));
  return dump;
}

std::string to_chrome_json(const std::vector<TraceDump>& dumps) {
  std::string out(kJsonBegin);
  for (const TraceDump& dump : dumps) {
    append_name(out, "process", dump.pid, 0, dump.process, place_of(dump.process));
    for (const TraceThread& thread : dump.threads) {
      append_name(out, "thread", dump.pid, thread.id, thread.name, thread.id);
      for (const TraceEvent& event : in_order(thread.events)) {
        if (event.mark == TraceMark::kCounter) {
          append_counter(out, dump.pid, thread.name, event);
        } else {
          append_event(out, dump.pid, thread.id, event);
        }
      }
    }
  }
  if (out.ends_with(",\n")) out.erase(out.size() - 2);
  return out.append(kJsonEnd);
}

std::string merge_chrome_json(const std::vector<std::string>& texts) {
  std::string out(kJsonBegin);
  for (std::string_view text : texts) {
    if (!text.starts_with(kJsonBegin) || !text.ends_with(kJsonEnd)) continue;
    text.remove_prefix(kJsonBegin.size());
    text.remove_suffix(std::min(kJsonEnd.size(), text.size()));
    if (text.empty()) continue;
    if (out.size() > kJsonBegin.size()) out += ",\n";
    out += text;
  }
  return out.append(kJsonEnd);
}

uint64_t trace_number(std::string_view name) {
  Hasher hasher;
  hasher.add(name);
  return hasher.finish().low >> 8;
}

}  // namespace gangway
