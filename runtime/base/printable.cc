#include "runtime/base/printable.h"

#include <cstdint>

namespace gangway {
namespace {

struct Decoded {
  size_t bytes = 1;
  uint32_t code = 0;
  bool is_utf8 = true;
};

Decoded decode(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {1, first, true};
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > text.size()) return {1, first, false};
  uint32_t code = first & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {1, first, false};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  return {bytes, code, true};
}

bool is_shown(const Decoded& letter) {
  const uint32_t code = letter.code;
  const bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  const bool turns_text = (code >= 0x200b && code <= 0x200f) ||
                          (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return letter.is_utf8 && !is_control && !turns_text;
}

void append_spelt(std::string& out, const Decoded& letter) {
  constexpr char kDigits[] = "0123456789abcdef";
  if (letter.is_utf8 && letter.code == '\n') {
    out += "\\n";
  } else if (letter.is_utf8 && letter.code == '\t') {
    out += "\\t";
  } else {
    out += letter.is_utf8 ? "\\u" : "\\x";
    for (int shift = letter.is_utf8 ? 12 : 4; shift >= 0; shift -= 4)
      out += kDigits[letter.code >> shift & 15];
  }
}

std::string spelt(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Decoded letter = decode(text);
    if (is_shown(letter) || kept.find(text[0]) != kept.npos) {
      out += text.substr(0, letter.bytes);
    } else {
      append_spelt(out, letter);
    }
    text.remove_prefix(letter.bytes);
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return spelt(text, ""); }

std::string printable_lines(std::string_view text) { return spelt(text, "\n"); }

ShownLetter first_letter(std::string_view text) {
  const Decoded letter = decode(text);
  const bool is_wide = letter.is_utf8 && letter.code >= 0x1100 && letter.code != 0x2026;
  return {letter.bytes, is_wide ? 2u : 1u, is_shown(letter)};
}

}  // namespace gangway
