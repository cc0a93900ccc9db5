// TokenTable: the tokens that open a controller's TCP port, and their owners.
//
// The controller's own user has the token in the token file (protocol/token_file.h). The tokens of
// other owners are in a file next to it, `<token file>.owners`: one line for each, with the owner
// and the hash of the token. A running controller reads a changed file at the next connection. An
// owner whose token was removed keeps the connections that are open.
//
// Threads: one; the functions any.
// Errors: as durable_file.h for files that can't be read or written; kInvalid for a line that is
// not an owner's.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/net/access_token.h"
#include "runtime/observe/log.h"

namespace gangway {

struct OwnerToken {
  std::string owner;
  TokenHash hash;
};

inline constexpr size_t kOwnerTokensMax = 4096;

class TokenTable {
 public:
  // Creates the token file if it is missing. `user`: the owner of the token in it.
  TokenTable(std::filesystem::path token_file, std::string user, Logger log = {});

  // None: it is nobody's token. The time that the call takes does not reveal how much of a token is
  // right. If the file of owners can't be read it counts as empty, and the log says so.
  std::optional<std::string> owner_of(const AccessToken& token);

 private:
  void look_for_changes();

  const std::filesystem::path token_file_;
  const OwnerToken own_;
  Logger log_;
  std::vector<OwnerToken> others_;
  std::string version_;  // The version of the file that `others_` was read from.
};

std::vector<OwnerToken> owner_tokens(const std::filesystem::path& token_file);
// An owner may have several tokens, each of which is valid.
void add_owner_token(const std::filesystem::path& token_file, const OwnerToken& token);
// Removes all tokens of the owner, and returns how many there were.
size_t remove_owner_tokens(const std::filesystem::path& token_file, const std::string& owner);

}  // namespace gangway
