#include "controller/service/program_logs.h"

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

ProgramLogs::LogPtr ProgramLogs::at(SessionId program) const {
  const auto found = logs_.find(program);
  return found == logs_.end() ? nullptr : found->second;
}

void ProgramLogs::begin(SessionId program, std::string owner, std::string name) {
  const auto log = std::make_shared<Log>();
  log->program = program;
  log->owner = std::move(owner);
  log->name = std::move(name);
  logs_[program] = log;
}

void ProgramLogs::keep(SessionId program) {
  if (const LogPtr log = at(program)) log->is_kept = true;
}

void ProgramLogs::end(SessionId program, const std::string& why) {
  const LogPtr log = at(program);
  if (log == nullptr || log->ended) return;
  add_unsaid(*log);
  add(*log, cat("it has ended: ", why), false);
  log->ended = true;
  log->changed.wake_all();
  if (log->is_kept) return forget_older(*log);
  logs_.erase(program);
}

// The map is in the order in which programs began, which is near enough to that of their ends.
void ProgramLogs::forget_older(const Log& newest) {
  size_t ended = 0;
  for (auto at = logs_.end(); at != logs_.begin();) {
    --at;
    const Log& log = *at->second;
    if (&log == &newest || !log.ended || log.owner != newest.owner) continue;
    if (log.name == newest.name || ++ended >= kEndedMax) at = logs_.erase(at);
  }
}

void ProgramLogs::add(Log& log, std::string_view text, bool of_program) const {
  LoggedLine& line = log.lines.emplace_back();
  line.number = ++log.last;
  line.time_ns = clock_.wall_ns();
  line.of_program = of_program;
  line.text = cut(text, kLogLineBytesMax);
  log.bytes += line.text.size() + kLineCost;
  while (log.lines.size() > kLogLinesMax || log.bytes > kLogBytesMax) {
    log.bytes -= log.lines.front().text.size() + kLineCost;
    log.lines.pop_front();
  }
  log.changed.wake_all();
}

void ProgramLogs::say(SessionId program, std::string_view text) {
  if (const LogPtr log = at(program)) add(*log, text, false);
}

void ProgramLogs::add_unsaid(Log& log) const {
  if (const uint64_t count = std::exchange(log.failed_since, 0); count > 0)
    add(log, cat(count, count == 1 ? " more run has failed" : " more runs have failed"), false);
}

void ProgramLogs::say_run_failed(SessionId program, const Error& error) {
  const LogPtr log = at(program);
  if (log == nullptr) return;
  const int64_t now_ns = clock_.now_ns();
  if (log->failed_ns && now_ns - *log->failed_ns < kFailedEveryNs) {
    ++log->failed_since;
    return;
  }
  add_unsaid(*log);
  log->failed_ns = now_ns;
  add(*log, cat("a run has failed: ", error.message()), false);
}

void ProgramLogs::say_of_program(SessionId program, uint64_t first,
                                 const std::vector<std::string>& lines) {
  GW_REQUIRE(lines.size() <= kLogLinesOfCallMax, "log: expected at most ", kLogLinesOfCallMax,
             " lines at once, got ", lines.size());
  const LogPtr log = at(program);
  if (log == nullptr) return;
  log->is_kept = true;
  if (first > log->of_client) {
    log->last += std::min(first - log->of_client, kDroppedMax);
    log->of_client = first;
  }
  const uint64_t known = std::min<uint64_t>(log->of_client - first, lines.size());
  for (const std::string& line : std::span(lines).subspan(known)) add(*log, line, true);
  log->of_client += lines.size() - known;
}

void ProgramLogs::client_changed(SessionId program) {
  if (const LogPtr log = at(program)) log->of_client = 0;
}

std::optional<SessionId> ProgramLogs::find(const std::string& owner, const std::string& name,
                                           uint64_t only) const {
  std::optional<SessionId> last;
  for (const auto& [id, log] : logs_) {
    if (log->owner != owner || log->name != name || (only != 0 && id.value != only)) continue;
    last = id;
    if (!log->ended) break;
  }
  return last;
}

ProgramLog ProgramLogs::read(const Log& log, uint64_t after) {
  ProgramLog read{.program = log.program.value, .lines = {}, .last = log.last, .ended = log.ended};
  const auto from = std::ranges::upper_bound(log.lines, after, {}, &LoggedLine::number);
  read.lines.assign(from, log.lines.end());
  return read;
}

ProgramLog ProgramLogs::read(SessionId program, uint64_t after) const {
  const LogPtr log = at(program);
  if (log == nullptr) {
    throw Error(ErrorKind::kUnavailable,
                cat("logs: those of client ", program, " are kept no longer"));
  }
  return read(*log, after);
}

ProgramLog ProgramLogs::wait(SessionId program, uint64_t after, int64_t until_ns,
                             const StopToken& stop) const {
  const LogPtr log = at(program);
  if (log == nullptr) return read(program, after);
  const StopRegistration on_stop = stop.on_stop([log](const Error&) { log->changed.wake_all(); });
  while (log->last <= after && !log->ended && !stop.stop_requested() &&
         log->changed.wait_until_ns("for a program to log something", until_ns)) {
  }
  stop.throw_if_stopped();
  return read(*log, after);
}

}  // namespace gangway
