// `gangway logs NAME`: the lines that a program of a running cluster has logged, and those that its
// controller added. The program is the user's own or, for the operator, anybody's.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "tools/commands/command.h"
#include "tools/io/json.h"
#include "tools/io/number.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct LogsCommand {
  std::string name;
  ClusterOptions cluster;
  int64_t tail = std::numeric_limits<int64_t>::max();
  bool follow = false, json = false;
};

// "2026-11-23T09:29:47.123Z" in UTC; people get their own time, without the zone.
std::string time_text(int64_t time_ns, bool is_utc) {
  const time_t seconds = time_ns / 1'000'000'000;
  struct tm parts{};
  is_utc ? gmtime_r(&seconds, &parts) : localtime_r(&seconds, &parts);
  char text[32];
  strftime(text, sizeof(text), is_utc ? "%Y-%m-%dT%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &parts);
  char all[48];
  std::snprintf(all, sizeof(all), "%s.%03d%s", text, static_cast<int>(time_ns / 1'000'000 % 1000),
                is_utc ? "Z" : "");
  return all;
}

std::string text_of(const LoggedLine& line) {
  return cat(time_text(line.time_ns, false), "  ", line.of_program ? "program   " : "controller",
             "  ", line.text);
}

// `dropped`: number of lines that were dropped before this one.
std::string json_of(const LoggedLine& line, uint64_t dropped) {
  JsonObject object{{"number", line.number},
                    {"time", time_text(line.time_ns, true)},
                    {"from", line.of_program ? "program" : "controller"},
                    {"text", line.text}};
  if (dropped > 0) object.insert(object.begin() + 1, {"dropped", dropped});
  return to_json(object);
}

// Prints the lines, which come behind line `after`. Returns the number of the last.
uint64_t show(const std::vector<LoggedLine>& lines, uint64_t after, bool json) {
  std::vector<std::string> texts;
  for (const LoggedLine& line : lines) {
    const uint64_t dropped = line.number - after - 1;
    if (json) {
      texts.push_back(json_of(line, dropped));
    } else {
      if (dropped > 0)
        texts.push_back(cat("(", dropped, dropped == 1 ? " line was" : " lines were", " dropped)"));
      texts.push_back(text_of(line));
    }
    after = line.number;
  }
  print_lines(texts);
  return after;
}

int show_logs(const LogsCommand& command) {
  const Client client = command.cluster.connect_as("gangway logs");
  ProgramLog log = client.logs(command.name);
  const size_t cut =
      log.lines.size() - std::min(log.lines.size(), static_cast<size_t>(command.tail));
  uint64_t after = 0;
  if (cut > 0) {
    after = log.lines[cut - 1].number;
    log.lines.erase(log.lines.begin(), log.lines.begin() + static_cast<ptrdiff_t>(cut));
  }
  after = show(log.lines, after, command.json);
  // Follows the program of this session, also if another takes its name.
  while (command.follow && !log.ended) {
    log = client.logs(command.name,
                      {.program = log.program, .after = after, .wait_ms = kLogWaitMsMax});
    after = show(log.lines, after, command.json);
  }
  return 0;
}

}  // namespace

void add_logs(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "logs",
      "Show what a program of a running cluster has said, and what its controller knows of it; "
      "also of one that has ended, for a while");
  const auto options = add_options(*command, chosen, show_logs);
  command->add_option("NAME", options->name, "as `gangway ps` shows it; of others: OWNER/NAME")
      ->required();
  add_cluster(*command, options->cluster);
  command->add_flag("-f,--follow", options->follow, "and wait for more, until the program ends");
  command->add_option("--tail", options->tail, "of the lines that are there, only so many")
      ->check(whole_number(0, kCountMax))
      ->default_str("all");
  command->add_flag("--json", options->json, "each line as a JSON object");
}

}  // namespace gangway::tool
