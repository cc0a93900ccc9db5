// `gangway ps`: the programs that a running cluster serves, and what each gets of its devices.
#include <cstdio>

#include "client/client.h"
#include "tools/commands/command.h"
#include "tools/commands/json.h"

namespace gangway::tool {
namespace {

struct PsCommand {
  bool json = false;
  std::string address = "127.0.0.1:7040";
  int64_t timeout_ms = ConnectOptions().timeout_ms;
};

void show_table(const std::vector<ProgramStatus>& programs) {
  size_t width = 7;
  for (const ProgramStatus& program : programs) width = std::max(width, program.name.size());
  const int name = static_cast<int>(width);
  std::printf("%5s  %-*s  %7s  %8s  %6s  %7s  %9s  %8s\n", "ID", name, "PROGRAM", "WEIGHT",
              "PRIORITY", "USED", "WAITING", "IN FLIGHT", "DONE");
  for (const ProgramStatus& program : programs) {
    std::printf("%5llu  %-*s  %7g  %8d  %5.1f%%  %7llu  %9llu  %8llu\n",
                static_cast<unsigned long long>(program.id), name, program.name.c_str(),
                program.share.weight, program.share.priority, 100 * program.used,
                static_cast<unsigned long long>(program.runs_waiting),
                static_cast<unsigned long long>(program.runs_in_flight),
                static_cast<unsigned long long>(program.runs_done));
  }
}

int show_programs(const PsCommand& command) {
  std::vector<ProgramStatus> programs =
      connect(command.address, {.name = "gangway ps", .timeout_ms = command.timeout_ms})
          .status()
          .programs;
  std::erase_if(programs, [](const ProgramStatus& program) { return program.is_self; });
  if (!command.json) {
    show_table(programs);
    return 0;
  }
  std::vector<JsonObject> rows;
  rows.reserve(programs.size());
  for (const ProgramStatus& program : programs) {
    rows.push_back({{"id", program.id},
                    {"program", program.name},
                    {"weight", program.share.weight},
                    {"priority", int64_t{program.share.priority}},
                    {"used", program.used},
                    {"runs_waiting", program.runs_waiting},
                    {"runs_in_flight", program.runs_in_flight},
                    {"runs_done", program.runs_done}});
  }
  std::printf("%s\n", to_json(rows).c_str());
  return 0;
}

}  // namespace

void add_ps(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "ps", "Show the programs of a running cluster, and the part of their devices' time they use");
  auto options = std::make_shared<PsCommand>();
  command->add_option("--connect", options->address, "the controller's address")
      ->capture_default_str();
  add_timeout(*command, options->timeout_ms);
  command->add_flag("--json", options->json, "as JSON");
  command->callback([&chosen, options] { chosen = [options] { return show_programs(*options); }; });
}

}  // namespace gangway::tool
