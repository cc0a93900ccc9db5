// gangway: the one command-line tool.
#include "tools/commands/command.h"

#include <stdlib.h>

#include "protocol/version.h"
#include "runtime/base/error.h"
#include "runtime/observe/log.h"

namespace {

// Of the tool, and of each command in it.
void add_common(CLI::App& app, gangway::tool::CommonOptions& common) {
  app.set_version_flag("--version", gangway::kRelease);
  app.add_option("--log-level", common.log_level,
                 "what to log: \"info\", or \"warn,controller=debug\"");
  app.add_option("--token-file", common.token_file,
                 "the token of a controller at host:port; default: GANGWAY_TOKEN_FILE, or "
                 "~/.local/state/gangway/token");
  for (CLI::App* command : app.get_subcommands({})) add_common(*command, common);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Gangway: a Pathways-style runtime for training programs.", "gangway"};
  app.require_subcommand(1);
  gangway::tool::CommonOptions common;
  common.command_line.assign(argv, argv + argc);
  gangway::tool::Chosen chosen;
  gangway::tool::add_controller(app, common, chosen);
  gangway::tool::add_executor(app, common, chosen);
  gangway::tool::add_train(app, common, chosen);
  gangway::tool::add_run(app, chosen);
  gangway::tool::add_graph(app, chosen);
  gangway::tool::add_devices(app, chosen);
  gangway::tool::add_ps(app, chosen);
  gangway::tool::add_logs(app, chosen);
  gangway::tool::add_stop(app, chosen);
  gangway::tool::add_suspend(app, chosen);
  gangway::tool::add_resume(app, chosen);
  gangway::tool::add_top(app, chosen);
  gangway::tool::add_drain(app, chosen);
  gangway::tool::add_forget(app, chosen);
  gangway::tool::add_checkpoint(app, chosen);
  gangway::tool::add_sim(app, chosen);
  gangway::tool::add_token(app, chosen);
  add_common(app, common);
  try {
    app.parse(argc, argv);
    // For whatever the command connects to or starts.
    if (!common.token_file.empty()) setenv("GANGWAY_TOKEN_FILE", common.token_file.c_str(), 1);
    const gangway::Logs refuses_unknown_levels({.levels = common.log_level});
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const gangway::Error& error) {
    return gangway::report(error);
  }
}
