#include "tools/commands/kept_folders.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/tensor_files.h"
#include "controller/programs/checkpoints.h"
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
    const bool is_hidden = entries->path().filename().string().starts_with('.');
    if (!is_hidden && fs::is_directory(fs::symlink_status(entries->path(), gone)))
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

// Whether a readable checkpoint in the folder was written by a cluster. A training that writes
// checkpoints by itself leaves no kProgramKey.
bool is_of_cluster(const KeptFolder& folder) {
  const CheckpointDir directory(folder.path);
  return std::ranges::any_of(folder.steps, [&](int64_t step) {
    try {
      return TensorFiles::open(directory.folder_of(step)).metadata().contains(kProgramKey);
    } catch (const Error&) {
      return false;
    }
  });
}

// Returns the folder's name while it is removed. No program's name begins like that.
fs::path doomed_path(const fs::path& folder) {
  return folder.parent_path() / cat(".removed-", folder.filename().string());
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

void remove_whole(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail_file("remove", folder, error.value());
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
  const bool is_removed_in_part = !is_there(folder.path) && is_there(doomed_path(folder.path));
  if (is_removed_in_part) folder.bytes = bytes_below(doomed_path(folder.path));
  GW_REQUIRE(is_removed_in_part || is_of_cluster(folder), "checkpoint: ", path.string(),
             ": expected the folder of a program whose checkpoints a cluster has kept, "
             "FOLDER/OWNER/PROGRAM");
  return folder;
}

std::optional<bool> is_in_use(const std::vector<ProgramStatus>& programs,
                              const KeptFolder& folder) {
  std::optional<bool> answer = false;
  for (const ProgramStatus& program : programs) {
    if (Checkpoints::escaped(program.owner) != folder.owner) continue;
    if (program.name.empty()) answer.reset();
    if (Checkpoints::escaped(program.name) == folder.program) return true;
  }
  return answer;
}

void remove_kept_folder(const KeptFolder& folder) {
  // The rename comes first. If the process ends half-way, the rest looks like no program's folder,
  // and the next call removes it.
  const fs::path doomed = doomed_path(folder.path);
  remove_whole(doomed);
  if (!is_there(folder.path)) return;
  std::error_code error;
  fs::rename(folder.path, doomed, error);
  if (error) fail_file("rename to", doomed, error.value());
  remove_whole(doomed);
}

}  // namespace gangway::tool
