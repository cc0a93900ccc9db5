// FrameLink: sends and receives frames over one connection, each after a prefix of its own.
//
//   prefix:  u32 words | u16 magic "GW" | u16 kind | u64 epoch | u64 sequence | u64 acknowledgement
//   frame:   prefix | one Cap'n Proto message in stream framing, of `words` words
//
// Only kind 0 has a message. FrameStream (frames.h) gives the kinds and numbers their meaning, and
// goes on over another link when the connection is lost.
//
// Threads: the reactor's thread; one fiber reads, one writes. read() and write() suspend.
// Ownership: the bytes that read() returns are valid until the next read(). The counts outlive the
// link.
// Errors: kUnavailable when the connection has ended or was cut; read() throws kInvalid for bytes
// that are no frame and for a frame beyond the limit, before anything is allocated for it.
#pragma once

#include <capnp/common.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fibers/wait_queue.h"
#include "runtime/net/frame.h"
#include "runtime/net/frame_counts.h"
#include "runtime/net/transport.h"

namespace gangway::internal {

enum class FrameKind : uint16_t {
  kFrame = 0,
  kAcknowledgement = 1,
  kQuestion = 2,  // Asks for an acknowledgement.
  kGoodbye = 3,   // The sender has ended the stream.
};

inline constexpr uint16_t kFrameMagic = 0x5747;  // "GW"

struct FramePrefix {
  uint32_t words = 0;  // Size of the message that follows.
  uint16_t magic = kFrameMagic;
  uint16_t kind = 0;
  uint64_t epoch = 0;            // Identifies the stream.
  uint64_t sequence = 0;         // This frame's; for other kinds, the sender's last frame's.
  uint64_t acknowledgement = 0;  // The last frame that the sender has received.
};
static_assert(sizeof(FramePrefix) == 4 * sizeof(capnp::word));

// The frames of one write.
class FrameBatch {
 public:
  void clear();
  bool empty() const { return count_ == 0; }
  bool full() const { return count_ == kFramesMax; }
  size_t frames() const { return count_; }
  size_t bytes() const { return bytes_; }
  // Adds a prefix, and its frame unless that is null.
  void add(const FramePrefix& prefix, Frame frame);
  kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces() const {
    return kj::arrayPtr(pieces_.data(), pieces_.size());
  }

 private:
  static constexpr size_t kFramesMax = 64;
  std::array<FramePrefix, kFramesMax> prefixes_;
  std::array<Frame, kFramesMax> frames_;
  std::vector<kj::ArrayPtr<const kj::byte>> pieces_;
  size_t count_ = 0, bytes_ = 0;
};

struct FrameLinkOptions {
  std::string name;  // The peer's name, for errors.
  size_t frame_bytes_max;
};

class FrameLink {
 public:
  FrameLink(Stream stream, FrameLinkOptions options, const std::optional<FrameCounts>& counts);

  struct Arrived {
    FramePrefix prefix;
    kj::ArrayPtr<const capnp::word> message;
  };
  // Suspends until a frame has arrived.
  Arrived read();
  // Suspends until the system has taken the bytes.
  void write(const FrameBatch& batch);
  // Like write(), for the bytes that follow what was written last.
  void write_rest(std::vector<std::byte> bytes);
  // The connection's socket; -1 if it has none.
  int socket() const;
  // Ends the connection: the peer sees it, and both calls above end.
  void cut();

 private:
  size_t until_cut(kj::Promise<size_t> io, WaitQueue& changed);
  std::optional<Arrived> next();
  void read_some();
  size_t whole_words() const;
  void make_room(size_t words);

  Stream stream_;
  FrameLinkOptions options_;
  const std::optional<FrameCounts>& counts_;
  bool cut_ = false;
  WaitQueue reading_, writing_;
  // Received words. The words in [begin_, end_bytes_) were not handed out yet; the last may be
  // incomplete.
  kj::Array<capnp::word> input_;
  size_t begin_ = 0;      // In words, since frames are aligned.
  size_t end_bytes_ = 0;  // In bytes.
};

}  // namespace gangway::internal
