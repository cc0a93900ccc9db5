// `gangway checkpoint ls FILE|DIR`: the tensors of a safetensors file or checkpoint.
#include <cstdio>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "ir/types/type.h"
#include "tools/commands/command.h"
#include "tools/commands/json.h"

namespace gangway::tool {
namespace {

// A folder of checkpoints stands for its latest.
std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path / "latest", ignored) ? path / "latest" : path;
}

std::string type_of(const TensorSpec& spec) {
  return std::string(to_string(spec.dtype)) + to_string(Dims(spec.shape));
}

int list(const std::string& path, bool json) {
  const TensorFiles files = TensorFiles::open(resolved(path));
  std::vector<JsonObject> rows;
  for (const auto& [name, view] : files.tensors()) {
    const std::string type = type_of(*view.spec);
    if (json) {
      rows.push_back({{"name", name}, {"type", type}, {"bytes", view.size()}});
    } else {
      std::printf("%-48s %-24s %12llu\n", name.c_str(), type.c_str(),
                  static_cast<unsigned long long>(view.size()));
    }
  }
  if (json) std::printf("%s\n", to_json(rows).c_str());
  return 0;
}

}  // namespace

void add_checkpoint(CLI::App& app, Chosen& chosen) {
  auto* command = app.add_subcommand("checkpoint", "Look into checkpoints");
  command->require_subcommand(1);
  auto* ls = command->add_subcommand("ls", "List the tensors of a file, folder or checkpoint");
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  ls->add_option("FILE", *path, "a .safetensors file, an index, or a folder")->required();
  ls->add_flag("--json", *json, "as JSON");
  ls->callback([&chosen, path, json] { chosen = [path, json] { return list(*path, *json); }; });
}

}  // namespace gangway::tool
