#include "runtime/fibers/kj_error.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/limit_hint.h"
#include "runtime/fibers/lost_connection.h"

namespace gangway {
namespace {

// "<text>\n\x1dgw1\x1f<kind>\x1f<message>\x1f<program>...\x1f<context>...\x1d": control characters
// that no message holds.
constexpr char kFrame = '\x1d';
constexpr char kField = '\x1f';
constexpr std::string_view kStart = "\x1dgw1\x1f";
constexpr int kFixedFields = 8;

constexpr ErrorKind kKinds[] = {
    ErrorKind::kInvalid,   ErrorKind::kUnavailable, ErrorKind::kOverloaded,    ErrorKind::kOverflow,
    ErrorKind::kCancelled, ErrorKind::kLost,        ErrorKind::kUnimplemented, ErrorKind::kBug};

std::string clean(std::string text) {
  for (char& c : text) {
    if (c == kFrame || c == kField) c = ' ';
  }
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> fields;
  for (size_t at = 0;;) {
    const size_t end = text.find(kField, at);
    fields.emplace_back(text.substr(at, end - at));
    if (end == std::string_view::npos) return fields;
    at = end + 1;
  }
}

std::optional<Error> unpack(std::string_view description) {
  const size_t start = description.find(kStart);
  if (start == std::string_view::npos) return std::nullopt;
  const size_t from = start + kStart.size();
  const size_t end = description.find(kFrame, from);
  if (end == std::string_view::npos) return std::nullopt;
  std::vector<std::string> f = split(description.substr(from, end - from));
  if (f.size() < kFixedFields) return std::nullopt;
  ErrorKind kind = ErrorKind::kBug;
  for (ErrorKind candidate : kKinds) {
    if (f[0] == to_string(candidate)) kind = candidate;
  }
  Error error(kind, f[1], {.program = f[2], .node = f[3], .host = f[4], .device = f[5], .at = f[6]},
              f[7]);
  for (size_t i = kFixedFields; i < f.size(); ++i) error.add_context(f[i]);
  return error;
}

// When a system call made by KJ fails, only the exception's text carries the errno.
std::string hint_of_limit(const std::string& message) {
  for (const int number : {EMFILE, ENFILE, ENOMEM, EFBIG, ENOSPC}) {
    if (message.find(std::strerror(number)) != message.npos) return limit_hint(number);
  }
  return "";
}

}  // namespace

Error to_error(const kj::Exception& exception) {
  const std::string_view text(exception.getDescription().cStr());
  if (std::optional<Error> packed = unpack(text)) return *packed;
  const std::string message(text);
  switch (exception.getType()) {
    case kj::Exception::Type::DISCONNECTED:
      return Error(ErrorKind::kUnavailable, cat("connection: lost: ", message), {},
                   "the peer ended or the network failed: reconnect and retry");
    case kj::Exception::Type::OVERLOADED:
      return Error(ErrorKind::kOverloaded, message, {}, hint_of_limit(message));
    case kj::Exception::Type::UNIMPLEMENTED:
      return Error(ErrorKind::kUnimplemented, message, {},
                   "the peer may run another version of Gangway");
    case kj::Exception::Type::FAILED: break;
  }
  return Error(ErrorKind::kBug, message,
               {.at = cat(exception.getFile(), ":", exception.getLine())});
}

kj::Exception to_kj(const Error& error) {
  kj::Exception::Type type = kj::Exception::Type::FAILED;
  if (error.kind() == ErrorKind::kUnavailable) type = kj::Exception::Type::DISCONNECTED;
  if (error.kind() == ErrorKind::kOverloaded) type = kj::Exception::Type::OVERLOADED;
  if (error.kind() == ErrorKind::kUnimplemented) type = kj::Exception::Type::UNIMPLEMENTED;
  const Where& where = error.where();
  std::string text = cat(error.what(), "\n", kStart, to_string(error.kind()));
  const std::string* fields[] = {&error.message(), &where.program, &where.node,  &where.host,
                                 &where.device,    &where.at,      &error.hint()};
  for (const std::string* field : fields) text += kField + clean(*field);
  for (const std::string& line : error.context()) text += kField + clean(line);
  text += kFrame;
  return kj::Exception(type, __FILE__, __LINE__, kj::heapString(text.data(), text.size()));
}

bool is_lost_connection(const kj::Exception& exception) {
  return exception.getType() == kj::Exception::Type::DISCONNECTED &&
         !unpack(exception.getDescription().cStr());
}

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const kj::Exception& exception) {
    return to_error(exception);
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kOverloaded, "out of memory", {},
                 "end other programs, raise its limit (ulimit -v), or ask for less");
  } catch (const std::exception& exception) {
    return Error(ErrorKind::kBug, cat("unexpected exception: ", exception.what()));
  } catch (...) {
    return Error(ErrorKind::kBug, "unexpected exception of an unknown type");
  }
}

}  // namespace gangway
