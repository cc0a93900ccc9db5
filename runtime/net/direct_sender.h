// DirectSender: sends frames of a stream from any thread, without its reactor.
//
// Why: waking a reactor takes longer than writing a frame. A stream that has a connection and
// nothing to write lends the connection; a thread that sends meanwhile writes to the socket itself.
// The reactor takes the loan back before it does anything else with the stream, and then learns
// which frames were sent. It keeps them until they are acknowledged, like its own, and writes the
// bytes that the system did not take.
//
// Invariants: frames are numbered in the order in which they were sent, by whatever thread; no
// other thread writes while the reactor does. A stream without a socket of its own (a simulation's,
// or one under TLS, where only OpenSSL may write) lends nothing.
// Threads: send() and is_lent() anywhere; the others on the reactor's.
// Ownership: shared by the stream and the senders. The stream owns the socket, and takes the loan
// back before it closes the socket.
// Errors: none. On a socket error the stream opens another connection and sends the frames there.
// Cost: send(): a mutex, uncontended but for other threads that send, and one call of the system.
//
// Example (`direct` was given to FrameStream::lend_to()):
//   if (!direct->send({&frame, 1})) mailbox.post([&stream, frame] { stream.send(frame); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/fibers/mailbox.h"
#include "runtime/net/frame.h"

namespace gangway {

class DirectSender : public std::enable_shared_from_this<DirectSender> {
 public:
  // Limits of one loan: only the reactor watches for acknowledgements that do not come.
  static constexpr size_t kFramesMax = 64, kBytesMax = 64 << 10;

  explicit DirectSender(Mailbox& mailbox) : mailbox_(mailbox) {}

  bool is_lent();
  // Sends all frames and returns true, or sends none and returns false: nothing is lent, or there
  // are too many.
  bool send(std::span<const Frame> frames);

  struct Loan {
    int socket = -1;
    uint64_t epoch = 0;
    uint64_t sequence = 0;  // Sequence of the last frame that was sent.
    uint64_t acknowledgement = 0;
  };
  void lend(const Loan& loan);

  struct Returned {
    std::vector<Frame> frames;  // Frames that were sent.
    size_t writes = 0, bytes = 0;
    std::vector<std::byte> unwritten;  // The bytes that the system did not take.
  };
  // Ends the loan: once it has returned, no other thread sends.
  Returned take_back();

  // Called on the reactor's thread when the system did not take all bytes.
  std::function<void()> on_unwritten;

 private:
  void write(std::span<const Frame> frames);

  Mailbox& mailbox_;
  std::mutex mutex_;
  Loan loan_;  // mutex_ guards it and the next member.
  Returned sent_;
};

}  // namespace gangway
