// `gangway graph FILE`: a program as text, Graphviz DOT or JSON.
#include "ir/inspect/graphviz.h"

#include <cstdio>

#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tools/commands/command.h"

namespace gangway::tool {

void add_graph(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("graph", "Print the graph of a program");
  auto file = std::make_shared<std::string>();
  auto dot = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  command->add_option("FILE", *file, "a program, as Program::save() writes it")->required();
  auto* dot_flag = command->add_flag("--dot", *dot, "as Graphviz DOT");
  command->add_flag("--json", *json, "as JSON")->excludes(dot_flag);
  command->callback([&chosen, file, dot, json] {
    chosen = [file, dot, json] {
      const Program program = Program::load(*file);
      const std::string text = *dot ? to_dot(program) : *json ? to_json(program) : print(program);
      std::fputs(text.c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace gangway::tool
