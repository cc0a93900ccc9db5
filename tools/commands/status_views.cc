#include "tools/commands/status_views.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "runtime/base/units.h"

namespace gangway::tool {
namespace {

// Not a number if the program has not reported it.
double reported(const ProgramStatus& program, const char* name) {
  const auto found = std::ranges::find(program.reported, name, &ReportedNumber::name);
  return found == program.reported.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

bool has_reported(const ProgramStatus& program, const char* name) {
  return std::ranges::count(program.reported, name, &ReportedNumber::name) > 0;
}

std::string number_text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// "-" if the program has not reported it.
std::string number_cell(const ProgramStatus& program, const char* name, const char* format) {
  return has_reported(program, name) ? number_text(format, reported(program, name)) : "-";
}

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) text += cat(text.empty() ? "" : separator, part);
  return text;
}

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); }

std::string state_of(const HostStatus& host) {
  std::vector<std::string> parts;
  if (host.is_draining) parts.emplace_back(host.is_drained ? "drained" : "draining");
  if (host.suspect_ms > 0) {
    parts.push_back(cat("suspect: silent for ", format_duration_ns(host.suspect_ms * 1'000'000)));
  } else if (!host.stuck.empty()) {
    parts.push_back(cat("stuck: ", joined(host.stuck, "; ")));
  }
  return parts.empty() ? "ok" : joined(parts, ", ");
}

// A user sees only the owners of other owners' programs, not their names.
std::string name_of(const ProgramStatus& program) {
  return program.name.empty() ? cat("one of ", program.owner) : program.name;
}

std::string running_on(const ClusterStatus& status, const std::string& host) {
  std::vector<std::string> names;
  for (const ProgramStatus& program : status.programs) {
    if (!program.is_self && std::ranges::count(program.hosts, host) > 0)
      names.push_back(name_of(program));
  }
  return names.empty() ? "-" : joined(names, ", ");
}

std::string marks_of(const ProgramStatus& program) {
  if (!program.detached && !program.suspended) return "";
  return cat(" (", program.detached ? "detached" : "",
             program.detached && program.suspended ? ", " : "",
             program.suspended ? "suspended" : "", ")");
}

}  // namespace

Table program_table(const std::vector<ProgramStatus>& programs) {
  const auto number = [](const char* title, int drop) {
    return Column{.title = title, .is_number = true, .drop = drop};
  };
  const bool anybody_waits = std::ranges::any_of(programs, [](const ProgramStatus& program) {
    return !program.is_self && !program.waits_for.empty();
  });
  Table table{.columns = {number("ID", 2),
                          {.title = "PROGRAM"},
                          {.title = "OWNER", .least = 6},
                          number("STEP", 0),
                          number("LOSS", 0),
                          number("TOKENS/S", 0),
                          number("USED", 0),
                          number("MEMORY", 0),
                          number("WEIGHT", 1),
                          number("PRIORITY", 3),
                          number("DEVICES", 4),
                          number("IN FLIGHT", 5),
                          number("WAITING", 6),
                          number("DONE", 7),
                          {.title = "ON", .drop = 8, .least = 12},
                          {.title = "WAITS FOR", .drop = anybody_waits ? 1 : 9, .least = 12}},
              .rows = {}};
  for (const ProgramStatus& program : programs) {
    if (program.is_self) continue;
    table.rows.push_back(
        {cat(program.id), cat(name_of(program), marks_of(program)), program.owner,
         number_cell(program, "step", "%.0f"), number_cell(program, "loss", "%.4g"),
         number_cell(program, "tokens_per_s", "%.0f"), number_text("%.1f%%", 100 * program.used),
         bytes_text(program.memory_bytes), number_text("%g", program.share.weight),
         cat(program.share.priority), cat(program.devices), cat(program.runs_in_flight),
         cat(program.runs_waiting), cat(program.runs_done), joined(program.hosts, ","),
         program.waits_for});
  }
  return table;
}

std::vector<JsonObject> program_rows(const std::vector<ProgramStatus>& programs) {
  std::vector<JsonObject> rows;
  for (const ProgramStatus& program : programs) {
    if (program.is_self) continue;
    rows.push_back({{"id", program.id},
                    {"detached", program.detached},
                    {"suspended", program.suspended},
                    {"checkpoint", program.checkpoint},
                    {"program", program.name},
                    {"owner", program.owner},
                    {"weight", program.share.weight},
                    {"priority", int64_t{program.share.priority}},
                    {"step", reported(program, "step")},
                    {"loss", reported(program, "loss")},
                    {"tokens_per_s", reported(program, "tokens_per_s")},
                    {"used", program.used},
                    {"memory_bytes", program.memory_bytes},
                    {"host_bytes", program.host_bytes},
                    {"devices", uint64_t{program.devices}},
                    {"hosts", joined(program.hosts, ",")},
                    {"runs_waiting", program.runs_waiting},
                    {"runs_in_flight", program.runs_in_flight},
                    {"runs_done", program.runs_done},
                    {"waits_for", program.waits_for}});
    for (const ReportedNumber& number : program.reported) {
      if (number.name != "step" && number.name != "loss" && number.name != "tokens_per_s")
        rows.back().emplace_back(cat("reported.", number.name), number.value);
    }
  }
  return rows;
}

Table host_table(const ClusterStatus& status) {
  Table table{.columns = {{.title = "HOST"},
                          {.title = "ISLAND", .drop = 4, .least = 6},
                          {.title = "DEVICES", .is_number = true},
                          {.title = "MEMORY", .is_number = true},
                          {.title = "DONE", .is_number = true, .drop = 3},
                          {.title = "STATE", .drop = 2, .least = 12},
                          {.title = "RUNNING", .drop = 1, .least = 12}},
              .rows = {}};
  for (const HostStatus& host : status.hosts) {
    table.rows.push_back({host.name, host.island, cat(host.devices, " ", host.kind),
                          cat(bytes_text(host.memory_used), " of ", bytes_text(host.memory_bytes)),
                          cat(host.runs_done), state_of(host), running_on(status, host.name)});
  }
  return table;
}

std::vector<JsonObject> host_rows(const std::vector<HostStatus>& hosts) {
  std::vector<JsonObject> rows;
  for (const HostStatus& host : hosts) {
    rows.push_back({{"host", host.name},
                    {"island", host.island},
                    {"kind", host.kind},
                    {"devices", uint64_t{host.devices}},
                    {"memory_bytes", host.memory_bytes},
                    {"memory_used", host.memory_used},
                    {"runs_done", host.runs_done},
                    {"suspect_ms", host.suspect_ms},
                    {"draining", host.is_draining},
                    {"drained", host.is_drained},
                    {"certificate_ends_s", host.certificate_ends_s},
                    {"stuck", joined(host.stuck, "; ")}});
  }
  return rows;
}

}  // namespace gangway::tool
