#include "protocol/error_wire.h"

#include <algorithm>
#include <iterator>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"

namespace gangway {
namespace {

// The index of a kind is its number on the wire: append only.
constexpr ErrorKind kKinds[] = {
    ErrorKind::kInvalid, ErrorKind::kUnavailable,   ErrorKind::kOverloaded, ErrorKind::kCancelled,
    ErrorKind::kLost,    ErrorKind::kUnimplemented, ErrorKind::kBug,        ErrorKind::kOverflow};
constexpr uint8_t kKindCount = sizeof(kKinds) / sizeof(kKinds[0]);

uint8_t number_of(ErrorKind kind) {
  const auto* at = std::ranges::find(kKinds, kind);
  GW_ASSERT(at != std::end(kKinds), to_string(kind));
  return static_cast<uint8_t>(at - kKinds);
}

}  // namespace

void write_error(wire::Error::Builder to, const Error& error) {
  to.setKind(number_of(error.kind()));
  to.setMessage(cut(error.message(), kTextBytesMax));
  to.setProgram(cut(error.where().program, kTextBytesMax));
  to.setNode(cut(error.where().node, kTextBytesMax));
  to.setHost(cut(error.where().host, kTextBytesMax));
  to.setDevice(cut(error.where().device, kTextBytesMax));
  to.setAt(cut(error.where().at, kTextBytesMax));
  to.setHint(cut(error.hint(), kTextBytesMax));
  const size_t lines = std::min(error.context().size(), kContextLinesMax);
  auto context = to.initContext(static_cast<uint32_t>(lines));
  for (uint32_t i = 0; i < lines; ++i) context.set(i, cut(error.context()[i], kTextBytesMax));
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
