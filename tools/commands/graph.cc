// `gangway graph FILE`: a program as people read it, as Graphviz DOT or JSON, what its devices
// exchange, and what each of them would do.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "controller/lowering/lower.h"
#include "ir/inspect/collectives.h"
#include "ir/inspect/graphviz.h"
#include "ir/inspect/outline.h"
#include "ir/plan/plan_text.h"
#include "ir/text/text.h"
#include "runtime/base/error.h"
#include "sim/study.h"
#include "tools/commands/command.h"
#include "tools/commands/mesh.h"

namespace gangway::tool {
namespace {

struct GraphCommand {
  std::string file, level, mesh;
  OutlineFilter filter;
  bool dot = false, json = false, collectives = false;
};

// As it is compiled for CPUs, all on one host.
Plan plan_of(const Program& program) {
  LowerOptions options{.hosts = {"host"}};
  uint32_t first = 0;
  for (const ProgramSlice& slice : program.slices) {
    const auto devices = static_cast<uint32_t>(slice.mesh.devices());
    options.slices.push_back({{.host = 0, .first = first, .count = devices}});
    first += devices;
  }
  CompileCache cache;
  return lower(program, options, cache);
}

// What the devices of each call exchange in a run.
std::string collectives_text(const Plan& plan) {
  std::string text;
  for (const PlanNode& node : plan.nodes) {
    if (node.function == kNone) continue;
    const LocalFunction& function = plan.functions[node.function];
    text += cat(node.name, " over ", to_string(function.function->mesh), "\n",
                summary_of(collectives_of(*function.function)));
  }
  return text;
}

// Comments less bright than the rest, where a person looks.
std::string in_colour(const std::string& text) {
  if (isatty(STDOUT_FILENO) != 1 || std::getenv("NO_COLOR") != nullptr) return text;
  std::string coloured;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    const std::string line = text.substr(at, end - at - 1);
    const size_t comment = line.rfind("  // ");
    coloured += comment == std::string::npos
                    ? line
                    : cat(line.substr(0, comment), "\033[2m", line.substr(comment), "\033[0m");
    coloured += '\n';
    at = end;
  }
  return coloured;
}

// `gangway train` writes both: someone who looks at one may want the other.
void require_program_file(const std::string& file) {
  if (std::filesystem::path(file).extension() != ".dot") return;
  std::error_code none;
  std::string beside;
  for (const char* extension : {".gwp", ".program"}) {
    const auto program = std::filesystem::path(file).replace_extension(extension);
    if (std::filesystem::exists(program, none)) beside = program.string();
  }
  throw Error(ErrorKind::kInvalid,
              cat("graph: ", file, " is a picture for Graphviz, not a program"), {},
              beside.empty() ? "give a program, as Program::save() writes it"
                             : cat("give the program beside it: ", beside));
}

std::string text_of(const GraphCommand& command) {
  require_program_file(command.file);
  Program program = Program::load(command.file);
  if (!command.mesh.empty()) program = with_mesh(program, parse_mesh(command.mesh));
  if (command.dot) return to_dot(program);
  if (command.json) return to_json(program);
  if (command.collectives) return collectives_text(plan_of(program));
  const bool of_ops = command.level.empty() && !command.filter.ops.empty();
  const std::string level =
      command.level.empty() ? (of_ops ? "function" : "program") : command.level;
  const OutlineFilter& filter = command.filter;
  GW_REQUIRE((level != "all" && level != "plan") ||
                 (filter.nodes.empty() && filter.slices.empty() && filter.ops.empty()),
             "graph: --level ", level, " shows everything: expected no --node, --slice and --op");
  if (level == "all") return print(program);
  if (level == "function") return functions_text(program, filter);
  if (level == "plan") {
    const Plan plan = plan_of(program);
    return cat(to_text(plan), "\n", collectives_text(plan));
  }
  return cat(outline(program, filter), "  // a run: ", to_text(totals_of(program)), "\n");
}

}  // namespace

void add_graph(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("graph", "Print the graph of a program");
  auto given = std::make_shared<GraphCommand>();
  command->add_option("FILE", given->file, "a program, as Program::save() writes it")->required();
  auto* dot = command->add_flag("--dot", given->dot, "as Graphviz DOT");
  auto* json = command->add_flag("--json", given->json, "as JSON")->excludes(dot);
  auto* collectives =
      command
          ->add_flag("--collectives", given->collectives,
                     "what devices exchange in a run: kinds, mesh axes and bytes, as text")
          ->excludes(dot)
          ->excludes(json);
  auto* level =
      command
          ->add_option("--level", given->level,
                       "program (the default): what it is made of; function: the functions that "
                       "it calls; plan: what devices do; all: the whole text, which is read back")
          ->check(CLI::IsMember({"program", "function", "plan", "all"}));
  command->add_option("--mesh", given->mesh,
                      "other sizes of its axes, as \"data=4,model=2\", on devices that need not "
                      "be there");
  auto* node = command->add_option("--node", given->filter.nodes,
                                   "only nodes of the program with this in their name; again for "
                                   "more of them");
  auto* slice = command->add_option("--slice", given->filter.slices, "only those on this slice");
  auto* op = command->add_option("--op", given->filter.ops,
                                 "only nodes of functions with this op, as \"dot\"");
  for (auto* text : {level, node, slice, op})
    text->excludes(dot)->excludes(json)->excludes(collectives);
  command->callback([&chosen, given] {
    chosen = [given] {
      std::fputs(in_colour(text_of(*given)).c_str(), stdout);
      return 0;
    };
  });
}

}  // namespace gangway::tool
