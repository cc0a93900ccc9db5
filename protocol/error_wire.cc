#include "protocol/error_wire.h"

namespace gangway {
namespace {

// By number on the wire: append only.
constexpr ErrorKind kKinds[] = {
    ErrorKind::kInvalid, ErrorKind::kUnavailable,   ErrorKind::kOverloaded, ErrorKind::kCancelled,
    ErrorKind::kLost,    ErrorKind::kUnimplemented, ErrorKind::kBug};
constexpr uint8_t kKindCount = sizeof(kKinds) / sizeof(kKinds[0]);

uint8_t number_of(ErrorKind kind) {
  for (uint8_t i = 0; i < kKindCount; ++i) {
    if (kKinds[i] == kind) return i;
  }
  return kKindCount - 1;
}

}  // namespace

void write_error(wire::Error::Builder to, const Error& error) {
  to.setKind(number_of(error.kind()));
  to.setMessage(error.message());
  to.setProgram(error.where().program);
  to.setNode(error.where().node);
  to.setHost(error.where().host);
  to.setDevice(error.where().device);
  to.setAt(error.where().at);
  to.setHint(error.hint());
  auto context = to.initContext(static_cast<uint32_t>(error.context().size()));
  for (uint32_t i = 0; i < context.size(); ++i) context.set(i, error.context()[i]);
}

Error read_error(wire::Error::Reader from) {
  const ErrorKind kind = from.getKind() < kKindCount ? kKinds[from.getKind()] : ErrorKind::kBug;
  Error error(kind, from.getMessage().cStr(),
              {.program = from.getProgram().cStr(),
               .node = from.getNode().cStr(),
               .host = from.getHost().cStr(),
               .device = from.getDevice().cStr(),
               .at = from.getAt().cStr()},
              from.getHint().cStr());
  for (auto line : from.getContext()) error.add_context(line.cStr());
  return error;
}

}  // namespace gangway
