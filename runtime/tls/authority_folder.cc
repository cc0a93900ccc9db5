#include "runtime/tls/authority_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "runtime/base/durable_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/lock_file.h"
#include "runtime/base/paths.h"
#include "runtime/tls/tls_files.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr char kAuthorityKeyFile[] = "authority_key.pem";
constexpr char kIssuedFile[] = "issued";
constexpr size_t kIssuedBytesMax = size_t{64} << 20;

// Refuses a folder in which others may replace files, since whoever replaces authority.pem chooses
// whom a process trusts.
void make_private_folder(const fs::path& folder) {
  const fs::path whole = absolute_path(folder);
  std::error_code error;
  if (!fs::is_directory(whole, error)) {
    fs::create_directories(whole.parent_path(), error);
    if (mkdir(whole.c_str(), S_IRWXU) != 0 && errno != EEXIST) fail_file("create", whole, errno);
  }
  struct stat status{};
  if (stat(whole.c_str(), &status) != 0) fail_file("read", whole, errno);
  const bool is_private = (status.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
                          (status.st_uid == geteuid() || status.st_uid == 0);
  if (!is_private) {
    throw Error(ErrorKind::kInvalid,
                cat("cert: ", whole.string(), ": others may write to this folder"), {},
                cat("choose another one, or chmod go-w ", whole.string()));
  }
}

// Refuses before anything is written, so that no folder has files of two certificates.
void require_free(const fs::path& folder, const std::vector<const char*>& names) {
  for (const char* name : names) {
    std::error_code error;
    GW_REQUIRE(!fs::exists(fs::symlink_status(folder / name, error)),
               "cert: ", (folder / name).string(),
               " is there already: expected a folder without one");
  }
}

void create_private(const fs::path& file, const std::string& text) {
  GW_REQUIRE(create_whole(file, text, FileAccess::kOwnerOnly), "cert: ", file.string(),
             " is there already");
}

std::string issued_lines(const fs::path& authority) {
  const fs::path file = authority / kIssuedFile;
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) return {};
  return read_whole(file, kIssuedBytesMax);
}

// The number behind the last one of the register.
uint32_t next_number(const fs::path& authority, const std::string& lines) {
  if (lines.empty()) return 1;
  const size_t last = lines.size() < 2 ? std::string::npos : lines.rfind('\n', lines.size() - 2);
  const char* const begin = lines.data() + (last == std::string::npos ? 0 : last + 1);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(begin, lines.data() + lines.size(), number);
  GW_REQUIRE(error == std::errc() && number > 0 && number < UINT32_MAX && *end == ' ',
             "cert: ", (authority / kIssuedFile).string(), ": its last line has no number");
  return number + 1;
}

}  // namespace

fs::path authority_folder(const std::string& said) {
  if (!said.empty()) return said;
  const fs::path state = environment_value("XDG_STATE_HOME").value_or("");
  if (state.is_absolute()) return state / "gangway" / "authority";
  const auto home = environment_value("HOME");
  GW_REQUIRE(home, "cert: this user has no home folder: name one with --authority");
  return fs::path(*home) / ".local/state/gangway/authority";
}

void make_authority_folder(const fs::path& folder, int64_t now_s) {
  make_private_folder(folder);
  require_free(folder, {kAuthorityFile, kAuthorityKeyFile, kIssuedFile});
  const KeyedCertificate made =
      make_authority({.begins_s = now_s - kBeginEarlyS, .ends_s = now_s + kAuthorityDays * kDayS});
  create_private(folder / kAuthorityKeyFile, made.key);
  create_private(folder / kAuthorityFile, made.certificate);
  sync_folder(folder);
}

Certificate issue_folder(const fs::path& authority, const fs::path& to,
                         const CertificateOrder& order, int64_t now_s) {
  std::error_code error;
  if (!fs::exists(authority / kAuthorityFile, error)) {
    throw Error(ErrorKind::kInvalid, cat("cert: there is no authority in ", authority.string()), {},
                "make one with `gangway cert init`, or name its folder with --authority");
  }
  const KeyedCertificate issuer{read_whole(authority / kAuthorityFile, kIssuedBytesMax),
                                read_private(authority / kAuthorityKeyFile)};
  const int64_t authority_ends_s = read_validity(issuer.certificate).ends_s;
  GW_REQUIRE(now_s < authority_ends_s, "cert: the authority in ", authority.string(), " ",
             end_warning(authority_ends_s, now_s), ": make a new one, in another folder");
  const LockFile lock(authority / ".lock");
  if (!lock.is_held()) {
    throw Error(ErrorKind::kOverloaded, cat("cert: ", lock.holder(), " issues one now"), {},
                "try again");
  }
  const std::string lines = issued_lines(authority);
  const CertifiedName name{order.kind, order.name, next_number(authority, lines)};
  const Validity validity{now_s - kBeginEarlyS,
                          std::min(now_s + order.days * kDayS, authority_ends_s)};
  const KeyedCertificate made = issue(issuer, name, order.addresses, validity);
  make_private_folder(to);
  require_free(to, {kAuthorityFile, kCertificateFile, kKeyFile});
  // The register comes first: a number that nobody got does no harm, one that two got would.
  const char* const kind = order.kind == CertifiedKind::kHost ? "host" : "owner";
  replace_whole(
      authority / kIssuedFile,
      cat(lines, name.number, " ", kind, " ", name.name, " ", date_text(validity.ends_s), "\n"),
      FileAccess::kOwnerOnly);
  create_private(to / kKeyFile, made.key);
  create_private(to / kAuthorityFile, issuer.certificate);
  // The list of a certificate that this one takes the place of stays. The result says only that.
  if (order.kind == CertifiedKind::kHost)
    static_cast<void>(create_whole(to / kRevokedFile, "", FileAccess::kOwnerOnly));
  create_private(to / kCertificateFile, made.certificate);
  sync_folder(to);
  return {name, validity};
}

}  // namespace gangway
