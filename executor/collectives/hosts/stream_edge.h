// StreamEdge: messages of at most `piece_bytes`, both ways, between a member of a group on this
// host and the member on another host that works on the same channel. Tensors of any size go over
// it piece by piece; a message may be empty, and says whether its sender knows of a poisoned
// member.
//
// Each of the two has an area in its own memory in which the other writes:
//
//   | read | message | message |
//
//   read      how many of my messages the other has read; a slot is written again only after that
//   message   | flag | read | payload, up to 48 bytes | or payload on the lines behind the first |
//
// A flag is that of host_edge.h. Messages use the two slots in turn. An edge that is used only one
// way has slots for messages in that direction; `read` goes the other way.
//
// A sender that waits for room is woken by each release, if the peer's memory does not keep order
// among areas. The sender may not know that a message was read although it knows that the
// collective of that message has ended: it learned the end from other hosts, and `read` lies in an
// area whose writes may come later than all of theirs.
//
// Where order is kept, the release of the last message that goes one way in a collective does not
// ring. Each collective that uses the edge gives every host news of all others, so at the beginning
// of one, every message has been read except those of the last collective. The first message thus
// waits only for a message that was not the last. The second may wait for the last one; but then
// the release of the first message, which is read later and is not the last, rings.
//
// Threads: the member's device. Ownership: memory is the plan's. Cost: a message is one put() and
// one ring, and a signal back, with a ring if it was not the last or order is not kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "executor/collectives/hosts/host_edge.h"
#include "executor/links/host_link.h"
#include "ir/plan/islands.h"

namespace gangway {

class StreamEdge {
 public:
  static int64_t area_bytes(bool has_messages, int64_t piece_bytes) {
    return kLineBytes + (has_messages ? 2 * (kMessageHead + piece_bytes) : 0);
  }

  struct Ends {
    uint32_t host = 0;  // Index in the group.
    LinkClass link = LinkClass::kHost;
    PeerMemory* peer = nullptr;
    uint32_t device = 0;  // Device of the peer.
    const OwnMemory* memory = nullptr;
    uint64_t there = 0, here = 0;  // Offsets at which the two areas begin.
    int64_t piece_bytes = 0;
  };
  explicit StreamEdge(const Ends& ends)
      : ends_(ends),
        rings_always_(!ends.peer->keeps_order()),
        to_(ends.peer->at(ends.there)),
        from_(ends.memory->at(ends.here)) {}

  uint32_t host() const { return ends_.host; }
  LinkClass link() const { return ends_.link; }
  int64_t piece_bytes() const { return ends_.piece_bytes; }

  // Whether the slot of the next message is free.
  bool has_room() {
    if (sent_ - read_there_ < 2) return true;
    read_there_ = word(0).load(std::memory_order_acquire);
    return sent_ - read_there_ < 2;
  }
  // Where to write a message of `bytes` bytes.
  std::byte* room(int64_t bytes) const { return to_ + place(sent_) + payload_at(bytes); }
  // Sends the message that was written there.
  void send(int64_t bytes, bool poisoned) {
    const uint64_t at = place(sent_++);
    std::memcpy(to_ + at + kReadAt, &read_, sizeof read_);
    const int64_t behind_flag = static_cast<int64_t>(payload_at(bytes) - kReadAt) + bytes;
    ends_.peer->put({ends_.there + at + kReadAt, behind_flag}, ends_.there + at,
                    message_flag(sent_, poisoned));
    ends_.peer->ring(ends_.device);
  }

  // The oldest unread message, and, if it has arrived, its payload of `bytes` bytes.
  Arrived message() const { return arrived(word(place(read_)), read_ + 1); }
  const std::byte* payload(int64_t bytes) const { return from_ + place(read_) + payload_at(bytes); }
  // Gives the oldest message's slot back. `last`: no other message comes in this collective.
  void release(bool last) {
    uint64_t read_there = 0;
    std::memcpy(&read_there, from_ + place(read_) + kReadAt, sizeof read_there);
    read_there_ = std::max(read_there_, read_there);
    ends_.peer->signal(ends_.there, ++read_);
    if (!last || rings_always_) ends_.peer->ring(ends_.device);
  }

 private:
  static constexpr uint64_t kReadAt = sizeof(uint64_t), kPayloadAt = 2 * sizeof(uint64_t);

  // A small message is in the line of its flag.
  static uint64_t payload_at(int64_t bytes) {
    return bytes <= kMessageHead - static_cast<int64_t>(kPayloadAt)
               ? kPayloadAt
               : static_cast<uint64_t>(kMessageHead);
  }
  // Offset in an area.
  uint64_t place(uint64_t number) const {
    return kLineBytes + (number & 1) * static_cast<uint64_t>(kMessageHead + ends_.piece_bytes);
  }
  const std::atomic<uint64_t>& word(uint64_t at) const {
    return *reinterpret_cast<const std::atomic<uint64_t>*>(from_ + at);
  }

  Ends ends_;
  bool rings_always_;
  std::byte* to_;  // The two areas.
  const std::byte* from_;
  uint64_t sent_ = 0, read_ = 0;
  uint64_t read_there_ = 0;  // Number of my messages that the peer has read, as far as I know.
};

// The edges over which a member reaches the hosts that it exchanges with.
using StreamEdges = std::vector<StreamEdge>;

}  // namespace gangway
