// TokenTable: whose token opens a controller's TCP port.
//
// The controller's own user has the token in the token file (protocol/token_file.h). Those of other
// owners are in a file beside it, `<token file>.owners`: one line each, the owner and the hash of
// the token. A running controller takes up changes of it with the next connection; one whose token
// was removed keeps the connections that it has.
//
// Threads: one; the functions any.
// Errors: kInvalid for files that can't be read or written, naming them.
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
  // Creates the token file when it is missing. `user`: the owner whose token lies there.
  TokenTable(std::filesystem::path token_file, std::string user, Logger log = {});

  // Empty: nobody's. How long it takes does not tell how much of it is right. A file of owners that
  // can't be read has no tokens, and the log says so.
  std::optional<std::string> owner_of(const AccessToken& token);

 private:
  void look_for_changes();

  const std::filesystem::path token_file_;
  const OwnerToken own_;
  Logger log_;
  std::vector<OwnerToken> others_;
  std::string version_;  // Of the file that `others_` was read from.
};

std::vector<OwnerToken> owner_tokens(const std::filesystem::path& token_file);
// A second token of an owner is as good as its first.
void add_owner_token(const std::filesystem::path& token_file, const OwnerToken& token);
// All tokens of the owner; returns how many there were.
size_t remove_owner_tokens(const std::filesystem::path& token_file, const std::string& owner);

}  // namespace gangway
