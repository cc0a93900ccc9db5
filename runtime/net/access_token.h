// AccessToken: 256 random bits with which a peer shows who it is where the network can't tell, as
// over TCP.
//
// Its text form is 64 hexadecimal digits. A server keeps TokenHashes, from which no token can be
// recovered.
//
// Threads: values.
// Errors: random() throws those of fill_random().
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/hash.h"

namespace gangway {

struct AccessToken {
  std::array<std::byte, 32> bytes{};  // All zero: no token.

  static AccessToken random();
  bool is_none() const;
};

std::string to_text(const AccessToken& token);
// Empty when the text is not 64 hexadecimal digits, or all of them are 0.
std::optional<AccessToken> parse_token(std::string_view text);

using TokenHash = Hash128;

TokenHash hash_of(const AccessToken& token);
std::optional<TokenHash> parse_token_hash(std::string_view text);
// Compares in a time that does not depend on where the hashes differ.
bool same_hash(const TokenHash& a, const TokenHash& b);

// The token that a peer shows when it connects and, for messages, where the token came from or was
// looked for.
struct ShownToken {
  AccessToken token;
  std::string where;
};

}  // namespace gangway
