#include "controller/programs/log_buffer.h"

#include <algorithm>
#include <span>
#include <utility>

#include "runtime/base/cat.h"
#include "runtime/base/cut.h"

namespace gangway {
namespace {

constexpr int64_t kFailedEveryNs = 1'000'000'000;
constexpr uint64_t kDroppedMax = uint64_t{1} << 32;  // Lines that a client may skip at once.
constexpr size_t kLineCost = sizeof(LoggedLine);     // Bytes of a line in addition to its text.

}  // namespace

void LogBuffer::add(std::string_view text, bool of_program) {
  LoggedLine& line = lines_.emplace_back();
  line.number = ++last_;
  line.time_ns = clock_.wall_ns();
  line.of_program = of_program;
  line.text = cut(text, kLogLineBytesMax);
  bytes_ += line.text.size() + kLineCost;
  while (lines_.size() > kLogLinesMax || bytes_ > kLogBytesMax) {
    bytes_ -= lines_.front().text.size() + kLineCost;
    lines_.pop_front();
  }
  changed_.wake_all();
}

void LogBuffer::say(std::string_view text) { add(text, false); }

void LogBuffer::add_unsaid() {
  if (const uint64_t count = std::exchange(failed_since_, 0); count > 0)
    add(cat(count, count == 1 ? " more run has failed" : " more runs have failed"), false);
}

void LogBuffer::say_run_failed(const Error& error) {
  const int64_t now_ns = clock_.now_ns();
  if (failed_ns_ && now_ns - *failed_ns_ < kFailedEveryNs) {
    ++failed_since_;
    return;
  }
  add_unsaid();
  failed_ns_ = now_ns;
  add(cat("a run has failed: ", error.message()), false);
}

void LogBuffer::say_of_client(uint64_t first, const std::vector<std::string>& lines) {
  GW_REQUIRE(lines.size() <= kLogLinesOfCallMax, "log: expected at most ", kLogLinesOfCallMax,
             " lines at once, got ", lines.size());
  keep();
  if (first > of_client_) {
    last_ += std::min(first - of_client_, kDroppedMax);
    of_client_ = first;
  }
  const uint64_t known = std::min<uint64_t>(of_client_ - first, lines.size());
  for (const std::string& line : std::span(lines).subspan(known)) add(line, true);
  of_client_ += lines.size() - known;
}

void LogBuffer::end(const std::string& why) {
  if (ended_) return;
  add_unsaid();
  add(cat("it has ended: ", why), false);
  ended_ = true;
  changed_.wake_all();
}

ProgramLog LogBuffer::read(uint64_t after) const {
  ProgramLog read{.program = program_.value, .lines = {}, .last = last_, .ended = ended_};
  const auto from = std::ranges::upper_bound(lines_, after, {}, &LoggedLine::number);
  read.lines.assign(from, lines_.end());
  return read;
}

ProgramLog LogBuffer::wait(uint64_t after, int64_t until_ns, const StopToken& stop) {
  const StopRegistration on_stop = stop.on_stop([this](const Error&) { changed_.wake_all(); });
  while (last_ <= after && !ended_ && !stop.stop_requested() &&
         changed_.wait_until_ns("for a program to log something", until_ns)) {
  }
  stop.throw_if_stopped();
  return read(after);
}

}  // namespace gangway
