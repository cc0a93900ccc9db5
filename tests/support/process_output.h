// What a child process wrote, as it is without sanitizers: AddressSanitizer says of every process
// with fibers, once and unasked, that it may misread them.
#pragma once

#include <regex>
#include <string>

#include "runtime/os/anonymous_file.h"

namespace gangway {

inline std::string output_of(const AnonymousFile& file) {
  static const std::regex notice("==[0-9]+==WARNING: ASan doesn't fully support [^\n]*\n");
  return std::regex_replace(file.text(), notice, "");
}

// The first line, or nothing while it is not all there.
inline std::string first_line_of(const AnonymousFile& file) {
  const std::string text = output_of(file);
  const size_t end = text.find('\n');
  return end == text.npos ? "" : text.substr(0, end);
}

}  // namespace gangway
