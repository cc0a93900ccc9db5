#include "executor/devices/cuda/collectives/rank_collective.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "executor/devices/cuda/collectives/card_parts.h"

namespace gangway {

RankCollective::RankCollective(CardStreams& device, std::unique_ptr<Collective> rendezvous,
                               std::unique_ptr<CommCollective> cards, Options options)
    : ForwardingCollective(std::move(rendezvous)),
      device_(device),
      cards_(std::move(cards)),
      options_(options) {
  part_.card = &device;
  part_.rank = rank();
  part_.call = &call_;
  if (options_.kinds.has(CollectiveKind::kRaggedAllToAll))
    sizes_ = std::make_unique<RaggedSizes>(device_, size());
}

// Staging of an all-reduce: a part and, at the lowest rank, the sum.
int64_t RankCollective::staging_bytes_for(CollectiveKinds kinds, int64_t bytes_max,
                                          uint32_t members) {
  const int64_t reduce = 2 * bytes_in_part(bytes_max);
  return kinds.has_moves() ? std::max(reduce, CardComms::staging_bytes(bytes_max, members))
                           : reduce;
}

void RankCollective::use_staging(std::byte* staging) {
  part_.staging = staging;
  if (cards_ != nullptr) part_.sum = staging + bytes_in_part(options_.bytes_max);
}

void RankCollective::name(std::string_view label) {
  label_ = label;
  if (cards_ != nullptr) cards_->name(label);
}

void RankCollective::raise_abort(uint64_t what) {
  rendezvous_->raise_abort(what);
  if (cards_ != nullptr) cards_->raise_abort(what);
}

void RankCollective::begin_exchange(uint64_t word, bool poisoned) {
  phase_ = Phase::kExchange;
  forward_exchange(word, poisoned);
}

void RankCollective::begin(const CollectiveCall& call, bool poisoned) {
  keep(call);
  if (call.kind != CollectiveKind::kRaggedAllToAll) return begin_rendezvous(poisoned);
  sizes_->begin(call_, label_, poisoned);
  phase_ = Phase::kSizes;
}

void RankCollective::begin_rendezvous(bool poisoned) {
  phase_ = Phase::kRanks;
  if (poisoned || device_.lost() != nullptr) {
    poisoned = true;
  } else if (call_.kind == CollectiveKind::kAllReduce) {
    poisoned = !copy_in(device_, label_, tensors_, part_.staging, options_.bytes_max);
  } else {
    poisoned = !device_.note(device_.fork()) || bytes_needed(call_) > options_.bytes_max;
  }
  rendezvous_->begin_exchange(reinterpret_cast<uintptr_t>(&part_), poisoned);
}

Progress RankCollective::advance() {
  if (phase_ == Phase::kSizes) {
    if (sizes_->advance(*rendezvous_) == Progress::kPending) return Progress::kPending;
    failure_ = sizes_->failure();
    if (rendezvous_->poisoned()) return device_.end_collective(), Progress::kDone;
    call_ = sizes_->known();
    begin_rendezvous(failure_ != nullptr);
  }
  if (phase_ == Phase::kCards) {
    if (cards_->advance() == Progress::kPending) return Progress::kPending;
    end_cards();
  }
  if (rendezvous_->advance() == Progress::kPending) return Progress::kPending;
  if (phase_ == Phase::kExchange) return Progress::kDone;
  if (phase_ == Phase::kRanks && !rendezvous_->poisoned()) {
    find_parts();
    if (cards_ != nullptr) {
      begin_cards();
      phase_ = Phase::kCards;
    } else {
      rendezvous_->begin_exchange(0, false);
      phase_ = Phase::kAnswer;
    }
    return advance();
  }
  if (!rendezvous_->poisoned() && device_.lost() == nullptr) finish();
  device_.end_collective();
  return Progress::kDone;
}

// Picks the words of this card's ranks from those of all of this host's ranks.
void RankCollective::find_parts() {
  parts_.clear();
  for (const uint64_t word : rendezvous_->words()) {
    const Part* part = std::bit_cast<const Part*>(word);
    if (part == nullptr || part->card != &device_) continue;
    parts_.push_back(part);
    if (part->sum != nullptr) first_ = part;
  }
}

void RankCollective::begin_cards() {
  call_.kind == CollectiveKind::kAllReduce ? begin_reduce() : begin_move();
}

void RankCollective::begin_move() {
  std::vector<CardRank> ranks;
  for (const Part* part : parts_) ranks.push_back({part->rank, part->call, part->staging});
  cards_->begin_ranks(std::move(ranks), device_.lost() != nullptr);
}

void RankCollective::begin_reduce() {
  sums_.clear();
  int64_t offset = 0;
  for (const CollectiveTensor& tensor : tensors_) {
    std::byte* sum = part_.sum + offset;
    sums_.push_back({sum, sum, tensor.elements, tensor.dtype});
    std::vector<const std::byte*> parts;
    for (const Part* part : parts_) parts.push_back(part->staging + offset);
    const int64_t bytes = bytes_of(tensor);
    if (bytes > 0 && device_.lost() == nullptr)
      reduce_parts(device_, label_, call_.reduction, parts, sums_.back());
    options_.meter.add(LinkClass::kHost, bytes * static_cast<int64_t>(parts.size() - 1));
    offset += bytes_in_part(bytes);
  }
  cards_->begin(
      {.kind = CollectiveKind::kAllReduce, .tensors = sums_, .reduction = call_.reduction},
      device_.lost() != nullptr);
}

void RankCollective::end_cards() {
  failure_ = cards_->failure();
  phase_ = Phase::kAnswer;
  rendezvous_->begin_exchange(0, cards_->poisoned() || failure_ != nullptr);
}

// Operations that the lowest rank enqueued come before this on the stream.
void RankCollective::finish() {
  if (call_.kind == CollectiveKind::kAllReduce) return copy_out();
  if (call_.kind == CollectiveKind::kRaggedAllToAll) sizes_->tell(label_);
}

void RankCollective::copy_out() {
  const std::byte* from = first_->sum;
  for (const CollectiveTensor& tensor : tensors_) {
    const int64_t bytes = bytes_of(tensor);
    if (bytes > 0)
      device_.note(
          device_.gpu().driver().copy({device_.communication(), label_}, tensor.out, from, bytes));
    if (cards_ == nullptr) options_.meter.add(LinkClass::kHost, bytes);
    from += bytes_in_part(bytes);
  }
}

}  // namespace gangway
