// HostExchange: all hosts learn the combination of one word of each, or of one small bucket of
// each. It is a state machine that one member of each host advances.
//
// Threads: that member's device.
// Ownership: memory and edges are the plan's.
// Cost: exchange_schedule() (host_schedule.h), one message a step.
#pragma once

#include <vector>

#include "executor/collectives/hosts/host_edge.h"
#include "executor/collectives/hosts/rendezvous.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

class HostExchange {
 public:
  // `edges`: at least those to all peers of the schedule.
  HostExchange(const HostSchedule& schedule, std::vector<HostEdge> edges, const OwnMemory& memory,
               LinkMeter* meter);

  // Without a bucket the words are exchanged. With one, `partial` is the combination of this host's
  // members, and becomes that of all hosts; a poisoned member's is not read.
  void begin(const Agreed& mine, const Bucket* bucket, Reduction reduction, std::byte* partial);
  Progress advance();
  const Agreed& agreed() const { return agreed_; }

 private:
  void send_to(const HostEdge& edge);
  bool receive(const EdgeStep& step);
  void combine(const std::byte* theirs, bool peer_left);
  uint64_t slot(uint64_t area, const EdgeLayout& layout) const {
    return area + static_cast<uint64_t>(layout.small_stride) * (sequence_ & 1);
  }

  const std::vector<HostEdge> edges_;
  std::vector<EdgeStep> steps_;
  const OwnMemory& memory_;
  LinkMeter* const meter_;

  uint64_t sequence_ = 0;
  size_t cursor_ = 0;
  Agreed agreed_;
  const Bucket* bucket_ = nullptr;
  Reduction reduction_ = Reduction::kSum;
  std::byte* partial_ = nullptr;
};

}  // namespace gangway
