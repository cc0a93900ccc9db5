// Writes the source that compiles every example of the public headers:
//
//   generate ROOT OUTPUT
//
// An output that would not change is left as it is, so that nothing is compiled again.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>

#include "tests/examples_in_headers/extract.h"

int main(int argc, char** argv) try {
  namespace examples = gangway::examples;
  if (argc != 3) {
    std::fputs("usage: generate ROOT OUTPUT\n", stderr);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  const std::vector<std::string> headers = examples::public_headers(root);
  std::vector<examples::Example> found;
  for (const std::string& header : headers) {
    for (examples::Example& example :
         examples::examples_in(header, examples::read_file(root / header)))
      found.push_back(std::move(example));
  }
  const std::string source = examples::to_source(found, headers);
  if (std::filesystem::exists(argv[2]) && examples::read_file(argv[2]) == source) return 0;
  std::ofstream out(argv[2], std::ios::binary);
  out << source;
  return out.flush() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "generate: %s\n", error.what());
  return 1;
}
