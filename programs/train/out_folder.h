// OutFolder: the folder into which a training writes its checkpoints and all else that it leaves.
//
// One training at a time has it, in all processes, and no training replaces checkpoints that it did
// not write, unless whoever starts it says so.
//
//   out/quickstart/.lock           held while a training runs, and says which process that is
//   out/quickstart/checkpoints/    of one training (checkpoint/checkpoint_dir.h)
//   out/quickstart/checkpoints.replaced/    those of the training before it, until the first one is
//                                  written; whoever takes the folder puts them back if it never was
//
// Threads: one.
// Errors: kInvalid for a folder that another process writes to, that has checkpoints of another
// training, or that has none to go on from; as runtime/base/durable_file.h.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "runtime/base/lock_file.h"

namespace gangway::programs {

struct OutOptions {
  std::filesystem::path path;
  // Takes the first of path, path-2, path-3 ... that has no checkpoints and that nobody writes to.
  bool take_next_free = false;
  bool resume = false;   // Its checkpoints are gone on from.
  bool replace = false;  // Checkpoints of another training give way to the first one of this.
};

class OutFolder {
 public:
  // Creates it where it is missing, and locks it until this object ends.
  explicit OutFolder(const OutOptions& options);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  // Calls `write`, which writes a checkpoint to checkpoints(). Where checkpoints of another
  // training give way, they do once it has returned; when it throws they are as they were.
  std::filesystem::path save(const std::function<std::filesystem::path()>& write);

 private:
  std::filesystem::path path_;
  std::optional<LockFile> lock_;
  bool replaces_ = false;  // With its first checkpoint.
};

// Of path, path-2, path-3 ... those that have checkpoints.
std::vector<std::filesystem::path> folders_with_checkpoints(const std::filesystem::path& path);

}  // namespace gangway::programs
