// `gangway ps`: the programs of a running cluster, and each one's part of its devices.
#include "tools/commands/command.h"
#include "tools/commands/status_views.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct PsCommand {
  bool json = false;
  ClusterOptions cluster;
};

int show_programs(const PsCommand& command) {
  const std::vector<ProgramStatus> programs =
      command.cluster.connect_as("gangway ps").status().programs;
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
  const auto options = add_options(*command, chosen, show_programs);
  add_cluster(*command, options->cluster);
  command->add_flag("--json", options->json, "as JSON");
}

}  // namespace gangway::tool
