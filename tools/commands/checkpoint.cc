// `gangway checkpoint ls`: the tensors of a safetensors file or checkpoint, or the programs whose
// checkpoints a cluster has kept. `gangway checkpoint rm`: removes the checkpoints of a program
// that has ended.
#include <optional>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "client/client.h"
#include "ir/types/type.h"
#include "runtime/base/printable.h"
#include "runtime/base/units.h"
#include "tools/commands/command.h"
#include "tools/commands/kept_folders.h"
#include "tools/io/json.h"
#include "tools/io/output.h"
#include "tools/io/table.h"

namespace gangway::tool {
namespace {

struct CheckpointCommand {
  std::vector<std::string> paths;
  ClusterOptions cluster{.address = ""};
  bool json = false;
};

std::string type_of(const TensorSpec& spec) {
  return std::string(to_string(spec.dtype)) + to_string(Dims(spec.shape));
}

int list_tensors(const std::filesystem::path& path, bool json) {
  const TensorFiles files = TensorFiles::open(path);
  std::vector<JsonObject> rows;
  std::vector<std::string> lines;
  for (const auto& [name, view] : files.tensors()) {
    const std::string type = type_of(*view.spec);
    rows.push_back({{"name", name}, {"type", type}, {"bytes", view.size()}});
    lines.push_back(cat(padded(printable(name), 48), " ", padded(type, 24), " ",
                        formatted("%12zu", static_cast<size_t>(view.size()))));
  }
  print_lines(json ? std::vector{to_json(rows)} : lines);
  return 0;
}

std::vector<ProgramStatus> programs_at(const CheckpointCommand& command) {
  return command.cluster.connect_as("gangway checkpoint").status().programs;
}

// Known if the command names a controller, and it gives the names of the owner's programs.
std::string state_of(const std::optional<std::vector<ProgramStatus>>& programs,
                     const KeptFolder& folder) {
  const std::optional<bool> used = programs ? is_in_use(*programs, folder) : std::nullopt;
  if (!used) return "-";
  return *used ? "running" : "ended";
}

int list_programs(const std::vector<KeptFolder>& folders, const CheckpointCommand& command) {
  std::optional<std::vector<ProgramStatus>> programs;
  if (!command.cluster.address.empty()) programs = programs_at(command);
  Table table{.columns = {{.title = "OWNER", .least = 6},
                          {.title = "PROGRAM"},
                          {.title = "CHECKPOINTS", .is_number = true},
                          {.title = "NEWEST", .is_number = true},
                          {.title = "SIZE", .is_number = true},
                          {.title = "STATE"}},
              .rows = {}};
  std::vector<JsonObject> rows;
  for (const KeptFolder& folder : folders) {
    const std::string state = state_of(programs, folder);
    rows.push_back({{"owner", folder.owner},
                    {"program", folder.program},
                    {"folder", folder.path.string()},
                    {"checkpoints", uint64_t{folder.steps.size()}},
                    {"newest", folder.steps.back()},
                    {"bytes", folder.bytes},
                    {"state", state}});
    table.rows.push_back({folder.owner, folder.program, cat(folder.steps.size()),
                          cat(folder.steps.back()), format_bytes(folder.bytes), state});
  }
  if (command.json) {
    print_line(to_json(rows));
  } else {
    print_lines(lines_of(table, terminal_size().columns));
  }
  return 0;
}

// For a folder of checkpoints, lists the latest.
int list(const CheckpointCommand& command) {
  const std::filesystem::path path = command.paths[0];
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    if (const auto latest = CheckpointDir(path).latest())
      return list_tensors(*latest, command.json);
    const std::vector<KeptFolder> folders = kept_folders(path);
    if (!folders.empty()) return list_programs(folders, command);
  }
  return list_tensors(path, command.json);
}

// Checks all folders before it removes the first.
int remove(const CheckpointCommand& command) {
  std::vector<KeptFolder> folders;
  for (const std::string& path : command.paths) folders.push_back(kept_folder(path));
  const std::vector<ProgramStatus> programs = programs_at(command);
  for (const KeptFolder& folder : folders) {
    const std::optional<bool> used = is_in_use(programs, folder);
    if (!used)
      throw Error(ErrorKind::kInvalid,
                  cat("checkpoint rm: a program of ", folder.owner, " runs whose name you are not ",
                      "told: it may be \"", folder.program, "\", which needs its checkpoints"),
                  {},
                  cat("have it done by ", folder.owner, " or by who runs the controller, with ",
                      "their token"));
    if (*used)
      throw Error(ErrorKind::kInvalid,
                  cat("checkpoint rm: the program \"", folder.program, "\" of ", folder.owner,
                      " runs: it needs its checkpoints to go on when a host is lost"),
                  {}, "end it first, with gangway stop");
  }
  for (const KeptFolder& folder : folders) {
    remove_kept_folder(folder);
    print_line(cat(folder.path.string(), " is removed: ", folder.steps.size(),
                   folder.steps.size() == 1 ? " checkpoint, " : " checkpoints, ",
                   format_bytes(folder.bytes)));
  }
  return 0;
}

}  // namespace

void add_checkpoint(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("checkpoint", "Look into checkpoints, and remove kept ones");
  command->require_subcommand(1);
  auto* ls = command->add_subcommand(
      "ls",
      "List the tensors of a file, folder or checkpoint; or, of a controller's --checkpoint-dir, "
      "the programs whose checkpoints are kept there");
  const auto options = add_options(*ls, chosen, list);
  ls->add_option("FILE", options->paths, "a .safetensors file, an index, or a folder")
      ->required()
      ->expected(1);
  add_cluster(*ls, options->cluster, "the controller's address: says which of the programs run");
  ls->add_flag("--json", options->json, "as JSON");

  auto* rm = command->add_subcommand(
      "rm", "Remove the checkpoints that a cluster has kept of programs that have ended");
  const auto removed = add_options(*rm, chosen, remove);
  removed->cluster = {};
  rm->add_option("FOLDER", removed->paths, "of a program, OWNER/PROGRAM in --checkpoint-dir")
      ->required();
  add_cluster(*rm, removed->cluster, "the address of the controller that kept them");
}

}  // namespace gangway::tool
