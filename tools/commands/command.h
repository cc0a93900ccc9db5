// The commands of the `gangway` tool. Each one adds itself to the parser and sets `chosen` when the
// command line names it.
//
// An option has the same name in all commands: --connect (as connect() takes it), --listen, --json,
// --version, --log-level, --token-file, --tls.
// Threads: main's.
// Errors: a command throws Error; main() reports it and picks the exit status.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"

namespace gangway::tool {

// The command that the command line chose; its result is the exit status.
using Chosen = std::function<int()>;

struct CommonOptions {
  std::string log_level;                  // --log-level; empty: GANGWAY_LOG, or "warn".
  std::string token_file;                 // --token-file; empty: as protocol/token_file.h.
  std::string tls_folder;                 // --tls; empty: $GANGWAY_TLS, or none.
  std::vector<std::string> command_line;  // The user's words, the tool's name first.
};

void add_controller(CLI::App& app, const CommonOptions& common, Chosen& chosen);
void add_executor(CLI::App& app, const CommonOptions& common, Chosen& chosen);
void add_train(CLI::App& app, const CommonOptions& common, Chosen& chosen);
using AddCommand = void(CLI::App& app, Chosen& chosen);
AddCommand add_run, add_graph, add_devices, add_ps, add_logs, add_stop, add_suspend, add_resume,
    add_top, add_drain, add_forget, add_checkpoint, add_sim, add_token, add_cert;
// In the order of the tool's help.
inline constexpr AddCommand* kOtherCommands[] = {
    add_run, add_graph, add_devices, add_ps,         add_logs, add_stop,  add_suspend, add_resume,
    add_top, add_drain, add_forget,  add_checkpoint, add_sim,  add_token, add_cert};

// The running cluster that a command talks to.
struct ClusterOptions {
  std::string address = "127.0.0.1:7040";
  int64_t timeout_ms = ConnectOptions().timeout_ms;

  // Under this name, "gangway ps", and a number, it appears among the cluster's programs.
  Client connect_as(const std::string& name) const;
};
// Adds --connect, which is returned, and --timeout-ms.
CLI::Option* add_cluster(CLI::App& command, ClusterOptions& to,
                         const char* connect_help = "the controller's address");

// The command line fills the returned options, which `act` gets.
template <class Options>
std::shared_ptr<Options> add_options(CLI::App& command, Chosen& chosen,
                                     int (*act)(const Options&)) {
  auto options = std::make_shared<Options>();
  command.callback([&chosen, options, act] { chosen = [options, act] { return act(*options); }; });
  return options;
}

}  // namespace gangway::tool
