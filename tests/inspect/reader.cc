#include "tests/inspect/reader.h"

#include <fstream>

#include "runtime/base/cat.h"
#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/support/places.h"

namespace gangway {

Read run_reader(std::vector<std::string> arguments) {
  AnonymousFile output("output");
  ChildProcess child({.arguments = std::move(arguments), .output_file = output.path()});
  const bool ok = child.wait().ok();
  return {ok, output.text()};
}

Read run_python(const std::string& script, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{tests::cmake_variable("GANGWAY_TEST_PYTHON"),
                                 cat(tests::source_folder(), "/tests/inspect/", script)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_reader(words);
}

std::string file_with(const TempDir& folder, const std::string& name, const std::string& text) {
  const std::string path = (folder.path() / name).string();
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

}  // namespace gangway
