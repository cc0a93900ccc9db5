// `gangway suspend NAME` and `gangway resume NAME`: a program gives its devices' memory to others
// for a while. The program is the user's own or, for the operator, anybody's.
#include "client/client.h"
#include "runtime/base/units.h"
#include "tools/commands/command.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct SuspendCommand {
  std::string name;
  std::string address = "127.0.0.1:7040";
  int64_t timeout_ms = ConnectOptions().timeout_ms;
};

Client client_of(const SuspendCommand& command, const char* name) {
  return connect(command.address,
                 {.name = name, .number_name = true, .timeout_ms = command.timeout_ms});
}

int suspend(const SuspendCommand& command) {
  const int64_t bytes = client_of(command, "gangway suspend").suspend_program(command.name);
  print_line(cat(command.name, " is suspended: ", format_bytes(static_cast<uint64_t>(bytes)),
                 " of its states are in host memory"));
  return 0;
}

int resume(const SuspendCommand& command) {
  client_of(command, "gangway resume").resume_program(command.name);
  print_line(cat(command.name, " goes on"));
  return 0;
}

void add(CLI::App& app, Chosen& chosen, const char* name, const char* help,
         int (*act)(const SuspendCommand&)) {
  auto* command = app.add_subcommand(name, help);
  auto options = std::make_shared<SuspendCommand>();
  command->add_option("NAME", options->name, "as `gangway ps` shows it; of others: OWNER/NAME")
      ->required();
  command->add_option("--connect", options->address, "the controller's address")
      ->capture_default_str();
  add_timeout(*command, options->timeout_ms);
  command->callback([&chosen, options, act] { chosen = [options, act] { return act(*options); }; });
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
