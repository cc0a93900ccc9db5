// `gangway graph FILE`: a program as text, Graphviz DOT or JSON, or what its devices exchange.
#include "ir/inspect/graphviz.h"

#include <cstdio>

#include "controller/lowering/lower.h"
#include "ir/inspect/collectives.h"
#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "tools/commands/command.h"

namespace gangway::tool {
namespace {

// What the devices of each call exchange in a run, as it is compiled for CPUs.
std::string collectives_text(const Program& program) {
  LowerOptions options{.hosts = {"host"}};
  uint32_t first = 0;
  for (const ProgramSlice& slice : program.slices) {
    const auto devices = static_cast<uint32_t>(slice.mesh.devices());
    options.slices.push_back({{.host = 0, .first = first, .count = devices}});
    first += devices;
  }
  CompileCache cache;
  const Plan plan = lower(program, options, cache);
  std::string text;
  for (const PlanNode& node : plan.nodes) {
    if (node.function == kNone) continue;
    const LocalFunction& function = plan.functions[node.function];
    text += cat(node.name, " over ", to_string(function.function->mesh), "\n",
                summary_of(collectives_of(*function.function)));
  }
  return text;
}

}  // namespace

void add_graph(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("graph", "Print the graph of a program");
  auto file = std::make_shared<std::string>();
  auto dot = std::make_shared<bool>(false);
  auto json = std::make_shared<bool>(false);
  command->add_option("FILE", *file, "a program, as Program::save() writes it")->required();
  auto* dot_flag = command->add_flag("--dot", *dot, "as Graphviz DOT");
  auto* json_flag = command->add_flag("--json", *json, "as JSON")->excludes(dot_flag);
  auto collectives = std::make_shared<bool>(false);
  command
      ->add_flag("--collectives", *collectives,
                 "what devices exchange in a run: kinds, mesh axes and bytes, as text")
      ->excludes(dot_flag)
      ->excludes(json_flag);
  command->callback([&chosen, file, dot, json, collectives] {
    chosen = [file, dot, json, collectives] {
      const Program program = Program::load(*file);
      const std::string text = *collectives ? collectives_text(program)
                               : *dot       ? to_dot(program)
                               : *json      ? to_json(program)
                                            : print(program);
      std::fputs(text.c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace gangway::tool
