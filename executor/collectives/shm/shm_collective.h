// ShmCollective: the collectives of devices that share memory, in one process or in several.
//
// All-reduce is a reduce-scatter and an all-gather by direct reads: every member lays its tensors
// into its staging, reduces one chunk of the bucket over all members in rank order, and collects
// the other chunks. Small buckets skip the scatter: every member reduces everything, which gives
// the same bits with one meeting less. Arithmetic: f32 and bf16 in f32 (bf16 rounded once at the
// end), f64 and i32 in their own type.
//
//   free -> copy in -> published | -> reduce my chunk -> reduced | -> collect -> done
//
// A group with a poisoned member meets once and computes nothing.
// Threads: the device's.
// Ownership: areas and bells are the plan's and outlive it.
// Cost: two meetings; 2 (n-1)/n of the bucket read and as much written, and the copy in.
#pragma once

#include <vector>

#include "executor/collectives/collective.h"
#include "executor/collectives/shm/rank_area.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/bell.h"

namespace gangway {

struct ShmMember {
  RankArea area;
  Bell bell;
  LinkClass link = LinkClass::kHost;  // From the member that has this list.
};

class ShmCollective final : public Collective {
 public:
  // Buckets up to this size are reduced by every member alone.
  static constexpr int64_t kSmallBytes = 8192;

  // `meter` counts what is read of other members' tensors; null: nothing does.
  ShmCollective(uint32_t rank, std::vector<ShmMember> members, int64_t staging_bytes,
                LinkMeter* meter = nullptr);

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return static_cast<uint32_t>(members_.size()); }
  void begin_all_reduce(std::span<const CollectiveTensor> tensors, Reduction reduction,
                        bool poisoned) override;
  void begin_exchange(uint64_t word, bool poisoned) override;
  Progress advance() override;
  bool poisoned() const override { return poisoned_; }
  std::span<const uint64_t> words() const override { return words_; }
  void raise_alarm(uint64_t what) override;
  bool alarmed(uint64_t what) const override;

 private:
  enum class Phase : uint8_t { kIdle, kFree, kPublished, kReduced };

  void begin(uint64_t word, bool poisoned);
  void publish();
  void read_flags();
  void copy_in();
  void reduce_mine(bool everything);
  void collect();
  void count(size_t member, int64_t bytes);
  void finish();
  void ring_peers();
  bool all_at(std::atomic<uint64_t> RankHeader::* counter, uint64_t value) const;
  void tell(std::atomic<uint64_t> RankHeader::* counter, uint64_t value);

  const uint32_t rank_;
  const std::vector<ShmMember> members_;
  const int64_t staging_bytes_;
  LinkMeter* const meter_;

  uint64_t sequence_ = 0;  // Of the collective that was begun last.
  Phase phase_ = Phase::kIdle;
  std::vector<CollectiveTensor> tensors_;
  std::vector<int64_t> offsets_;  // Of each tensor in staging.
  int64_t bytes_ = 0;
  Reduction reduction_ = Reduction::kSum;
  uint64_t word_ = 0;
  bool flag_ = false;
  bool poisoned_ = false;
  std::vector<uint64_t> words_;
  std::vector<const std::byte*> sources_;  // One for each member, while reducing.
};

}  // namespace gangway
