// The version of the messages of this room, and the check that refuses another one.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/error.h"

namespace gangway {

// Changes with every incompatible change of a schema of this room.
inline constexpr uint32_t kProtocolVersion = 10;
inline constexpr const char* kRelease = "0.1.0";

struct Version {
  uint32_t protocol = kProtocolVersion;
  std::string release = kRelease;
};

// Throws kInvalid when the two can't talk. `peer` names the other side: "executor \"host-3\"".
inline void require_same_version(const Version& mine, const Version& theirs,
                                 const std::string& peer) {
  if (mine.protocol == theirs.protocol) return;
  throw Error(
      ErrorKind::kInvalid,
      cat(peer, ": of another version: expected protocol ", mine.protocol, " (release ",
          mine.release, "), got protocol ", theirs.protocol, " (release ", theirs.release, ")"),
      {}, "run the same release of Gangway everywhere");
}

}  // namespace gangway
