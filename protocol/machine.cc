#include "protocol/machine.h"

#include <unistd.h>

#include <fstream>

#include "runtime/base/error.h"

namespace gangway {

Machine this_machine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char link[128] = {};
  if (readlink("/proc/self/ns/pid", link, sizeof(link) - 1) < 0) link[0] = '\0';
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return {.identity = boot + "/" + link, .host = host};
}

ProcessIdentity process_of(const Machine& peer, int64_t pid) {
  return peer.identity == this_machine().identity ? identity_of(pid) : ProcessIdentity{};
}

void require_same_machine(const Machine& mine, const Machine& theirs, const std::string& peer) {
  if (mine.identity == theirs.identity) return;
  throw Error(ErrorKind::kUnimplemented,
              cat(peer, ": shares no memory with the controller: expected machine \"", mine.host,
                  "\" (", mine.identity, "), got \"", theirs.host, "\" (", theirs.identity, ")"),
              {},
              "start it on the controller's machine and in its container: this version has no "
              "transfers between machines");
}

}  // namespace gangway
