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

  // The caller's line; inside a LocScope, that scope's.
  static Loc current(const char* file = __builtin_FILE(), int line = __builtin_LINE());
  bool known() const { return line > 0; }
};

// While a LocScope lives, everything that this thread traces counts as written at one line. A
// function that builds part of a model (a layer, an optimizer) opens one at its start, so that its
// nodes and errors name the line of the user who called it, and not its own:
//
//   Value feed_forward(const Tree& p, Value x, Loc loc = Loc::current()) {
//     LocScope at(loc);
//     return dot(gelu(dot(x, p["up"])), p["down"]);
//   }
//
// Scopes nest: the defaulted `loc` of a function that is called inside a scope is that scope's
// line. Threads: a scope applies to the thread that opened it. Scopes close in reverse order.
class LocScope {
 public:
  explicit LocScope(Loc at);
  ~LocScope();
  LocScope(const LocScope&) = delete;
  LocScope& operator=(const LocScope&) = delete;

 private:
  const Loc at_;
  const Loc* const outer_;
};

// "two_programs.cc:14": the file's name without its folders, or "unknown".
std::string to_string(const Loc& loc);

}  // namespace gangway
