// gangway: the one command-line tool.
#include "tools/commands/command.h"

#include "protocol/version.h"
#include "runtime/base/error.h"

int main(int argc, char** argv) {
  CLI::App app{"Gangway: a Pathways-style runtime for training programs.", "gangway"};
  app.set_version_flag("--version", gangway::kRelease);
  app.require_subcommand(1);
  app.fallthrough();  // --log-level may stand anywhere.
  gangway::tool::CommonOptions common;
  app.add_option("--log-level", common.log_level,
                 "what to log: \"info\", or \"warn,controller=debug\"");
  gangway::tool::Chosen chosen;
  gangway::tool::add_controller(app, common, chosen);
  gangway::tool::add_executor(app, common, chosen);
  gangway::tool::add_train(app, chosen);
  gangway::tool::add_run(app, chosen);
  gangway::tool::add_graph(app, chosen);
  gangway::tool::add_devices(app, chosen);
  gangway::tool::add_checkpoint(app, chosen);
  for (CLI::App* command : app.get_subcommands({})) {
    command->set_version_flag("--version", gangway::kRelease);
  }
  try {
    app.parse(argc, argv);
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const gangway::Error& error) {
    return gangway::report(error);
  }
}
