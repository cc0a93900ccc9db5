// Golden files: texts under tests/golden that a test holds, byte for byte.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace gangway::tests {

// The file's bytes; empty if there is no such file.
inline std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Expects the file to have this text. With GW_UPDATE_GOLDEN in the environment it is written first.
inline void expect_golden(const std::filesystem::path& file, const std::string& text) {
  if (std::getenv("GW_UPDATE_GOLDEN") != nullptr) std::ofstream(file) << text;
  EXPECT_EQ(text, file_text(file)) << file << ": GW_UPDATE_GOLDEN=1 writes it anew";
}

}  // namespace gangway::tests
