// Programs whose views are tested: as users write them, on several slices, and with names that no
// view may trust.
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
// Its names and places hold script tags, control characters, quotes, bytes that are not UTF-8 and
// texts that are as long as they may be.
Program hostile_program();
inline constexpr const char* kHostileName = "</script><script>alert(\"1\")</script>";

// As compiled for CPUs of one host: its functions are local.
Plan plan_of(const Program& program);

}  // namespace gangway
