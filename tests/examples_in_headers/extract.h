// Extracts the examples in comments of headers, and writes the source that compiles them.
//
// An example is a block of comment lines that are indented by three spaces or more, below a line
// "Example:" or "Example (what it shows):". Other indented blocks are tables and diagrams; code in
// them is a mistake, since nothing would compile it (unmarked_code()).
//
// Threads: pure functions, but for reading files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace gangway::examples {

struct Example {
  std::string path;  // Path from the root of the tree: "client/client.h".
  int line = 0;      // Number of the first line of code, from 1.
  std::vector<std::string> code;

  // True if the example begins with a function, which can't stand inside another one.
  bool defines_function() const;
};

std::vector<Example> examples_in(const std::string& path, std::string_view header);

// Lines, from 1, that end like statements in an indented block that is not marked as an example.
std::vector<int> unmarked_code(std::string_view header);

// Headers that a user's program may include: gangway.h, all headers that it includes from this
// tree, and every header of the folders that are public as a whole. The list is sorted. Throws
// kInvalid if `root` has no gangway.h.
std::vector<std::string> public_headers(const std::filesystem::path& root);

// Every header of the rooms, their tests and benchmarks, sorted.
std::vector<std::string> all_headers(const std::filesystem::path& root);

std::string read_file(const std::filesystem::path& path);

// A source with a function or namespace for each example. Compilers report errors at the example's
// own line.
std::string to_source(const std::vector<Example>& examples,
                      const std::vector<std::string>& headers);

}  // namespace gangway::examples
