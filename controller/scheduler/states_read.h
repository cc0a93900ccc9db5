// StatesRead: the outcome of reading one version of a program's states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "controller/owners/owner_use.h"
#include "controller/slices/slices.h"
#include "runtime/base/error.h"

namespace gangway {

struct StatesRead {
  enum class How : uint8_t {
    kHere,   // The version lies in the reader's memory.
    kPast,   // The states had gone on to a later one when it was asked for; nothing was copied.
    kAgain,  // A host was lost that may still write there, and the program is being brought back:
             // a reader that still wants the version asks again, with other memory.
    kFailed,
  };
  How how = How::kHere;
  StateVersion version;    // kHere: the one read. kPast: where the runs that have begun lead.
  bool is_settled = true;  // No host writes to the reader's memory any more.
  std::optional<Error> error = {};  // kFailed: why.
  // Owner's memory that the error takes until the reader releases the read.
  std::shared_ptr<OwnerUse::Hold> memory = {};
};

}  // namespace gangway
