// `gangway stop NAME`: ends a program of a running cluster, the user's own or, for the operator,
// anybody's.
#include "client/client.h"
#include "tools/commands/command.h"
#include "tools/io/number.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct StopCommand {
  std::string name;
  std::string address = "127.0.0.1:7040";
  double grace_s = 30;
  int64_t timeout_ms = ConnectOptions().timeout_ms;
};

int stop(const StopCommand& command) {
  const Client client =
      connect(command.address,
              {.name = "gangway stop", .number_name = true, .timeout_ms = command.timeout_ms});
  const bool by_force =
      client.stop_program(command.name, static_cast<int64_t>(command.grace_s * 1000));
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
  auto options = std::make_shared<StopCommand>();
  command->add_option("NAME", options->name, "as `gangway ps` shows it; of others: OWNER/NAME")
      ->required();
  command->add_option("--connect", options->address, "the controller's address")
      ->capture_default_str();
  command->add_option("--grace", options->grace_s, "seconds until it is ended by force; 0: at once")
      ->check(real_number(0, kGraceMaxS))
      ->capture_default_str();
  add_timeout(*command, options->timeout_ms);
  command->callback([&chosen, options] { chosen = [options] { return stop(*options); }; });
}

}  // namespace gangway::tool
