// OutFolder: the folder into which a training writes its checkpoints and its other files.
//
// One training at a time has it, in all processes. No training replaces checkpoints that another
// one wrote, unless its user asks for that.
//
//   out/quickstart/.lock           held while a training runs, and names its process
//   out/quickstart/checkpoints/    checkpoints of one training (checkpoint/checkpoint_dir.h)
//   out/quickstart/checkpoints.replaced/    those of the training before it, until the new training
//                                  has written its first; the next training puts them back if it
//                                  never did
//
// Threads: one.
// Errors: kInvalid for a folder that another process writes to, that has checkpoints of another
// training, or that has none to resume from; as runtime/base/durable_file.h.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/base/lock_file.h"

namespace gangway::programs {

struct OutOptions {
  std::filesystem::path path;
  // Takes the first of path, path-2, path-3 ... that has no checkpoints and that no training writes
  // to.
  bool take_next_free = false;
  bool resume = false;   // The training resumes from the folder's checkpoints.
  bool replace = false;  // The first checkpoint replaces those of another training.
};

class OutFolder {
 public:
  // Creates the folder if it is missing, and locks it until this object ends.
  explicit OutFolder(const OutOptions& options);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  // Calls `write`, which writes a checkpoint to checkpoints(). If checkpoints of another training
  // are replaced, they are removed once `write` has returned; if it throws, they are as they were.
  std::filesystem::path save(const std::function<std::filesystem::path()>& write);

 private:
  std::filesystem::path path_;
  std::optional<LockFile> lock_;
  bool replaces_ = false;  // The next save() replaces another training's checkpoints.
};

// Returns those of path, path-2, path-3 ... that have checkpoints.
std::vector<std::filesystem::path> folders_with_checkpoints(const std::filesystem::path& path);

}  // namespace gangway::programs
