#include "executor/collectives/shm/shm_collective.h"

#include <algorithm>
#include <cstring>

#include "executor/collectives/shm/reduce_ranks.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

constexpr int64_t kAlignment = 64;

// The part of each tensor that lies in [begin, end) of all elements of the bucket.
template <class Body>
void for_each_part(std::span<const CollectiveTensor> tensors, int64_t begin, int64_t end,
                   Body body) {
  int64_t first = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t from = std::max<int64_t>(begin - first, 0);
    const int64_t to = std::min(end - first, tensors[i].elements);
    if (from < to) body(i, from, to);
    first += tensors[i].elements;
  }
}

}  // namespace

ShmCollective::ShmCollective(uint32_t rank, std::vector<ShmMember> members, int64_t staging_bytes,
                             LinkMeter* meter)
    : rank_(rank),
      members_(std::move(members)),
      staging_bytes_(staging_bytes),
      meter_(meter),
      words_(members_.size(), 0),
      sources_(members_.size(), nullptr) {
  GW_ASSERT(rank_ < members_.size());
}

void ShmCollective::begin(uint64_t word, bool poisoned) {
  GW_DASSERT(phase_ == Phase::kIdle);
  ++sequence_;
  word_ = word;
  flag_ = poisoned;
  phase_ = Phase::kFree;
}

void ShmCollective::begin_exchange(uint64_t word, bool poisoned) {
  tensors_.clear();
  bytes_ = 0;
  begin(word, poisoned);
}

void ShmCollective::begin_all_reduce(std::span<const CollectiveTensor> tensors, Reduction reduction,
                                     bool poisoned) {
  tensors_.assign(tensors.begin(), tensors.end());
  offsets_.clear();
  bytes_ = 0;
  for (const CollectiveTensor& tensor : tensors_) {
    offsets_.push_back(bytes_);
    bytes_ += align_up(bytes_of(tensor), kAlignment);
  }
  // The plan sized the staging; a larger bucket must not write beyond it.
  if (bytes_ > staging_bytes_) {
    tensors_.clear();
    poisoned = true;
  }
  reduction_ = reduction;
  begin(0, poisoned);
}

bool ShmCollective::all_at(std::atomic<uint64_t> RankHeader::* counter, uint64_t value) const {
  return std::all_of(members_.begin(), members_.end(), [&](const ShmMember& member) {
    return (member.area.header->*counter).load(std::memory_order_seq_cst) >= value;
  });
}

void ShmCollective::tell(std::atomic<uint64_t> RankHeader::* counter, uint64_t value) {
  (members_[rank_].area.header->*counter).store(value, std::memory_order_seq_cst);
  // Whoever comes last wakes everyone: in the one order of these stores and loads the last member
  // sees all the others.
  if (all_at(counter, value)) ring_peers();
}

void ShmCollective::ring_peers() {
  for (uint32_t r = 0; r < members_.size(); ++r) {
    if (r != rank_) members_[r].bell.ring();
  }
}

void ShmCollective::raise_alarm(uint64_t what) {
  std::atomic<uint64_t>& alarm = members_[rank_].area.header->alarm;
  uint64_t known = alarm.load(std::memory_order_relaxed);
  while (known != kEverything && !alarm.compare_exchange_weak(known, what)) {
  }
  ring_peers();
}

bool ShmCollective::alarmed(uint64_t what) const {
  return std::any_of(members_.begin(), members_.end(), [&](const ShmMember& member) {
    const uint64_t alarm = member.area.header->alarm.load(std::memory_order_acquire);
    return alarm == kEverything || alarm == what;
  });
}

