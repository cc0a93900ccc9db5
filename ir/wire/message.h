// Cap'n Proto messages to bytes and back, with errors as ours. For the .cc files of this room and
// of those that implement its interfaces.
//
// Threads: pure functions.
// Errors: read_message() throws kInvalid for malformed bytes; the traversal limit is a small
// multiple of what came, so that a short message can't cost much.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {

// A size in the type that lists of messages count with.
inline uint32_t list_size(size_t size) { return static_cast<uint32_t>(size); }

// Sets each element of a list of as many items.
template <class List, class Items>
void fill_list(List list, const Items& items) {
  for (uint32_t i = 0; i < list.size(); ++i) list.set(i, items[i]);
}

inline std::vector<std::byte> to_bytes(capnp::MessageBuilder& message) {
  const auto segments = message.getSegmentsForOutput();
  std::vector<std::byte> bytes(capnp::computeSerializedSizeInWords(segments) * sizeof(capnp::word));
  kj::ArrayOutputStream out(kj::arrayPtr(reinterpret_cast<kj::byte*>(bytes.data()), bytes.size()));
  capnp::writeMessage(out, segments);
  return bytes;
}

// read(capnp::MessageReader&) on the bytes, which need no alignment.
template <class Read>
auto read_message(const char* subject, std::span<const std::byte> bytes, Read&& read) {
  GW_REQUIRE(bytes.size() % sizeof(capnp::word) == 0 && !bytes.empty(), subject,
             ": not a message: ", bytes.size(), " bytes");
  auto words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), bytes.data(), bytes.size());
  try {
    capnp::FlatArrayMessageReader message(
        words, {.traversalLimitInWords = words.size() * 4 + 1024, .nestingLimit = 32});
    return read(static_cast<capnp::MessageReader&>(message));
  } catch (const kj::Exception& exception) {
    throw Error(ErrorKind::kInvalid,
                cat(subject, ": malformed: ", exception.getDescription().cStr()));
  }
}

}  // namespace gangway
