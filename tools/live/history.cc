#include "tools/live/history.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "tools/io/json.h"

namespace gangway::tool {
namespace {

double said(const ProgramStatus& program, const char* name) {
  const auto found = std::ranges::find(program.reported, name, &ReportedNumber::name);
  return found == program.reported.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

void append_number(std::string& text, double value) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), value).ptr;
  text.append(digits, end);
}

}  // namespace

void History::add(const ClusterStatus& status, int64_t time_ms) {
  if (++sample_ == 1) since_ms_ = time_ms;
  double devices = 0;
  for (const HostStatus& host : status.hosts) devices += host.devices;
  for (Line& line : lines_) {
    line.has_ended = std::ranges::count(status.programs, line.id, &ProgramStatus::id) == 0;
  }
  for (const ProgramStatus& program : status.programs) {
    if (program.is_self || (program.devices == 0 && program.reported.empty())) continue;
    Line& line = line_of(program);
    if (sample_ % line.stride != 0) continue;
    if (line.points.size() >= kPointsMax) {
      line.stride *= 2;
      std::erase_if(line.points,
                    [&](const Point& point) { return point.sample % line.stride != 0; });
      if (sample_ % line.stride != 0) continue;
    }
    line.points.push_back({.sample = sample_,
                           .time_ms = time_ms,
                           .step = said(program, "step"),
                           .loss = said(program, "loss"),
                           .tokens_per_s = said(program, "tokens_per_s"),
                           .share = devices > 0 ? program.used * program.devices / devices : 0});
  }
}

History::Line& History::line_of(const ProgramStatus& program) {
  const auto found = std::ranges::find(lines_, program.id, &Line::id);
  if (found != lines_.end()) return *found;
  make_room();
  return lines_.emplace_back(
      Line{.id = program.id, .program = program.name, .owner = program.owner});
}

void History::make_room() {
  if (lines_.size() < kProgramsMax) return;
  const auto ended = std::ranges::find(lines_, true, &Line::has_ended);
  lines_.erase(ended == lines_.end() ? lines_.begin() : ended);
}

std::string History::to_json(uint64_t after) const {
  std::string text = cat("{\"sample\":", sample_, ",\"since_ms\":", since_ms_, ",\"programs\":[");
  for (const Line& line : lines_) {
    if (&line != &lines_.front()) text += ',';
    text += gangway::tool::to_json(JsonObject{{"id", line.id},
                                              {"program", line.program},
                                              {"owner", line.owner},
                                              {"ended", line.has_ended}});
    text.pop_back();
    text += ",\"points\":[";
    bool is_first = true;
    for (const Point& point : line.points) {
      if (point.sample <= after) continue;
      text += cat(is_first ? "[" : ",[", point.sample, ",", point.time_ms);
      is_first = false;
      for (const double value : {point.step, point.loss, point.tokens_per_s, point.share}) {
        text += ',';
        append_number(text, value);
      }
      text += ']';
    }
    text += "]}";
  }
  return text + "]}";
}

}  // namespace gangway::tool