Progress ShmCollective::advance() {
  if (phase_ == Phase::kFree) {
    // Peers may still read what the last collective left in my staging.
    if (!tensors_.empty() && !all_at(&RankHeader::done, sequence_ - 1)) return Progress::kPending;
    publish();
  }
  if (phase_ == Phase::kPublished) {
    if (!all_at(&RankHeader::published, sequence_)) return Progress::kPending;
    read_flags();
    if (poisoned_ || tensors_.empty()) {
      finish();
    } else if (bytes_ <= kSmallBytes) {
      reduce_mine(true);
      finish();
    } else {
      reduce_mine(false);
      phase_ = Phase::kReduced;
      tell(&RankHeader::reduced, sequence_);
    }
  }
  if (phase_ == Phase::kReduced) {
    if (!all_at(&RankHeader::reduced, sequence_)) return Progress::kPending;
    collect();
    finish();
  }
  return Progress::kDone;
}

void ShmCollective::publish() {
  if (!flag_) copy_in();
  RankHeader& mine = *members_[rank_].area.header;
  mine.words[sequence_ & 1] = word_;
  mine.poisoned[sequence_ & 1] = flag_ ? 1 : 0;
  phase_ = Phase::kPublished;
  tell(&RankHeader::published, sequence_);
}

void ShmCollective::read_flags() {
  poisoned_ = false;
  for (size_t r = 0; r < members_.size(); ++r) {
    const RankHeader& header = *members_[r].area.header;
    words_[r] = header.words[sequence_ & 1];
    poisoned_ |= header.poisoned[sequence_ & 1] != 0;
  }
}

void ShmCollective::finish() {
  phase_ = Phase::kIdle;
  tell(&RankHeader::done, sequence_);
}

void ShmCollective::copy_in() {
  std::byte* staging = members_[rank_].area.staging;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto bytes = static_cast<size_t>(bytes_of(tensors_[i]));
    if (bytes > 0) std::memcpy(staging + offsets_[i], tensors_[i].in, bytes);
  }
}

void ShmCollective::count(size_t member, int64_t bytes) {
  if (meter_ != nullptr && member != rank_) meter_->add(members_[member].link, bytes);
}

// `everything`: straight into the outputs; else my chunk, into my own staging.
void ShmCollective::reduce_mine(bool everything) {
  int64_t total = 0;
  for (const CollectiveTensor& tensor : tensors_) total += tensor.elements;
  const int64_t ranks = size();
  const int64_t begin = everything ? 0 : total * rank_ / ranks;
  const int64_t end = everything ? total : total * (rank_ + 1) / ranks;
  int64_t bytes = 0;  // Of each member.
  for_each_part(tensors_, begin, end, [&](size_t i, int64_t from, int64_t to) {
    const CollectiveTensor& tensor = tensors_[i];
    const int64_t skip = from * static_cast<int64_t>(size_of(tensor.dtype));
    for (size_t r = 0; r < members_.size(); ++r) {
      sources_[r] = members_[r].area.staging + offsets_[i] + skip;
    }
    std::byte* to_data = everything ? static_cast<std::byte*>(tensor.out)
                                    : members_[rank_].area.staging + offsets_[i];
    reduce_ranks(tensor.dtype, reduction_, sources_, to_data + skip, to - from);
    bytes += (to - from) * static_cast<int64_t>(size_of(tensor.dtype));
  });
  for (size_t r = 0; r < members_.size(); ++r) count(r, bytes);
}

void ShmCollective::collect() {
  int64_t total = 0;
  for (const CollectiveTensor& tensor : tensors_) total += tensor.elements;
  const int64_t ranks = size();
  for (int64_t r = 0; r < ranks; ++r) {
    const std::byte* staging = members_[static_cast<size_t>(r)].area.staging;
    for_each_part(tensors_, total * r / ranks, total * (r + 1) / ranks,
                  [&](size_t i, int64_t from, int64_t to) {
                    const auto bytes = static_cast<int64_t>(size_of(tensors_[i].dtype));
                    std::memcpy(static_cast<std::byte*>(tensors_[i].out) + from * bytes,
                                staging + offsets_[i] + from * bytes,
                                static_cast<size_t>((to - from) * bytes));
                    count(static_cast<size_t>(r), (to - from) * bytes);
                  });
  }
}

}  // namespace gangway
