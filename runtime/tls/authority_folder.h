// A cluster's authority in a folder, and the folders that it issues (tls_files.h). Anybody who has
// authority_key.pem can make certificates. It belongs on the machine of the person who runs the
// cluster, and no process of the cluster reads it.
//
//   authority.pem        its certificate
//   authority_key.pem    its key
//   issued               a line for each certificate: "12 host node7 2027-11-28"
//
// All files are for their user alone. Nothing is ever overwritten.
//
// Threads: any; two processes that issue at once wait for nobody: one is refused.
// Errors: kInvalid for a folder that has such files already, that others may write to, or that is
// no authority's.
//
// Example:
//   make_authority_folder("authority", now_s);
//   issue_folder("authority", "node7.tls", {.kind = CertifiedKind::kHost, .name = "node7"}, now_s);
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/tls/certificate.h"

namespace gangway {

inline constexpr int64_t kAuthorityDays = 3650;
// A certificate begins an hour early, for machines whose clocks are behind.
inline constexpr int64_t kBeginEarlyS = 3600;

// Returns `said`, or if it is empty "gangway/authority" in the user's state folder.
std::filesystem::path authority_folder(const std::string& said);

void make_authority_folder(const std::filesystem::path& folder, int64_t now_s);

struct CertificateOrder {
  CertifiedKind kind = CertifiedKind::kOwner;
  std::string name;
  std::vector<std::string> addresses = {};  // See issue().
  int64_t days = 365;                       // Less where the authority ends earlier.
};

// Issues a certificate into the folder `to`, which is made if it is missing. A host's folder gets
// an empty list of revoked certificates, unless it has one.
Certificate issue_folder(const std::filesystem::path& authority, const std::filesystem::path& to,
                         const CertificateOrder& order, int64_t now_s);

}  // namespace gangway
