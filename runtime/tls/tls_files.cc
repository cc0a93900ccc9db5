#include "runtime/tls/tls_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>

#include "runtime/base/durable_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/lock_file.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPemBytesMax = size_t{64} << 10;
constexpr size_t kRevokedBytesMax = kRevokedMax * 11;  // Ten digits and the end of the line.

[[noreturn]] void fail_tls_file(const fs::path& file, const std::string& what,
                                std::string hint = {}) {
  throw Error(ErrorKind::kInvalid, cat("TLS file ", file.string(), ": ", what), {},
              std::move(hint));
}

void require_file(const fs::path& file) {
  std::error_code error;
  if (fs::is_regular_file(file, error)) return;
  fail_tls_file(file, "there is none",
                "expected a folder that `gangway cert host` or `gangway cert owner` made");
}

std::string read_pem(const fs::path& file) {
  require_file(file);
  return read_whole(file, kPemBytesMax);
}

// Calls `parse`, whose error then names the file.
template <class Parse>
auto naming(const fs::path& file, const Parse& parse) {
  try {
    return parse();
  } catch (const Error& error) {
    fail_tls_file(file, error.message());
  }
}

}  // namespace

std::string tls_folder(const std::string& said) {
  return said.empty() ? environment_value("GANGWAY_TLS").value_or("") : said;
}

std::string read_private(const fs::path& file) {
  require_file(file);
  struct stat status{};
  if (stat(file.c_str(), &status) != 0) fail_tls_file(file, std::strerror(errno));
  if (status.st_uid != geteuid() && status.st_uid != 0)
    fail_tls_file(file, "it is another user's", "do this as the user whose it is");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    fail_tls_file(file, "others may read or write it", cat("chmod 600 ", file.string()));
  return read_whole(file, kPemBytesMax);
}

TlsFiles read_tls_files(const fs::path& folder) {
  TlsFiles files;
  files.authority = read_pem(folder / kAuthorityFile);
  naming(folder / kAuthorityFile, [&] { return read_validity(files.authority); });
  files.keyed.certificate = read_pem(folder / kCertificateFile);
  files.own =
      naming(folder / kCertificateFile, [&] { return read_certificate(files.keyed.certificate); });
  files.keyed.key = read_private(folder / kKeyFile);
  naming(folder / kKeyFile,
         [&] { require_key_of(files.keyed.certificate, files.keyed.key, kKeyFile); });
  return files;
}

std::string version_of_tls_files(const fs::path& folder) {
  std::string version;
  for (const char* name : {kAuthorityFile, kCertificateFile, kKeyFile, kRevokedFile})
    version += file_version(folder / name) + "\n";
  return version;
}

std::set<uint32_t> read_revoked(const fs::path& folder) {
  const fs::path file = folder / kRevokedFile;
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) {
    fail_tls_file(file, "there is no list of revoked certificates, so nobody is taken",
                  "put the list back; an empty file revokes nothing");
  }
  std::set<uint32_t> revoked;
  std::istringstream in(read_whole(file, kRevokedBytesMax));
  std::string line;
  for (size_t at = 1; std::getline(in, line); ++at) {
    uint32_t number = 0;
    const auto [end, bad] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (bad != std::errc() || end != line.data() + line.size() || number == 0)
      fail_tls_file(file, cat("line ", at, ": expected the number of a certificate"));
    revoked.insert(number);
  }
  return revoked;
}

bool revoke(const fs::path& folder, uint32_t number) {
  const Certificate own = read_tls_files(folder).own;
  if (!is_host(own)) {
    fail_tls_file(folder / kCertificateFile,
                  cat("it is that of ", to_text(own.name), ", which no controller reads"),
                  "expected the folder of the controller's host");
  }
  const fs::path file = folder / kRevokedFile;
  const LockFile lock(folder / ".lock");
  if (!lock.is_held()) {
    throw Error(ErrorKind::kOverloaded,
                cat("TLS file ", file.string(), ": ", lock.holder(), " changes it now"), {},
                "try again");
  }
  std::set<uint32_t> revoked = read_revoked(folder);
  if (!revoked.insert(number).second) return false;
  if (revoked.size() > kRevokedMax)
    fail_tls_file(file, cat("it has ", kRevokedMax, " numbers already"),
                  "make a new authority, and new certificates");
  std::string text;
  for (const uint32_t each : revoked) text += cat(each, "\n");
  replace_whole(file, text, FileAccess::kOwnerOnly);
  return true;
}

}  // namespace gangway
