// Any bytes are a frame or an error; a frame travels to bytes that give the same frame.
#include "protocol/frames.h"

#include <capnp/message.h>

#include <cstring>

namespace {

gangway::Frame frame_of(const uint8_t* data, size_t size) {
  auto words = kj::heapArray<capnp::word>(size / sizeof(capnp::word));
  if (words.size() > 0) std::memcpy(words.begin(), data, words.asBytes().size());
  return std::make_shared<const kj::Array<capnp::word>>(kj::mv(words));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gangway;
  Frame frame;
  try {
    frame = encode(decode(frame_of(data, size)));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) __builtin_trap();
    return 0;
  }
  const Frame again = encode(decode(frame));
  if (again->asBytes() != frame->asBytes()) __builtin_trap();
  return 0;
}
