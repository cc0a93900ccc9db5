// StatesRead: what came of reading one version of a program's states.
#pragma once

#include <cstdint>

#include "controller/resources/slices.h"

namespace gangway {

struct StatesRead {
  enum class How : uint8_t {
    kHere,   // The version lies in the reader's memory.
    kPast,   // The states had gone on to a later one when it was asked for; nothing was copied.
    kAgain,  // A host was lost that may still write there, and the program is being brought back:
             // whoever still wants the version asks again, with other memory.
  };
  How how = How::kHere;
  StateVersion version;  // kHere: that lies there. kPast: to which the runs that have begun lead.
};

}  // namespace gangway
