// The folder with which a process takes part in TLS: --tls, ConnectOptions::tls_folder or
// $GANGWAY_TLS. `gangway cert` makes it (authority_folder.h).
//
//   authority.pem      certificate of the cluster's authority; its key is elsewhere
//   certificate.pem    the process's own
//   key.pem            its key, which only its user may read
//   revoked            numbers of certificates that its host takes no longer, one a line. Each
//                      folder of a host has it, if it is empty too: a list that got lost would
//                      let everybody in
//
// Threads: any.
// Errors: kInvalid for a file that is missing, malformed or not private, with its path; as
// runtime/base/durable_file.h where the system refuses.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "runtime/tls/certificate.h"

namespace gangway {

inline constexpr char kAuthorityFile[] = "authority.pem";
inline constexpr char kCertificateFile[] = "certificate.pem";
inline constexpr char kKeyFile[] = "key.pem";
inline constexpr char kRevokedFile[] = "revoked";

// Bound of the list of revoked certificates.
inline constexpr size_t kRevokedMax = size_t{1} << 16;

struct TlsFiles {
  std::string authority;  // In PEM.
  KeyedCertificate keyed;
  Certificate own;  // The facts in keyed.certificate.
};

// Returns `said`, or if it is empty $GANGWAY_TLS. Empty: this process has no certificate.
std::string tls_folder(const std::string& said);

TlsFiles read_tls_files(const std::filesystem::path& folder);
// A text that is another one after each change of one of these files.
std::string version_of_tls_files(const std::filesystem::path& folder);

// Throws kInvalid if there is no list.
std::set<uint32_t> read_revoked(const std::filesystem::path& folder);
// Adds the number to the list of the controller whose folder this is. Returns false if the list has
// it already. kInvalid if the folder is not a host's, or another user's, whose controller could not
// read a list of this user.
bool revoke(const std::filesystem::path& folder, uint32_t number);

// Reads a key, which must be private to this user or to root.
std::string read_private(const std::filesystem::path& file);

}  // namespace gangway
