// DirectSender: sends frames of a stream from any thread, without its reactor.
//
// Why: to wake a reactor takes longer than to write a frame. A stream that has a connection and
// nothing to write lends the connection; whoever sends meanwhile writes to the socket itself. The
// reactor takes back what it has lent before it does anything else with the stream, and learns
// then which frames were sent: it keeps them until they are acknowledged, as its own. What the
// system did not take whole, it writes on.
//
// Invariants: frames have the sequences in which they were sent, whoever sent them; nobody writes
// while the reactor does. A stream without a socket (a simulation's) lends nothing.
// Threads: send() and is_lent() anywhere; the others on the reactor's.
// Ownership: shared by the stream and by those who send. The socket is the stream's, which takes it
// back before it closes it.
// Errors: an error of the socket is the stream's, which opens another connection for the frames.
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
  // So much is sent on one loan at most: what is not acknowledged is the reactor's to watch.
  static constexpr size_t kFramesMax = 64, kBytesMax = 64 << 10;

  explicit DirectSender(Mailbox& mailbox) : mailbox_(mailbox) {}

  bool is_lent();
  // Sends all of them, or false: nothing is lent, or they are too many.
  bool send(std::span<const Frame> frames);

  struct Loan {
    int socket = -1;
    uint64_t epoch = 0;
    uint64_t sequence = 0;  // Of the last frame that was sent.
    uint64_t acknowledgement = 0;
  };
  void lend(const Loan& loan);

  struct Returned {
    std::vector<Frame> frames;  // That were sent.
    size_t writes = 0, bytes = 0;
    std::vector<std::byte> unwritten;  // The end of the last one, or of all.
  };
  // Once it has returned, nobody sends.
  Returned take_back();

  // Called on the reactor when something was not written whole.
  std::function<void()> on_unwritten;

 private:
  void write(std::span<const Frame> frames);

  Mailbox& mailbox_;
  std::mutex mutex_;
  Loan loan_;  // What follows is guarded by it, too.
  Returned sent_;
};

}  // namespace gangway
