// The error that a call throws, for tests that look at its kind and its words. The test fails if
// the call throws no error.
//
// Threads: pure.
//
// Example:
//   EXPECT_THAT(error_of([&] { slice.compile(large); }).what(), HasSubstr("does not fit"));
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "runtime/base/cat.h"
#include "runtime/base/error.h"

namespace gangway {

template <class Call>
Error error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorKind::kBug, "nothing was thrown"};
}

// The error's text with its kind: "lost: device died".
template <class Call>
std::string error_text_of(const Call& call) {
  const Error error = error_of(call);
  return cat(to_string(error.kind()), ": ", error.what());
}

}  // namespace gangway
