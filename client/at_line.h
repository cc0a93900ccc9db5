// The caller's line for what a call throws.
//
// Threads: any.
#pragma once

#include "runtime/base/error.h"
#include "runtime/base/loc.h"

namespace gangway::internal {

// What is wrong, where no line is known yet, is so at this one of the caller's.
template <class Body>
auto at_line(const Loc& loc, const Body& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_where({.at = to_string(loc)});
    throw;
  }
}

}  // namespace gangway::internal
