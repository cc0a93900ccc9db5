// The one error type of Gangway, and the three checks that raise it.
//
// A kind says what the *caller* should do. A message has a fixed grammar: subject, what is wrong,
// expected and got; then where it happened (program, node, host, device, the user's line); then a
// hint.
//
//   dot: contracted sizes differ: lhs dim 1 is 512 in bf16[64,512], rhs dim 0 is 256 in bf16[256,8]
//     in function "moe_loss", value %14
//     at two_programs.cc:14
//     hint: transpose the right-hand side
//
// Threads: a value; safe anywhere.
// Errors are thrown in control-plane code only. In the data path an Error travels as a value (see
// runtime/fibers/future.h): nothing is thrown on a device thread or through a KJ callback.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "runtime/base/cat.h"
#include "runtime/base/loc.h"

namespace gangway {

enum class ErrorKind {
  kInvalid,        // The call or the input is wrong: fix it.
  kUnavailable,    // A peer cannot be reached or went away: reconnect, retry.
  kOverloaded,     // No room now: wait for work in flight, then retry.
  kOverflow,       // More came than a declared bound has room for: declare a larger one.
  kCancelled,      // Stopped on request, or by its time limit.
  kLost,           // State is gone: restore from a checkpoint.
  kUnimplemented,  // Valid, but this version can't.
  kBug,            // Gangway broke a promise of its own: report it.
};

// "invalid", "unavailable", ...
const char* to_string(ErrorKind kind);

// Where an error happened; empty parts are unknown and are not printed.
struct Where {
  std::string program;
  std::string node;
  std::string host;
  std::string device;
  std::string at;  // The user's file and line, "two_programs.cc:14".
};

class Error : public std::exception {
 public:
  Error() = default;
  Error(ErrorKind kind, std::string message, Where where = {}, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const Where& where() const { return where_; }
  const std::vector<std::string>& context() const { return context_; }
  const std::string& hint() const { return hint_; }

  // The same error seen from further out. Parts of `where` that are already known are kept.
  Error& add_context(std::string line);
  Error& add_where(const Where& where);
  Error& set_hint(std::string hint);

  // The whole text, in the grammar above, without a final newline.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void render();

  ErrorKind kind_ = ErrorKind::kBug;
  std::string message_;
  Where where_;
  std::vector<std::string> context_;
  std::string hint_;
  std::string text_;
};

// Prints the error to standard error, with control characters spelt out, and returns the exit
// status for main(): 2 for kInvalid, else 1.
int report(const Error& error);

namespace internal {
[[noreturn]] void fail(ErrorKind kind, const char* expression, Loc loc, std::string message);
}

}  // namespace gangway

// The caller's mistake: throws kInvalid. The message is the text for the user; it must stand alone.
#define GW_REQUIRE(condition, ...)                                                         \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      throw ::gangway::Error(::gangway::ErrorKind::kInvalid, ::gangway::cat(__VA_ARGS__)); \
  } while (false)

// Our own mistake: throws kBug with the expression and its place. Always on.
#define GW_ASSERT(condition, ...)                                                   \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::gangway::internal::fail(::gangway::ErrorKind::kBug, #condition,             \
                                ::gangway::Loc{__builtin_FILE(), __builtin_LINE()}, \
                                ::gangway::cat("" __VA_OPT__(, ) __VA_ARGS__));     \
  } while (false)

// Like GW_ASSERT, for hot loops: off in release builds.
#ifdef NDEBUG
#define GW_DASSERT(condition, ...) static_cast<void>(sizeof(!(condition)))
#else
#define GW_DASSERT(condition, ...) GW_ASSERT(condition __VA_OPT__(, ) __VA_ARGS__)
#endif
