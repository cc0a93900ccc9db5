// `gangway ps`: the programs of a running cluster, and each one's part of its devices.
#include "client/client.h"
#include "tools/commands/command.h"
#include "tools/commands/status_views.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct PsCommand {
  bool json = false;
  std::string address = "127.0.0.1:7040";
  int64_t timeout_ms = ConnectOptions().timeout_ms;
};

int show_programs(const PsCommand& command) {
  const std::vector<ProgramStatus> programs =
      connect(command.address,
              {.name = "gangway ps", .number_name = true, .timeout_ms = command.timeout_ms})
          .status()
          .programs;
  if (command.json) {
    print_line(to_json(program_rows(programs)));
  } else {
    print_lines(lines_of(program_table(programs), terminal_size().columns));
  }
  return 0;
}

}  // namespace

void add_ps(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "ps", "Show the programs of a running cluster: whose they are, how far, and what they use");
  auto options = std::make_shared<PsCommand>();
  command->add_option("--connect", options->address, "the controller's address")
      ->capture_default_str();
  add_timeout(*command, options->timeout_ms);
  command->add_flag("--json", options->json, "as JSON");
  command->callback([&chosen, options] { chosen = [options] { return show_programs(*options); }; });
}

}  // namespace gangway::tool
