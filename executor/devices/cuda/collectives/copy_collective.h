// CopyCollective: the collectives of devices on one card, whose kernels read one another's memory.
//
//   copy in -> record -> | meet on the host | -> wait for all records -> reduce, or take, my part
//
// All of this is on the communication streams and overlaps with compute. Before ragged rows the
// members exchange their sizes (ragged_sizes.h).
//
// NCCL refuses two ranks on one card, so virtual devices of one card use this class. The host
// threads meet only to learn that all have enqueued; none of them waits for the card. A poisoned
// member meets too, and then no member computes.
//
// Invariant: staging has two halves, by the parity of the collective. A half is written again two
// collectives later; in between every member's stream waited for every record, and records come
// after the reads before them. Events have two copies by parity for the same reason. Parts to be
// reduced are packed when they are copied in, so that one launch reduces a part. Arithmetic: the
// tree over members of collectives/hosts/rank_tree.h.
// Threads: the device's.
// Ownership: the devices and the rendezvous are the plan's.
// Errors: a call that fails is a failure of the work that is advanced (CardStreams::note()).
// Cost: in an all-reduce, each of n members reads the bucket n times. Otherwise each byte that a
// member gets is read once, or once of each member if it is reduced.
#pragma once

#include <memory>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/collectives/forwarding_collective.h"
#include "executor/devices/cuda/collectives/ragged_sizes.h"
#include "executor/devices/cuda/driver/card_streams.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

class CopyCollective final : public ForwardingCollective {
 public:
  struct Options {
    LinkMeter& meter;       // The device's.
    int64_t bytes_max = 0;  // Limit for a collective.
    CollectiveKinds kinds{};
  };
  CopyCollective(CardStreams& device, std::unique_ptr<Collective> rendezvous, Options options);
  ~CopyCollective() override;

  static int64_t staging_bytes_for(int64_t bytes_max);

  void begin(const CollectiveCall& call, bool poisoned) override;
  void begin_exchange(uint64_t word, bool poisoned) override;
  int64_t staging_bytes() const override { return staging_bytes_for(options_.bytes_max); }
  void use_staging(std::byte* staging) override;
  Progress advance() override;

 private:
  enum class Phase : uint8_t { kExchange, kSizes, kMeet };
  // State of a member that its peers may read once they have met.
  struct Part {
    std::byte* staging[2] = {};
    cuda::EventHandle events[2];
    bool recorded[2] = {};
    std::vector<int32_t> sizes[2];  // Sizes of ragged rows.
  };

  void begin_rendezvous(bool poisoned);
  bool lay_in(std::byte* part);
  bool lay_parts_in(std::byte* part);
  void finish(const std::vector<const Part*>& parts);
  void reduce(const std::vector<const Part*>& parts);
  void take(const std::vector<const Part*>& parts);

  CardStreams& device_;
  const Options options_;
  std::unique_ptr<RaggedSizes> sizes_;
  Part part_;
  uint64_t sequence_ = 0;
  Phase phase_ = Phase::kExchange;
};

}  // namespace gangway
