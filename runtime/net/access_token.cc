#include "runtime/net/access_token.h"

#include <algorithm>
#include <span>

#include "runtime/os/random_bytes.h"

namespace gangway {
namespace {

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Parses two lower-case digits a byte. Returns false for other texts.
bool parse_hex(std::string_view text, std::span<std::byte> to) {
  if (text.size() != 2 * to.size()) return false;
  for (size_t i = 0; i < to.size(); ++i) {
    const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    to[i] = static_cast<std::byte>(high * 16 + low);
  }
  return true;
}

}  // namespace

AccessToken AccessToken::random() {
  AccessToken token;
  fill_random(token.bytes);
  return token;
}

bool AccessToken::is_none() const {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

std::string to_text(const AccessToken& token) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : token.bytes) {
    text += kDigits[std::to_integer<size_t>(byte >> 4)];
    text += kDigits[std::to_integer<size_t>(byte & std::byte{15})];
  }
  return text;
}

std::optional<AccessToken> parse_token(std::string_view text) {
  AccessToken token;
  if (!parse_hex(text, token.bytes) || token.is_none()) return std::nullopt;
  return token;
}

TokenHash hash_of(const AccessToken& token) {
  Hasher hasher;
  hasher.add("gangway access token");
  hasher.add(token.bytes.data(), token.bytes.size());
  return hasher.finish();
}

std::optional<TokenHash> parse_token_hash(std::string_view text) {
  std::array<std::byte, 16> bytes;
  if (!parse_hex(text, bytes)) return std::nullopt;
  TokenHash hash;
  for (size_t i = 0; i < 8; ++i) {
    hash.high = hash.high << 8 | std::to_integer<uint64_t>(bytes[i]);
    hash.low = hash.low << 8 | std::to_integer<uint64_t>(bytes[8 + i]);
  }
  return hash;
}

bool same_hash(const TokenHash& a, const TokenHash& b) {
  // The compiler may not know that the answer is settled once a half differs.
  volatile uint64_t difference = a.high ^ b.high;
  difference = difference | (a.low ^ b.low);
  return difference == 0;
}

}  // namespace gangway
