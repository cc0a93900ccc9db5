// Any bytes on a connection of frames must be taken as frames or end the stream as bad bytes, and
// do nothing worse.
#include <chrono>

#include "runtime/fibers/await.h"
#include "runtime/net/frames.h"

namespace {

using namespace gangway;

// Reads and drops all bytes, so that no writer waits for the pipe.
void drain(kj::AsyncIoStream& stream) {
  kj::byte bytes[4096];
  try {
    while (await(stream.tryRead(bytes, 1, sizeof bytes)) > 0) {
    }
  } catch (const Error&) {  // The stream ended.
  }
}

void write_all(kj::AsyncIoStream& stream, kj::ArrayPtr<const kj::byte> bytes) {
  try {
    await(stream.write(bytes.begin(), bytes.size()));
  } catch (const Error&) {  // Refused half-way.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    kj::TwoWayPipe pipe = kj::newTwoWayPipe();
    FrameStream frames(*reactor, {.name = "fuzz", .frame_bytes_max = 4096, .reconnect_ms = 1000});
    frames.start([](capnp::MessageReader& message) {
      if (message.getRoot<capnp::AnyPointer>().targetSize().wordCount > 8 * 4096)
        __builtin_trap();  // Past the reader's limit.
    });
    frames.attach(kj::mv(pipe.ends[0]));
    Fiber reader = reactor->spawn("reader", [&] { drain(*pipe.ends[1]); });
    write_all(*pipe.ends[1], kj::arrayPtr(data, size));
    reactor->clock().sleep_for(std::chrono::milliseconds(1));
    pipe.ends[1]->shutdownWrite();
    reactor->clock().sleep_for(std::chrono::seconds(2));
    if (!frames.has_ended()) __builtin_trap();
    const ErrorKind kind = frames.closed().result().error().kind();
    if (kind != ErrorKind::kInvalid && kind != ErrorKind::kUnavailable) __builtin_trap();
    reader.join();
  });
  return 0;
}
