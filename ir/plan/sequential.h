// Whether the nodes of a plan are dispatched sequentially (dispatch.h), and why.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "ir/plan/plan.h"

namespace gangway {

bool is_sequential(const Plan& plan);

// In words for the user; empty: they are not.
std::string why_sequential(const Plan& plan);

}  // namespace gangway
