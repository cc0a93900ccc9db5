// The verifier: every rule of functions and programs, all mistakes at once, sorted by the user's
// line.
//
// Nothing that arrives over the network or from a file is trusted: readers call verify before
// anyone else sees it, so it must accept any bytes-shaped-as-a-graph without crashing (ids out of
// range, huge sizes, wrong counts).
// Threads: pure functions; safe anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/program.h"
#include "runtime/base/error.h"

namespace gangway {

struct Mistake {
  ErrorKind kind = ErrorKind::kInvalid;  // Or kUnimplemented: reserved for a later version.
  std::string message;                   // In the message grammar of runtime/base/error.h.
  std::string file;                      // The user's; empty when unknown.
  int line = 0;
};

std::vector<Mistake> verify(const Function& function);
std::vector<Mistake> verify(const Program& program);

// Throws one error that holds every mistake, when there is any: kInvalid, or kUnimplemented when
// nothing but reserved features is in the way.
void require_valid(const Function& function);
void require_valid(const Program& program);

// Sorts mistakes by the user's file and line; and one error that holds them all.
void sort_by_line(std::vector<Mistake>& mistakes);
Error to_error(const std::vector<Mistake>& mistakes, std::string_view subject);

}  // namespace gangway
