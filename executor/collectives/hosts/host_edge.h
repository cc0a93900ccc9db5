// HostEdge: the connection between one member of a group on this host and one on another host,
// which work on the same channel of the group's values.
//
// Each of the two has an area in its own memory in which the other writes:
//
//   small, by parity | { flag least most } partial     twice; channel 0 only
//   partials         | flag | a part of a piece        of a large bucket
//   results          | flag | a part of a piece
//
// A flag holds 2 n + poisoned, where n is the number of the message; it only grows.
//
// Threads: the member's device thread. Ownership: memory is the plan's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "executor/collectives/hosts/bucket.h"
#include "executor/collectives/hosts/host_schedule.h"
#include "executor/links/host_link.h"
#include "ir/plan/islands.h"
#include "runtime/base/error.h"

namespace gangway {

// Offsets of messages in an area.
struct EdgeLayout {
  int64_t small_stride = 0;
  int64_t partials = 0, results = 0;
  int64_t bytes = 0;
};

struct HostEdge {
  uint32_t host = 0;  // Index in the group.
  PeerMemory* peer = nullptr;
  uint32_t device = 0;  // Device of the peer.
  LinkClass link = LinkClass::kHost;
  uint64_t there = 0, here = 0;  // Offsets at which the two areas begin.
  EdgeLayout to, from;
};

// A step of a schedule, and the edge to its peer.
struct EdgeStep {
  HostStep what;
  size_t edge = 0;  // kFinish: none.
};
inline std::vector<EdgeStep> steps_over(const std::vector<HostEdge>& edges,
                                        const HostSchedule& schedule) {
  std::vector<EdgeStep> steps;
  for (const HostStep& step : schedule.steps) {
    const auto edge = std::ranges::find(edges, step.peer, &HostEdge::host);
    GW_ASSERT(edge != edges.end() || step.kind == HostStep::Kind::kFinish,
              "a step to a host without a way");
    steps.push_back({step, static_cast<size_t>(edge - edges.begin())});
  }
  return steps;
}

inline constexpr int64_t kMessageHead = kLineBytes;

// A message that may have arrived.
struct Arrived {
  bool here = false;
  bool poisoned = false;
};

// The flag of message number n, and the meaning of a flag.
inline uint64_t message_flag(uint64_t number, bool poisoned) {
  return 2 * number + (poisoned ? 1 : 0);
}
inline Arrived arrived(const std::atomic<uint64_t>& word, uint64_t number) {
  const uint64_t flag = word.load(std::memory_order_acquire);
  return {flag >= message_flag(number, false), (flag & 1) != 0};
}

// The payload was written to edge.peer->at() before; a poisoned message has none.
inline void send(const HostEdge& edge, uint64_t at, const LinkPayload& payload, uint64_t number,
                 bool poisoned) {
  const uint64_t flag = message_flag(number, poisoned);
  if (payload.bytes == 0) {
    edge.peer->signal(at, flag);
  } else {
    edge.peer->put(payload, at, flag);
  }
  edge.peer->ring(edge.device);
}

}  // namespace gangway
