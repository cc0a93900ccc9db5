#include "protocol/token_file.h"

#include <fcntl.h>
#include <kj/io.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "runtime/base/durable_file.h"
#include "runtime/base/environment.h"
#include "runtime/base/error.h"
#include "runtime/base/paths.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& what, std::string hint = {}) {
  throw Error(ErrorKind::kInvalid, cat("token file ", file.string(), ": ", what), {},
              std::move(hint));
}

fs::path home() {
  if (const auto said = environment_value("HOME")) return *said;
  std::vector<char> text(size_t{16} << 10);
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found);
  GW_REQUIRE(found != nullptr,
             "token: this user has no home folder: name a file with "
             "--token-file or GANGWAY_TOKEN_FILE");
  return entry.pw_dir;
}

// Empty: there is no such file.
std::optional<AccessToken> read_if_there(const fs::path& file) {
  const kj::AutoCloseFd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (in.get() < 0 && errno == ENOENT) return std::nullopt;
  struct stat status{};
  if (in.get() < 0 || fstat(in.get(), &status) != 0) fail(file, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(file, "it is no file");
  if (status.st_uid != geteuid() && status.st_uid != 0) fail(file, "it is another user's");
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    fail(file, "others may read or write it", cat("chmod 600 ", file.string()));
  char text[66];
  const ssize_t got = ::read(in.get(), text, sizeof text);
  if (got < 0) fail(file, std::strerror(errno));
  std::string_view line(text, static_cast<size_t>(got));
  if (line.ends_with('\n')) line.remove_suffix(1);
  const auto token = parse_token(line);
  if (!token) fail(file, "expected a token: one line of 64 hexadecimal digits");
  return token;
}

void create_folder(const fs::path& file) {
  const fs::path folder = absolute_path(file).parent_path();
  std::error_code error;
  if (fs::exists(folder, error)) return;
  fs::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
    fail(file, cat("its folder can't be created: ", std::strerror(errno)));
}

// Returns false if the file exists.
bool create_if_missing(const fs::path& file, const AccessToken& token) {
  create_folder(file);
  return create_whole(file, to_text(token) + "\n", FileAccess::kOwnerOnly);
}

}  // namespace

fs::path token_file(const std::string& said) {
  if (!said.empty()) return said;
  if (const auto file = environment_value("GANGWAY_TOKEN_FILE")) return *file;
  const fs::path state = environment_value("XDG_STATE_HOME").value_or("");
  return (state.is_absolute() ? state : home() / ".local/state") / "gangway" / "token";
}

AccessToken read_token_file(const fs::path& file) {
  const auto token = read_if_there(file);
  if (!token) fail(file, "there is none");
  return *token;
}

AccessToken read_or_create_token_file(const fs::path& file) {
  if (const auto token = read_if_there(file)) return *token;
  const AccessToken created = AccessToken::random();
  // Another controller that starts at the same time may be faster.
  return create_if_missing(file, created) ? created : read_token_file(file);
}

void create_token_file(const fs::path& file, const AccessToken& token) {
  if (!create_if_missing(file, token)) fail(file, "it is there already", "choose another file");
}

std::function<ShownToken()> shown_at(const std::string& address, const std::string& said) {
  if (address.starts_with("unix:") || address.starts_with("sim:")) return nullptr;
  return [said]() -> ShownToken {
    const fs::path file = token_file(said);
    const auto token = read_if_there(file);
    if (!token && !said.empty()) fail(file, "there is none");
    return {.token = token.value_or(AccessToken{}), .where = file.string()};
  };
}

}  // namespace gangway
