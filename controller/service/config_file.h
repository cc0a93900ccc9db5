// The controller's config file, in JSON:
//
//   {"quotas": {"ann": {"devices": 8, "memory_bytes": 17179869184, "programs": 4},
//               "bob": {"devices": 2, "controller_bytes": 268435456}},
//    "quota_of_others": {"programs": 1}}
//
// `checkpoint_bytes` bounds the files of checkpoints that the cluster keeps for an owner's
// programs, also those that have ended; a checkpoint that is being written counts in addition to
// those that it replaces. `controller_bytes` bounds the controller's own memory for an owner's
// programs and runs (controller/owners/owner_use.h), and is 1 GiB if it is not given. Any other
// key that is not given sets no bound.
//
// Threads: pure.
// Errors: read_config() throws kInvalid, naming file, line and key: for a key that is not known or
// is there twice, a value of the wrong type, and sizes that contradict each other (no program, but
// devices or memory for one; memory, but no device); as durable_file.h for a file that can't be
// read.
#pragma once

#include <string>

#include "controller/owners/quotas.h"

namespace gangway {

struct ControllerConfig {
  Quotas quotas;
};

// `file` names it in messages.
ControllerConfig parse_config(const std::string& text, const std::string& file);
ControllerConfig read_config(const std::string& path);

}  // namespace gangway
