// gangway: the one command-line tool.
#include "tools/commands/command.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <sstream>

#include "protocol/version.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/observe/log.h"
#include "tools/io/output.h"

namespace {

// Adds the options that the tool and each command have.
void add_common(CLI::App& app, gangway::tool::CommonOptions& common) {
  app.set_version_flag("--version", gangway::kRelease);
  app.add_option("--log-level", common.log_level,
                 "what to log: \"info\", or \"warn,controller=debug\"");
  app.add_option("--token-file", common.token_file,
                 "the token of a controller at host:port; default: GANGWAY_TOKEN_FILE, or "
                 "~/.local/state/gangway/token");
  app.add_option(
      "--tls", common.tls_folder,
      "the folder of this process's certificate, which `gangway cert` makes: connections "
      "at host:port are encrypted then; default: GANGWAY_TLS, or not encrypted");
  for (CLI::App* command : app.get_subcommands({})) add_common(*command, common);
}

// Without this, the first file that the tool opens gets the number of a closed stream, and receives
// the output. Standard output is opened for reading, so that it refuses output as it did when
// closed.
void occupy_closed_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    [[maybe_unused]] const int null =
        open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Prints texts of CLI11: help, versions, and mistakes in a command line.
int report(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream asked, wrong;
  const int status = app.exit(error, asked, wrong);
  gangway::tool::print(asked.str());
  std::fputs(wrong.str().c_str(), stderr);
  return status == 0 ? 0 : 2;
}

int run(const CLI::App& app, const std::function<int()>& command) {
  try {
    try {
      return command();
    } catch (const CLI::ParseError& error) {
      return report(app, error);
    }
  } catch (...) {
    return gangway::report(gangway::current_error());
  }
}

}  // namespace

int main(int argc, char** argv) {
  occupy_closed_streams();
  gangway::get_errors_for_files_beyond_the_limit();
  CLI::App app{"Gangway: a Pathways-style runtime for training programs.", "gangway"};
  app.require_subcommand(1);
  gangway::tool::CommonOptions common;
  common.command_line.assign(argv, argv + argc);
  gangway::tool::Chosen chosen;
  gangway::tool::add_controller(app, common, chosen);
  gangway::tool::add_executor(app, common, chosen);
  gangway::tool::add_train(app, common, chosen);
  for (auto* add : gangway::tool::kOtherCommands) add(app, chosen);
  add_common(app, common);
  return run(app, [&] {
    app.parse(argc, argv);
    // The processes and connections that the command starts read it.
    if (!common.token_file.empty()) setenv("GANGWAY_TOKEN_FILE", common.token_file.c_str(), 1);
    if (!common.tls_folder.empty()) setenv("GANGWAY_TLS", common.tls_folder.c_str(), 1);
    const gangway::Logs refuses_unknown_levels({.levels = common.log_level});
    return chosen();
  });
}
