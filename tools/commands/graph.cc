// `gangway graph FILE`, or NAME of a running program: the program as text, as Graphviz DOT or as
// JSON; what its devices exchange, hold and would do, and why; differences between two programs.
#include <unistd.h>

#include <optional>

#include "client/client.h"
#include "ir/explain/why.h"
#include "ir/inspect/graphviz.h"
#include "ir/inspect/model_explorer.h"
#include "ir/inspect/outline.h"
#include "ir/inspect/program_diff.h"
#include "ir/plan/plan_text.h"
#include "ir/text/text.h"
#include "ir/transforms/passes.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/printable.h"
#include "sim/study.h"
#include "tools/commands/command.h"
#include "tools/commands/lowered_program.h"
#include "tools/commands/mesh.h"
#include "tools/io/number.h"
#include "tools/io/output.h"
#include "tools/page/page.h"

namespace gangway::tool {
namespace {

struct GraphCommand {
  std::string file, level, after, mesh, why, executable, html;
  std::vector<std::string> diff;
  int64_t hosts = 1;
  ClusterOptions cluster{.address = ""};
  OutlineFilter filter;
  bool dot = false, json = false, model_explorer = false, collectives = false, memory = false;
};

// Dims comments, if standard output is a terminal.
std::string in_colour(const std::string& text) {
  if (isatty(STDOUT_FILENO) != 1 || environment_value("NO_COLOR")) return text;
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

Program load(const std::string& file, const std::string& mesh) {
  Program program = Program::load(file);
  return mesh.empty() ? program : with_mesh(program, parse_mesh(mesh));
}

// The program that the command shows: one from a file, or a running one.
class Subject {
 public:
  explicit Subject(const GraphCommand& command)
      : hosts_(command.hosts), records_passes_(!command.after.empty()) {
    if (command.cluster.address.empty()) {
      GW_REQUIRE(!command.file.empty(),
                 "graph: no program: expected FILE, as Program::save() writes "
                 "it, NAME with --connect, or --diff A B");
      program_ = load(command.file, command.mesh);
      return;
    }
    const Client client = command.cluster.connect_as("gangway graph");
    lowered_ = lower_as_it_runs(client.graph(command.file, command.executable), records_passes_);
    program_ = lowered_->program;
  }

  const Program& program() const { return program_; }
  const LoweredProgram& lowered() {
    if (!lowered_) lowered_ = lower_for_nobody(program_, hosts_, records_passes_);
    return *lowered_;
  }

 private:
  const int64_t hosts_;
  const bool records_passes_;
  Program program_;
  std::optional<LoweredProgram> lowered_;
};

// Prints what the program is made of, and behind it what its devices would do, if the program can
// be lowered: some programs that can be built can't be run yet.
std::string program_text(const GraphCommand& command, Subject& subject) {
  const Program& program = subject.program();
  std::string text =
      cat(outline(program, command.filter), "  // a run: ", to_text(totals_of(program)), "\n");
  std::string totals;
  try {
    totals = totals_text(subject.lowered());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnimplemented) throw;
    totals = cat("it can't be run yet: ", error.message(), "\n");
  }
  for (size_t at = 0; at < totals.size();) {
    const size_t end = totals.find('\n', at);
    text += cat("  // ", totals.substr(at, end - at), "\n");
    at = end + 1;
  }
  return text;
}

// Adds what devices would do if the program can be lowered: some programs that can be built can't
// be run yet.
std::string page_document(Subject& subject) {
  try {
    return document_of(page_fields(subject.lowered()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnimplemented) throw;
  }
  return program_document(to_json(subject.program()));
}

std::string level_text(const GraphCommand& command, Subject& subject) {
  const Program& program = subject.program();
  const OutlineFilter& filter = command.filter;
  const bool is_filtered = !filter.nodes.empty() || !filter.slices.empty() || !filter.ops.empty();
  const bool of_ops = command.level.empty() && !filter.ops.empty();
  const std::string level =
      command.level.empty() ? (of_ops ? "function" : "program") : command.level;
  if (level == "program") return program_text(command, subject);
  if (level == "function") return functions_text(program, filter);
  GW_REQUIRE(!is_filtered, "graph: --level ", level,
             " shows everything: expected no --node, --slice and --op");
  if (level == "all") return print(program);
  const LoweredProgram& lowered = subject.lowered();
  if (level == "sharding") return shardings_text(lowered);
  if (level == "device") return device_text(lowered);
  return cat(to_text(lowered.plan), "\n", collectives_text(lowered));
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : passes()) names.emplace_back(pass.name);
  return names;
}

std::string text_of(const GraphCommand& command) {
  if (!command.diff.empty()) {
    const std::string differences =
        program_diff(load(command.diff[0], command.mesh), load(command.diff[1], command.mesh));
    return differences.empty() ? "the same graph\n" : differences;
  }
  Subject subject(command);
  if (!command.html.empty()) {
    write_page(page_document(subject), command.html);
    return cat("open ", command.html, " in a browser\n");
  }
  if (command.dot) return to_dot(subject.program());
  if (command.json) return to_json(subject.program());
  if (command.model_explorer) return to_model_explorer(subject.program());
  if (command.collectives) return collectives_text(subject.lowered());
  if (command.memory) return memory_text(subject.lowered());
  if (!command.after.empty()) return pass_text(subject.lowered(), command.after);
  if (!command.why.empty()) {
    const LoweredProgram& lowered = subject.lowered();
    return why({lowered.program, lowered.plan, lowered.calls, lowered.placed}, command.why);
  }
  return level_text(command, subject);
}

}  // namespace

void add_graph(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("graph", "Print the graph of a program");
  auto given = std::make_shared<GraphCommand>();
  command->add_option(
      "FILE", given->file,
      "a program, as Program::save() writes it; with --connect the NAME of one that "
      "runs, as `gangway ps` shows it; of others: OWNER/NAME");
  auto* connect = add_cluster(*command, given->cluster,
                              "a controller's address: of what it runs now, as it lies");
  command
      ->add_option("--executable", given->executable, "of a program with several: the name of one")
      ->needs(connect);
  std::vector<CLI::Option*> forms = {
      command->add_flag("--dot", given->dot, "as Graphviz DOT"),
      command->add_flag("--json", given->json, "as JSON"),
      command->add_flag("--model-explorer", given->model_explorer,
                        "as JSON for the page of google-ai-edge/model-explorer"),
      command->add_flag("--collectives", given->collectives,
                        "what devices exchange in a run: kinds, mesh axes and bytes, as text"),
      command->add_option("--why", given->why,
                          "why it runs so: of a node's name, a value as --level sharding numbers "
                          "it (%14, @layer.%3), or a line of its source (model.cc:80)"),
      command->add_flag("--memory", given->memory,
                        "what lies in the memory of each device over a run, and whose it is where "
                        "that is most"),
      command
          ->add_option("--after", given->after,
                       "the functions that it calls, as they are behind this pass of the compiler")
          ->check(CLI::IsMember(pass_names())),
      command
          ->add_option("--diff", given->diff, "what differs between two programs, in place of FILE")
          ->expected(2),
      command->add_option("--html", given->html, "into this file, as a page for a browser")};
  auto* level =
      command
          ->add_option("--level", given->level,
                       "program (the default): what it is made of; function: the functions that "
                       "it calls; sharding: these with the sharding of each value; device: what "
                       "one device runs; plan: in which order, and where; all: the whole text, "
                       "which is read back")
          ->check(CLI::IsMember({"program", "function", "sharding", "device", "plan", "all"}));
  auto* mesh = command->add_option(
      "--mesh", given->mesh,
      "other sizes of its axes, as \"data=4,model=2\", on devices that need not "
      "be there");
  auto* hosts = command
                    ->add_option("--hosts", given->hosts,
                                 "its devices lie on so many hosts, which need not be there")
                    ->check(whole_number(1, kMeshDevicesMax))
                    ->capture_default_str();
  for (auto* of_file : {mesh, hosts, forms.back()}) connect->excludes(of_file);
  auto* node = command->add_option("--node", given->filter.nodes,
                                   "only nodes of the program with this in their name; again for "
                                   "more of them");
  auto* slice = command->add_option("--slice", given->filter.slices, "only those on this slice");
  auto* op = command->add_option("--op", given->filter.ops,
                                 "only nodes of functions with this op, as \"dot\"");
  for (size_t i = 0; i < forms.size(); ++i) {
    for (size_t other = 0; other < i; ++other) forms[i]->excludes(forms[other]);
    for (auto* text : {level, node, slice, op}) text->excludes(forms[i]);
  }
  command->callback([&chosen, given] {
    chosen = [given] {
      print_controls(in_colour(printable_lines(text_of(*given))));
      return 0;
    };
  });
}

}  // namespace gangway::tool
