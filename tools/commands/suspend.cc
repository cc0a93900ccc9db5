// `gangway suspend NAME` and `gangway resume NAME`: a program gives its devices' memory to others
// for a while. The program is the user's own or, for the operator, anybody's.
#include "runtime/base/units.h"
#include "tools/commands/command.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct SuspendCommand {
  std::string name;
  ClusterOptions cluster;
};

int suspend(const SuspendCommand& command) {
  const int64_t bytes = command.cluster.connect_as("gangway suspend").suspend_program(command.name);
  print_line(cat(command.name, " is suspended: ", format_bytes(static_cast<uint64_t>(bytes)),
                 " of its states are in host memory"));
  return 0;
}

int resume(const SuspendCommand& command) {
  command.cluster.connect_as("gangway resume").resume_program(command.name);
  print_line(cat(command.name, " goes on"));
  return 0;
}

void add(CLI::App& app, Chosen& chosen, const char* name, const char* help,
         int (*act)(const SuspendCommand&)) {
  auto* command = app.add_subcommand(name, help);
  const auto options = add_options(*command, chosen, act);
  command->add_option("NAME", options->name, "as `gangway ps` shows it; of others: OWNER/NAME")
      ->required();
  add_cluster(*command, options->cluster);
}

}  // namespace

void add_suspend(CLI::App& app, Chosen& chosen) {
  add(app, chosen, "suspend",
      "Have a program of a running cluster leave its devices' memory to others: its runs wait, and "
      "its states lie in host memory, until it is resumed",
      suspend);
}

void add_resume(CLI::App& app, Chosen& chosen) {
  add(app, chosen, "resume",
      "Have a suspended program go on; refused, saying who holds what, while there is no room",
      resume);
}

}  // namespace gangway::tool
