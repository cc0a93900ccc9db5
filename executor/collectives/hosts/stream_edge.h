// StreamEdge: messages of at most `piece_bytes` between a member of a group on this host and one on
// another host, both ways, which work on the same lane. Tensors of any size go over it piece by
// piece.
//
// Each of the two has an area in its own memory in which the other writes:
//
//   | sent | read | message | message |
//
//   sent      how many messages the other has sent; it writes them to the two places in turn
//   read      how many of mine the other has read: a place is written again when it was
//
// Only what must go one way has places for messages; `read` goes the other way.
//
// Threads: the member's device. Ownership: memory is the plan's. Cost: a message is one put() and
// one ring, and a signal and a ring back.
#pragma once

#include <cstdint>

#include "executor/collectives/hosts/bucket.h"
#include "executor/links/host_link.h"
#include "ir/plan/islands.h"

namespace gangway {

class StreamEdge {
 public:
  static int64_t area_bytes(bool has_messages, int64_t piece_bytes) {
    return 2 * kLineBytes + (has_messages ? 2 * piece_bytes : 0);
  }

  struct Ends {
    uint32_t host = 0;  // Of the group's.
    LinkClass link = LinkClass::kHost;
    PeerMemory* peer = nullptr;
    uint32_t device = 0;  // Of the peer.
    const OwnMemory* memory = nullptr;
    uint64_t there = 0, here = 0;  // Where the two areas begin.
    int64_t piece_bytes = 0;
  };
  explicit StreamEdge(const Ends& ends) : ends_(ends) {}

  uint32_t host() const { return ends_.host; }
  LinkClass link() const { return ends_.link; }
  int64_t piece_bytes() const { return ends_.piece_bytes; }

  // Whether the place of the next message may be written.
  bool has_room() const { return sent_ - word(kReadAt) < 2; }
  std::byte* room() const { return ends_.peer->at(place(ends_.there, sent_)); }
  // What was written there.
  void send(int64_t bytes) {
    const uint64_t at = place(ends_.there, sent_++);
    ends_.peer->put({at, bytes}, ends_.there, sent_);
    ends_.peer->ring(ends_.device);
  }

  // The oldest message that was not read; null: none came.
  const std::byte* message() const {
    return word(0) > read_ ? ends_.memory->at(place(ends_.here, read_)) : nullptr;
  }
  // It was read.
  void release() {
    ends_.peer->signal(ends_.there + kReadAt, ++read_);
    ends_.peer->ring(ends_.device);
  }

 private:
  static constexpr uint64_t kReadAt = kLineBytes;

  uint64_t word(uint64_t at) const {
    return ends_.memory->word(ends_.here + at).load(std::memory_order_acquire);
  }
  uint64_t place(uint64_t area, uint64_t number) const {
    return area + 2 * kLineBytes + (number & 1) * static_cast<uint64_t>(ends_.piece_bytes);
  }

  Ends ends_;
  uint64_t sent_ = 0, read_ = 0;
};

// Over which a member reaches the hosts that it speaks with.
using StreamEdges = std::vector<StreamEdge>;

}  // namespace gangway
