// HostSchedule: the steps of one host in the combination of all hosts' partials, in the tree of
// rank_tree.h over the hosts.
//
// A value is cut into chunks. In a block of hosts of the tree, holder i has the combination of the
// block's hosts for its part of the chunks. Two equal blocks are joined by halving: holder i of one
// and holder i of the other exchange half of their part each. If the blocks differ, the right one
// sends all it has to the left one. When the whole is joined, the parts go back the same ways.
//
//   reduce(): for large values. 2^k hosts hold one chunk each: k steps there and k back, and every
//             host sends and receives 2 (1 - 1/hosts) of the value. For other numbers there are
//             about log2(hosts) holders, so that nobody has more than that many peers.
//   exchange(): for small values. 2^k hosts: k steps, in each of which two hosts exchange all that
//             they have. Other numbers: up the tree to host 0, and down.
//
// Invariants
//  - A host exchanges messages with at most 2 ceil(log2(hosts)) others.
//  - In one schedule two hosts send at most one kSend and one kSendResult in each direction, and
//    whoever sends to a host also receives from it, later in the same collective or at the same
//    step. When a message comes, the same message of the collective before has therefore been read
//    (kSend, kSendResult in reduce()), or that of two collectives before (exchange()).
//
// Threads: pure.
// Cost: O(log hosts) steps.
#pragma once

#include <cstdint>
#include <vector>

namespace gangway {

struct HostStep {
  enum class Kind : uint8_t {
    kSend,        // This host sends its partial of these chunks.
    kCombine,     // It combines the peer's partial with its own.
    kFinish,      // Its partial of these chunks is the result.
    kSendResult,  // It sends the result of these chunks.
    kTake         // It takes the peer's result of these chunks.
  };
  Kind kind = Kind::kSend;
  uint32_t peer = 0;
  uint32_t begin = 0, end = 0;  // Chunks.
  bool peer_left = false;       // kCombine: the peer's partial is the left operand.
};

struct HostSchedule {
  uint32_t chunks = 1;
  std::vector<HostStep> steps;
};

HostSchedule reduce_schedule(uint32_t hosts, uint32_t self);
HostSchedule exchange_schedule(uint32_t hosts, uint32_t self);

}  // namespace gangway
