// `gangway stop NAME`: ends a program of a running cluster, the user's own or, for the operator,
// anybody's.
#include "tools/commands/command.h"
#include "tools/io/number.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct StopCommand {
  std::string name;
  ClusterOptions cluster;
  double grace_s = 30;
};

int stop(const StopCommand& command) {
  const bool by_force =
      command.cluster.connect_as("gangway stop")
          .stop_program(command.name, static_cast<int64_t>(command.grace_s * 1000));
  print_line(
      cat(command.name, by_force ? " has not ended by itself: ended by force" : " has ended"));
  return 0;
}

}  // namespace

void add_stop(CLI::App& app, Chosen& chosen) {
  constexpr double kGraceMaxS = 7 * 24 * 3600;
  auto* command = app.add_subcommand(
      "stop",
      "End a program of a running cluster: at the next step where it is detached; else its "
      "client is asked to, and ended by force when it has not");
  const auto options = add_options(*command, chosen, stop);
  command->add_option("NAME", options->name, "as `gangway ps` shows it; of others: OWNER/NAME")
      ->required();
  add_cluster(*command, options->cluster);
  command->add_option("--grace", options->grace_s, "seconds until it is ended by force; 0: at once")
      ->check(real_number(0, kGraceMaxS))
      ->capture_default_str();
}

}  // namespace gangway::tool
