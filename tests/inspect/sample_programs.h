// Programs whose views are tested: one that users write, one on several slices, and one with names
// that no view may trust.
//
// Threads: pure.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace gangway {

// The training step of ./quickstart, whose layers are a loop.
Program quickstart_program();
// Two calls on slices of two devices each, with a transfer between them.
Program two_stages();
// A program whose names and places hold script tags, control characters, quotes, bytes that are not
// UTF-8 and texts that are as long as they may be.
Program hostile_program();
inline constexpr const char* kHostileName = "</script><script>alert(\"1\")</script>";

// The program compiled for CPUs of one host. The plan's functions are local.
Plan plan_of(const Program& program);

}  // namespace gangway
