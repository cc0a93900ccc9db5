// A cluster's authority, and the folders that it issues, for a test: those of hosts and owners for
// --tls.
//
// Threads: one at a time.
// Ownership: all folders end with the object.
//
// Example:
//   const IssuedFolders folders;
//   folders.issue("host", {.kind = CertifiedKind::kHost, .name = "node7"});
//   SocketNetwork network(*reactor, folders.in("host"));
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/clock_ns.h"
#include "runtime/os/temp_dir.h"
#include "runtime/tls/authority_folder.h"

namespace gangway {

class IssuedFolders {
 public:
  // The authority "authority", made this many days ago.
  explicit IssuedFolders(int64_t begun_days_ago = 0) {
    make_authority("authority", begun_days_ago);
  }

  // Another authority.
  void make_authority(const std::string& name, int64_t begun_days_ago = 0) const {
    make_authority_folder(in(name), now_s_ - begun_days_ago * kDayS);
  }
  Certificate issue(const std::string& to, const CertificateOrder& order, int64_t days_ago = 0,
                    const std::string& authority = "authority") const {
    return issue_folder(in(authority), in(to), order, now_s_ - days_ago * kDayS);
  }
  std::string in(const std::string& name) const { return (dir_.path() / name).string(); }

 private:
  const TempDir dir_;
  const int64_t now_s_ = clock_ns(CLOCK_REALTIME) / 1'000'000'000;
};

}  // namespace gangway
