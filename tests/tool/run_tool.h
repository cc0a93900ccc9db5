// Runs the gangway tool as a user does, and returns its output.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/os/anonymous_file.h"
#include "runtime/os/process.h"
#include "tests/support/places.h"
#include "tests/support/process_output.h"

namespace gangway::tool_test {

struct Ended {
  int status = 0;
  std::string text;  // Standard output and error.
};

inline Ended run_child(ChildOptions options) {
  AnonymousFile output("output");
  options.output_file = output.path();
  ChildProcess child(std::move(options));
  const ExitStatus status = child.wait();
  const std::string text = output_of(output);
  EXPECT_EQ(status.signal, 0) << text;
  return {status.code, text};
}

inline Ended gangway(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), tests::gangway_tool());
  return run_child({.arguments = std::move(arguments)});
}

// Runs the tool in a shell that runs `before` first, and redirects its output as `redirected` says.
inline Ended gangway_in_shell(const std::string& before, std::vector<std::string> arguments,
                              const std::string& redirected = "") {
  arguments.insert(
      arguments.begin(),
      {"/bin/sh", "-c", before + " exec \"$0\" \"$@\" " + redirected, tests::gangway_tool()});
  return run_child({.arguments = std::move(arguments)});
}

}  // namespace gangway::tool_test
