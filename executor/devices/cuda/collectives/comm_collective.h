// CommCollective: the collectives of devices on cards of their own, through the driver's
// communicators (NCCL).
//
//   meet on the host -> communication stream: wait for compute -> collective -> record
//
// The compute stream runs meanwhile: it waits for the record before the step that needs the result.
//
// In the rendezvous the members learn whether one of them is poisoned. If so no member launches, so
// no member waits inside a communicator for one that does not come. Members enqueue in ticket
// order, and all communicators of a device share one stream, so that no two of them can wait for
// one another.
//
// Each member also gives the number of its communicator of the group in the rendezvous
// (comm_book.h). If these differ, the members create a new one before they launch: rank 0 sends its
// id in words of the rendezvous. This is done in the first collective of a group, and in the first
// after a communicator broke.
//
// A communicator gathers and scatters whole parts that are contiguous. Other parts go through
// staging (card_comms.h): they are packed before, or unpacked afterwards. Before ragged rows the
// members exchange their sizes (ragged_sizes.h).
//
// A card that runs several ranks is one member, and does the collective for all of them
// (begin_ranks(), called by RankCollective).
//
// Threads: the device's.
// Ownership: the device and the rendezvous are the plan's; the communicator is the device's.
// Errors: failure(), with the name of the collective; a later failure is one of the next mark of
// the work that launched it.
// Bytes are counted as if the members formed a ring in rank order: a member of N sends 2 B (N - 1)
// / N to the next one, whatever NCCL does. In the other kinds a member counts the bytes that it
// must send or pass on: card_comms.h.
// Cost: NCCL's, and a rendezvous (about 1 us).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/collectives/collective_call.h"
#include "executor/collectives/forwarding_collective.h"
#include "executor/devices/cuda/collectives/card_comms.h"
#include "executor/devices/cuda/collectives/comm_book.h"
#include "executor/devices/cuda/collectives/ragged_sizes.h"
#include "executor/transfers/link_meter.h"

namespace gangway {

class CommCollective final : public ForwardingCollective {
 public:
  struct Options {
    std::string group;                  // DeviceGroup::name.
    LinkClass next = LinkClass::kHost;  // Class of the link to the next member.
    LinkMeter& meter;                   // The device's.
    int64_t bytes_max = 0;              // Limit for a collective.
    CollectiveKinds kinds{};
    // Member that runs each rank of the group. Empty: each member has one rank.
    std::vector<uint32_t> card_of{};
  };
  CommCollective(CardStreams& device, CommBook& comms, std::unique_ptr<Collective> rendezvous,
                 Options options);

  static int64_t staging_bytes_for(CollectiveKinds kinds, int64_t bytes_max, uint32_t members);

  void begin(const CollectiveCall& call, bool poisoned) override;
  // Begins any kind except an all-reduce, for all ranks of this card; their calls live until it is
  // done.
  void begin_ranks(std::vector<CardRank> ranks, bool poisoned);
  void begin_exchange(uint64_t word, bool poisoned) override;
  int64_t staging_bytes() const override {
    return staging_bytes_for(options_.kinds, options_.bytes_max, size());
  }
  void use_staging(std::byte* staging) override { staging_ = staging; }
  Progress advance() override;
  bool poisoned() const override { return rendezvous_->poisoned() || no_comm_; }
  void raise_abort(uint64_t what) override { rendezvous_->raise_abort(what); }
  bool abort_raised(uint64_t what) const override { return rendezvous_->abort_raised(what); }

 private:
  enum class Phase : uint8_t { kExchange, kSizes, kMeet, kId, kConnect };
  static constexpr size_t kIdWords = sizeof(cuda::CommId) / sizeof(uint64_t);

  Progress advance_sizes();
  void begin_rendezvous(bool poisoned);
  void meet();
  bool agreed() const;
  void begin_id();
  bool take_id_word();
  uint64_t identity() const;
  void connect();
  bool connected();
  void launch();
  cuda::Status enqueue();
  void fail(const cuda::Status& status, uint64_t identity);

  CardStreams& device_;
  CommBook& comms_;
  const Options options_;
  std::shared_ptr<Comm> comm_;  // Used by the collective that has begun.
  uint64_t id_[kIdWords] = {};
  size_t id_words_ = 0;
  Phase phase_ = Phase::kExchange;
  bool tried_ = false;    // It tried to create a communicator for this collective.
  bool no_comm_ = false;  // It could not be created, or a peer broke it.
  std::byte* staging_ = nullptr;
  std::unique_ptr<RaggedSizes> sizes_;
  std::vector<uint32_t> own_cards_;  // Used if each member has one rank.
  std::vector<CardRank> ranks_;      // Ranks of the collective that has begun.
  bool ranks_given_ = false;         // begin_ranks() gave them.
  bool poisoned_ = false;            // Argument of begin().
};

}  // namespace gangway
