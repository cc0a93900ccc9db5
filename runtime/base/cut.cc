#include "runtime/base/cut.h"

namespace gangway {

std::string cut(std::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t end = bytes_max;
  while (end > 0 && bytes_max - end < 3 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return std::string(text.substr(0, end)) + "... (cut: " + std::to_string(text.size()) + " bytes)";
}

}  // namespace gangway
