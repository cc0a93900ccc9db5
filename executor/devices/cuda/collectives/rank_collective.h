// RankCollective: the collectives of several cards, each of which runs several ranks.
//
//   every rank      copy in | meet |                                    | meet | copy the sum out
//   lowest of each card            reduce its card's parts, all-reduce
//                                  of one member a card
//
// This is an all-reduce. In the other kinds the lowest rank of a card does the work of all its
// ranks, from and to their tensors (card_comms.h):
//
//   every rank      | sizes of ragged rows | meet |                              | meet
//   lowest of each card                             messages between cards, copies
//
// NCCL refuses two ranks on one card, so the ranks of a card reduce first, and one of them meets
// the other cards. All operations of a card are on its one communication stream, in the order in
// which its thread enqueues them: the parts before the first rendezvous, the sum between the two,
// the copies of it behind the second. Thus no rank waits on the host for the card, no event is
// needed, and the next collective may use the same staging.
//
// A poisoned rank meets too, and then no rank computes. If the cards' part fails, all ranks learn
// that in the second rendezvous.
//
// Invariant: all ranks of a card are members, so that they begin the same collectives in the same
// order, and no card has two open communicators for one ticket.
// Arithmetic: for a card's ranks, the tree over ranks of collectives/hosts/rank_tree.h, rounded to
// the stored type; then the communicator's.
// Threads: the device's.
// Ownership: the same as in the other collectives; `cards` is its own.
// Errors: failure() of the cards' part, at the rank that has it.
// Cost: two rendezvous, and those of `cards`.
#pragma once

#include <memory>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/collectives/forwarding_collective.h"
#include "executor/devices/cuda/collectives/comm_collective.h"
#include "executor/devices/cuda/collectives/ragged_sizes.h"
#include "executor/devices/cuda/driver/card_streams.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

class RankCollective final : public ForwardingCollective {
 public:
  struct Options {
    LinkMeter& meter;       // The device's.
    int64_t bytes_max = 0;  // Limit for a collective.
    CollectiveKinds kinds{};
  };
  // `cards`: of one member of each card; null: it is another rank of this one.
  RankCollective(CardStreams& device, std::unique_ptr<Collective> rendezvous,
                 std::unique_ptr<CommCollective> cards, Options options);

  static int64_t staging_bytes_for(CollectiveKinds kinds, int64_t bytes_max, uint32_t members);

  void name(std::string_view label) override;
  void begin(const CollectiveCall& call, bool poisoned) override;
  void begin_exchange(uint64_t word, bool poisoned) override;
  int64_t staging_bytes() const override {
    return staging_bytes_for(options_.kinds, options_.bytes_max, size());
  }
  void use_staging(std::byte* staging) override;
  Progress advance() override;
  void raise_abort(uint64_t what) override;
  bool abort_raised(uint64_t what) const override { return rendezvous_->abort_raised(what); }

 private:
  enum class Phase : uint8_t { kExchange, kSizes, kRanks, kCards, kAnswer };
  // State of this rank that the other ranks of the card may read once they have met.
  struct Part {
    const CardStreams* card = nullptr;
    std::byte* staging = nullptr;
    std::byte* sum = nullptr;  // Null: another rank has it.
    uint32_t rank = 0;
    const CollectiveCall* call = nullptr;
  };

  void begin_rendezvous(bool poisoned);
  void find_parts();
  void begin_cards();
  void begin_reduce();
  void begin_move();
  void end_cards();
  void finish();
  void copy_out();

  CardStreams& device_;
  const std::unique_ptr<CommCollective> cards_;
  const Options options_;
  std::unique_ptr<RaggedSizes> sizes_;
  Part part_;
  std::vector<const Part*> parts_;  // Parts of this card's ranks, from the first rendezvous on.
  const Part* first_ = nullptr;     // The one with the sum.
  Phase phase_ = Phase::kExchange;
  std::vector<CollectiveTensor> sums_;
};

}  // namespace gangway
