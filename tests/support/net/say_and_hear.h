// Text over a connection, for tests of servers.
//
// Threads: the reactor's thread. Both suspend.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/fibers/await.h"
#include "runtime/net/transport.h"

namespace gangway {

inline void say(Stream& stream, const std::string& text) {
  await(kj::evalNow([&] { return stream->write(text.data(), text.size()); }));
}
// Reads until the other side ends the connection. Throws if it broke.
inline void hear_whole(Stream& stream, std::string& all) {
  std::vector<char> part(1 << 16);
  while (const size_t got = await(stream->tryRead(part.data(), 1, part.size())))
    all.append(part.data(), got);
}
inline std::string hear_whole(Stream& stream) {
  std::string all;
  hear_whole(stream, all);
  return all;
}
// The text that came before the connection ended or broke.
inline std::string hear(Stream& stream) {
  std::string all;
  try {
    hear_whole(stream, all);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable) << error.message();
  }
  return all;
}

}  // namespace gangway
