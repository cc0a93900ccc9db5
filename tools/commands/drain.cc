// `gangway drain`, `gangway undrain` and `gangway forget`, for the operator: hosts of a running
// cluster that are to go, and hosts that are gone.
#include <algorithm>

#include "tools/commands/command.h"
#include "tools/io/output.h"

namespace gangway::tool {
namespace {

struct HostCommand {
  std::string host;
  ClusterOptions cluster;
};

bool lies_on(const ProgramStatus& program, const std::string& host) {
  return std::ranges::count(program.hosts, host) > 0;
}

int drain(const HostCommand& command) {
  const Client client = command.cluster.connect_as("gangway drain");
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
  command.cluster.connect_as("gangway undrain").undrain(command.host);
  print_line(cat(command.host, " takes slices"));
  return 0;
}

int forget(const HostCommand& command) {
  command.cluster.connect_as("gangway forget").forget(command.host);
  print_line(cat(command.host, " is forgotten"));
  return 0;
}

void add_of_host(CLI::App& app, Chosen& chosen, const char* name, const char* help,
                 int (*act)(const HostCommand&)) {
  auto* command = app.add_subcommand(name, help);
  const auto options = add_options(*command, chosen, act);
  command->add_option("HOST", options->host, "as `gangway devices --connect` shows it")->required();
  add_cluster(*command, options->cluster);
}

}  // namespace

void add_drain(CLI::App& app, Chosen& chosen) {
  add_of_host(app, chosen, "drain",
              "Give a host no new slices; the programs that are there go on to their ends", drain);
  add_of_host(app, chosen, "undrain", "Give a host that was drained slices again", undrain);
}

void add_forget(CLI::App& app, Chosen& chosen) {
  add_of_host(app, chosen, "forget",
              "Keep the name of a host that is gone for it no longer (else for a day)", forget);
}

}  // namespace gangway::tool
