// More room for a program of which a device got more rows than its plan has room for
// (ir/plan/rows_overflow.h): the program to compile in its place, and the warning to its user.
//
// Threads: a pure function. It copies the program's functions, so it is called on a thread of a
// Background.
#pragma once

#include <memory>
#include <string>

#include "ir/graph/program.h"

namespace gangway {

struct MoreRoom {
  std::shared_ptr<const Program> program;
  std::string warning;  // The bounds that became larger, and the user's lines.
};
MoreRoom more_room(const Program& program);

}  // namespace gangway
