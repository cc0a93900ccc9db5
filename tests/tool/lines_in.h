// Cuts a command's output into lines and cells.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace gangway {

inline std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::erase(line, '\r');
    lines.push_back(line);
  }
  return lines;
}

// Cells have two spaces or more between them.
inline std::vector<std::string> cells_in(const std::string& line) {
  static const std::regex gap("  +");
  const std::string trimmed = line.substr(std::min(line.size(), line.find_first_not_of(' ')));
  return {std::sregex_token_iterator(trimmed.begin(), trimmed.end(), gap, -1), {}};
}

}  // namespace gangway
