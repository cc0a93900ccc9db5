// Carries errors through Cap'n Proto: an Error that a server throws arrives at the caller as the
// same Error, with its kind, place, hint and context.
//
// Threads: functions on values.
#pragma once

#include <kj/exception.h>

#include <type_traits>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/result.h"

namespace gangway {

// Unpacks an Error that to_kj() packed. For other exceptions it maps the type: DISCONNECTED becomes
// kUnavailable, and so on.
Error to_error(const kj::Exception& exception);

// Packs the whole error into the description, where a peer in another language can still read the
// text.
kj::Exception to_kj(const Error& error);

// The exception in flight as an Error, whatever it is. For use in a catch block.
Error current_error();

// Calls `body` and returns its result, or the error that it threw.
template <class Body>
auto result_of(Body&& body) -> Result<std::invoke_result_t<Body&>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body();
      return {};
    } else {
      return body();
    }
  } catch (...) {
    return current_error();
  }
}

}  // namespace gangway
