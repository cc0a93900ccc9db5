#include "controller/service/tokens.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "protocol/owner.h"
#include "protocol/token_file.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr size_t kOwnersBytesMax = size_t{1} << 20;  // kOwnerTokensMax lines, and more.

fs::path owners_file(const fs::path& token_file) { return token_file.string() + ".owners"; }

std::vector<OwnerToken> read_owners(const fs::path& file) {
  std::vector<OwnerToken> tokens;
  std::error_code error;
  if (fs::status(file, error).type() == fs::file_type::not_found) return tokens;
  std::istringstream in(read_whole(file, kOwnersBytesMax));
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    const size_t space = line.find(' ');
    const auto hash = space == line.npos
                          ? std::nullopt
                          : parse_token_hash(std::string_view(line).substr(space + 1));
    GW_REQUIRE(hash && is_owner_name(line.substr(0, space)), "tokens: ", file.string(), ":", number,
               ": expected an owner and the hash of a token");
    GW_REQUIRE(tokens.size() < kOwnerTokensMax, "tokens: ", file.string(), ": expected at most ",
               kOwnerTokensMax);
    tokens.push_back({line.substr(0, space), *hash});
  }
  return tokens;
}

// Only the file's user can read it.
void write_owners(const fs::path& file, const std::vector<OwnerToken>& tokens) {
  std::string text;
  for (const OwnerToken& token : tokens) text += cat(token.owner, " ", to_string(token.hash), "\n");
  replace_whole(file, text, FileAccess::kOwnerOnly);
}

// While it lives, no other process changes the file of owners.
class Locked {
 public:
  explicit Locked(const fs::path& token_file) {
    read_or_create_token_file(token_file);
    fd_ = ::open(token_file.c_str(), O_RDONLY | O_CLOEXEC);
    GW_REQUIRE(fd_ >= 0 && flock(fd_, LOCK_EX) == 0, "tokens: ", token_file.string(), ": ",
               std::strerror(errno));
  }
  ~Locked() { ::close(fd_); }
  Locked(const Locked&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace

TokenTable::TokenTable(fs::path token_file, std::string user, Logger log)
    : token_file_(std::move(token_file)),
      own_{std::move(user), hash_of(read_or_create_token_file(token_file_))},
      log_(std::move(log)) {
  look_for_changes();
}

std::optional<std::string> TokenTable::owner_of(const AccessToken& token) {
  look_for_changes();
  const TokenHash hash = hash_of(token);
  const OwnerToken* found = same_hash(own_.hash, hash) ? &own_ : nullptr;
  for (const OwnerToken& other : others_) {
    if (same_hash(other.hash, hash)) found = &other;
  }
  return found == nullptr ? std::nullopt : std::optional(found->owner);
}

void TokenTable::look_for_changes() {
  const fs::path file = owners_file(token_file_);
  const std::string version = file_version(file);
  if (version == version_) return;
  version_ = version;
  others_.clear();
  try {
    others_ = read_owners(file);
  } catch (const Error& error) {
    log_.error("tokens of other owners are not taken", {{"why", error.message()}});
  }
}

std::vector<OwnerToken> owner_tokens(const fs::path& token_file) {
  return read_owners(owners_file(token_file));
}

void add_owner_token(const fs::path& token_file, const OwnerToken& token) {
  GW_REQUIRE(is_owner_name(token.owner), "tokens: an owner has 1 to ", kOwnerBytesMax,
             " letters, digits, '-', '_' or '.'");
  const Locked locked(token_file);
  std::vector<OwnerToken> tokens = owner_tokens(token_file);
  GW_REQUIRE(tokens.size() < kOwnerTokensMax, "tokens: there are ", tokens.size(),
             " already: remove some first");
  tokens.push_back(token);
  write_owners(owners_file(token_file), tokens);
}

size_t remove_owner_tokens(const fs::path& token_file, const std::string& owner) {
  const Locked locked(token_file);
  std::vector<OwnerToken> tokens = owner_tokens(token_file);
  const size_t removed =
      std::erase_if(tokens, [&](const OwnerToken& token) { return token.owner == owner; });
  if (removed > 0) write_owners(owners_file(token_file), tokens);
  return removed;
}

}  // namespace gangway
