// A place in the user's source.
//
// Every value of a graph and every error carries the user's line. It comes free: a parameter of
// type Loc with the default `Loc::current()` is filled in at the call, also through an implicit
// conversion of an operand. (std::source_location does not compile with every compiler that Gangway
// supports; this is its equivalent.)
#pragma once

#include <string>

namespace gangway {

struct Loc {
  const char* file = "";  // A string literal: lives as long as the process.
  int line = 0;

  static constexpr Loc current(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  bool known() const { return line > 0; }
};

// "two_programs.cc:14": the file's name without its folders, or "unknown".
std::string to_string(const Loc& loc);

}  // namespace gangway
