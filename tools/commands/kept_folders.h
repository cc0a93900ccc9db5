// Checkpoints that clusters have kept (controller/programs/checkpoints.h): each owner has a folder,
// and in it a folder for each program.
//
//   FOLDER/ann/train/step-00000500      of ann's program "train"
//   FOLDER/ann/train~1/step-00000120    of an earlier program of that name
//
// Threads: one. Errors: as runtime/base/durable_file.h, with the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "client/status.h"

namespace gangway::tool {

struct KeptFolder {
  std::filesystem::path path;
  std::string owner, program;  // Names of the two folders.
  std::vector<int64_t> steps;  // Ascending.
  uint64_t bytes = 0;
};

// Returns the programs' folders below a folder, by owner and program.
std::vector<KeptFolder> kept_folders(const std::filesystem::path& folder);
// Returns the program's folder at this path, also the rest of one that was removed in part.
// kInvalid if it has no checkpoint that can be read and that a cluster has kept.
KeptFolder kept_folder(const std::filesystem::path& path);

// Whether one of these programs writes to the folder. Empty if that is unknown: a controller gives
// the names of other owners' programs only to the operator, and the folder's owner has a program
// without a name here.
std::optional<bool> is_in_use(const std::vector<ProgramStatus>& programs, const KeptFolder& folder);

// Removes the whole folder of a program.
void remove_kept_folder(const KeptFolder& folder);

}  // namespace gangway::tool
