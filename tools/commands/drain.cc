// `gangway drain`, `gangway undrain` and `gangway forget`, for the operator: hosts of a running
// cluster that are to go, and hosts that are gone.
#include <algorithm>

#include "client/client.h"
#include "tools/commands/command.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct HostCommand {
  std::string host;
  std::string address = "127.0.0.1:7040";
  int64_t timeout_ms = ConnectOptions().timeout_ms;
};

std::shared_ptr<HostCommand> add_host_options(CLI::App& command) {
  auto options = std::make_shared<HostCommand>();
  command.add_option("HOST", options->host, "as `gangway devices --connect` shows it")->required();
  command.add_option("--connect", options->address, "the controller's address")
      ->capture_default_str();
  add_timeout(command, options->timeout_ms);
  return options;
}

Client client_of(const HostCommand& command, const std::string& name) {
  return connect(command.address,
                 {.name = name, .number_name = true, .timeout_ms = command.timeout_ms});
}

bool lies_on(const ProgramStatus& program, const std::string& host) {
  return std::ranges::count(program.hosts, host) > 0;
}

int drain(const HostCommand& command) {
  const Client client = client_of(command, "gangway drain");
  client.drain(command.host);
  const ClusterStatus status = client.status();
  const auto host = std::ranges::find(status.hosts, command.host, &HostStatus::name);
  if (host == status.hosts.end()) {
    print_line(cat(command.host, " is gone: it gets no slices if it comes back"));
  } else if (host->is_drained) {
    print_line(cat(command.host, " is drained: nothing lies on it"));
  } else {
    print_line(cat(command.host, " is draining: it gets no new slices; what is there goes on:"));
    for (const ProgramStatus& program : status.programs) {
      if (lies_on(program, command.host))
        print_line(cat("  ", program.name, " of ", program.owner));
    }
  }
  return 0;
}

int undrain(const HostCommand& command) {
  client_of(command, "gangway undrain").undrain(command.host);
  print_line(cat(command.host, " takes slices"));
  return 0;
}

int forget(const HostCommand& command) {
  client_of(command, "gangway forget").forget(command.host);
  print_line(cat(command.host, " is forgotten"));
  return 0;
}

}  // namespace

void add_drain(CLI::App& app, Chosen& chosen) {
  auto* drains = app.add_subcommand(
      "drain", "Give a host no new slices; the programs that are there go on to their ends");
  drains->callback([&chosen, options = add_host_options(*drains)] {
    chosen = [options] { return drain(*options); };
  });
  auto* undrains = app.add_subcommand("undrain", "Give a host that was drained slices again");
  undrains->callback([&chosen, options = add_host_options(*undrains)] {
    chosen = [options] { return undrain(*options); };
  });
}

void add_forget(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand(
      "forget", "Keep the name of a host that is gone for it no longer (else for a day)");
  command->callback([&chosen, options = add_host_options(*command)] {
    chosen = [options] { return forget(*options); };
  });
}

}  // namespace gangway::tool
