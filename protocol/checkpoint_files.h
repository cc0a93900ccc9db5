// Describes a checkpoint that an executor writes from a shared segment or reads into one: the
// tensors with their places in the segment, and the folder of the files.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/types/type.h"

namespace gangway {

// A whole tensor, in row-major order.
struct StoredTensor {
  std::string name;
  Type type;
  int64_t offset = 0;  // In the segment.
  bool may_be_missing =
      false;  // When it is read: it is named then, and its bytes stay as they are.
  friend bool operator==(const StoredTensor&, const StoredTensor&) = default;
};

// Of the metadata: whose checkpoint it is. No two programs have the same.
inline constexpr char kProgramKey[] = "program_id";

struct CheckpointFiles {
  std::string folder;  // Of a program's checkpoints, an absolute path (checkpoint_dir.h).
  uint64_t version = 0;
  std::vector<StoredTensor> tensors;
  // Of writing alone. So many of the newest checkpoints stay, and the one that the program would be
  // brought back to. 0: there is none, and what an earlier program has left is set aside first.
  int keep = 1;
  uint64_t known = 0;
  // Of all files in the folders of the owner's programs, which lie beside this one, these included.
  uint64_t owner_bytes_max = UINT64_MAX;
  std::map<std::string, std::string> metadata = {};
};

}  // namespace gangway
