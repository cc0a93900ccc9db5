#include "tools/commands/kept_folders.h"

#include <algorithm>
#include <system_error>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "controller/recovery/checkpoints.h"
#include "protocol/checkpoint_files.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/paths.h"

namespace gangway::tool {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  fs::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    std::error_code gone;
    if (fs::is_directory(fs::symlink_status(entries->path(), gone)))
      found.push_back(entries->path());
  }
  if (error) fail_file("list", folder, error.value());
  std::ranges::sort(found);
  return found;
}

KeptFolder look_at(const fs::path& path) {
  const fs::path whole = absolute_path(path).lexically_normal();
  const fs::path folder = whole.has_filename() ? whole : whole.parent_path();
  return {.path = folder,
          .owner = folder.parent_path().filename().string(),
          .program = folder.filename().string(),
          .steps = CheckpointDir(folder).steps(),
          .bytes = bytes_below(folder)};
}

// What a training writes by itself says nothing of a cluster's program.
bool is_of_cluster(const KeptFolder& folder) {
  const auto newest = CheckpointDir(folder.path).latest();
  return newest && TensorFiles::open(*newest).metadata().contains(kProgramKey);
}

}  // namespace

std::vector<KeptFolder> kept_folders(const fs::path& folder) {
  std::vector<KeptFolder> found;
  for (const fs::path& owner : folders_in(folder)) {
    for (const fs::path& program : folders_in(owner)) {
      KeptFolder kept = look_at(program);
      if (!kept.steps.empty()) found.push_back(std::move(kept));
    }
  }
  return found;
}

KeptFolder kept_folder(const fs::path& path) {
  KeptFolder folder = look_at(path);
  GW_REQUIRE(!folder.steps.empty() && is_of_cluster(folder), "checkpoint: ", path.string(),
             ": expected the folder of a program whose checkpoints a cluster has kept, "
             "FOLDER/OWNER/PROGRAM");
  return folder;
}

bool is_written_by_one(const std::vector<ProgramStatus>& programs, const KeptFolder& folder) {
  return std::ranges::any_of(programs, [&](const ProgramStatus& program) {
    return Checkpoints::escaped(program.owner) == folder.owner &&
           Checkpoints::escaped(program.name) == folder.program;
  });
}

void remove_kept_folder(const KeptFolder& folder) {
  std::error_code error;
  fs::remove_all(folder.path, error);
  if (error) fail_file("remove", folder.path, error.value());
}

}  // namespace gangway::tool
