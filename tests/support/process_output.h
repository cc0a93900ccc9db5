// The output of a child process, without a sanitizer's warning: AddressSanitizer warns once in
// every process with fibers that it may misread them.
#pragma once

#include <regex>
#include <string>

#include "runtime/os/anonymous_file.h"

namespace gangway {

inline std::string output_of(const AnonymousFile& file) {
  static const std::regex notice("==[0-9]+==WARNING: ASan doesn't fully support [^\n]*\n");
  return std::regex_replace(file.text(), notice, "");
}

// The first line; empty until it is complete.
inline std::string first_line_of(const AnonymousFile& file) {
  const std::string text = output_of(file);
  const size_t end = text.find('\n');
  return end == text.npos ? "" : text.substr(0, end);
}

}  // namespace gangway
