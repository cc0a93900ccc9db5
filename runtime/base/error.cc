#include "runtime/base/error.h"

#include <cstdio>
#include <utility>

#include "runtime/base/printable.h"

namespace gangway {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalid: return "invalid";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kOverloaded: return "overloaded";
    case ErrorKind::kOverflow: return "overflow";
    case ErrorKind::kCancelled: return "cancelled";
    case ErrorKind::kLost: return "lost";
    case ErrorKind::kUnimplemented: return "unimplemented";
    case ErrorKind::kBug: return "bug";
  }
  return "bug";
}

Error::Error(ErrorKind kind, std::string message, Where where, std::string hint)
    : kind_(kind), message_(std::move(message)), where_(std::move(where)), hint_(std::move(hint)) {
  render();
}

Error& Error::add_context(std::string line) {
  context_.push_back(std::move(line));
  render();
  return *this;
}

Error& Error::add_where(const Where& where) {
  auto fill = [](std::string& mine, const std::string& theirs) {
    if (mine.empty()) mine = theirs;
  };
  fill(where_.program, where.program);
  fill(where_.node, where.node);
  fill(where_.host, where.host);
  fill(where_.device, where.device);
  fill(where_.at, where.at);
  render();
  return *this;
}

Error& Error::set_hint(std::string hint) {
  hint_ = std::move(hint);
  render();
  return *this;
}

void Error::render() {
  text_ = message_;
  std::string place;
  auto part = [&place](const char* name, const std::string& value) {
    if (!value.empty()) place += cat(place.empty() ? "" : ", ", name, " ", value);
  };
  part("program", where_.program);
  part("node", where_.node);
  part("host", where_.host);
  part("device", where_.device);
  if (!place.empty()) text_ += "\n  in " + place;
  for (const std::string& line : context_) text_ += "\n  in " + line;
  if (!where_.at.empty()) text_ += "\n  at " + where_.at;
  if (!hint_.empty()) text_ += "\n  hint: " + hint_;
}

int report(const Error& error) {
  std::fprintf(stderr, "error (%s): %s\n", to_string(error.kind()),
               printable_lines(error.what()).c_str());
  return error.kind() == ErrorKind::kInvalid ? 2 : 1;
}

namespace internal {

void fail(ErrorKind kind, const char* expression, Loc loc, std::string message) {
  std::string text = cat("broken promise: ", expression);
  if (!message.empty()) text += ": " + message;
  throw Error(kind, text, {.at = to_string(loc)}, "this is a bug in Gangway: please report it");
}

}  // namespace internal
}  // namespace gangway
