#include "executor/devices/cuda/collectives/rank_collective.h"

#include <bit>

#include "executor/collectives/collective_call.h"
#include "executor/devices/cuda/collectives/card_parts.h"

namespace gangway {

RankCollective::RankCollective(CardStreams& device, std::unique_ptr<Collective> meeting,
                               std::unique_ptr<Collective> cards, int64_t bytes_max,
                               LinkMeter& meter)
    : device_(device),
      meeting_(std::move(meeting)),
      cards_(std::move(cards)),
      bytes_max_(bytes_max),
      meter_(meter) {
  part_.card = &device;
}

// A part and, at the lowest rank, the sum.
int64_t RankCollective::staging_bytes_for(int64_t bytes_max) {
  return 2 * bytes_in_part(bytes_max);
}

void RankCollective::use_staging(std::byte* staging) {
  part_.staging = staging;
  if (cards_ != nullptr) part_.sum = staging + bytes_in_part(bytes_max_);
}

void RankCollective::name(std::string_view label) {
  label_ = label;
  if (cards_ != nullptr) cards_->name(label);
}

void RankCollective::raise_alarm(uint64_t what) {
  meeting_->raise_alarm(what);
  if (cards_ != nullptr) cards_->raise_alarm(what);
}

void RankCollective::begin_exchange(uint64_t word, bool poisoned) {
  phase_ = Phase::kExchange;
  failure_ = nullptr;
  meeting_->begin_exchange(word, poisoned);
}

void RankCollective::begin(const CollectiveCall& call, bool poisoned) {
  tensors_.assign(call.tensors.begin(), call.tensors.end());
  reduction_ = call.reduction;
  failure_ = nullptr;
  phase_ = Phase::kRanks;
  if (!poisoned) poisoned = !copy_in(device_, label_, tensors_, part_.staging, bytes_max_);
  meeting_->begin_exchange(reinterpret_cast<uintptr_t>(&part_), poisoned);
}

Progress RankCollective::advance() {
  if (phase_ == Phase::kCards) {
    if (cards_->advance() == Progress::kPending) return Progress::kPending;
    end_cards();
  }
  if (meeting_->advance() == Progress::kPending) return Progress::kPending;
  if (phase_ == Phase::kExchange) return Progress::kDone;
  if (phase_ == Phase::kRanks && !meeting_->poisoned()) {
    find_parts();
    if (cards_ != nullptr) {
      begin_cards();
      phase_ = Phase::kCards;
    } else {
      meeting_->begin_exchange(0, false);
      phase_ = Phase::kAnswer;
    }
    return advance();
  }
  if (!meeting_->poisoned() && device_.lost() == nullptr) copy_out();
  device_.end_collective();
  return Progress::kDone;
}

// Of all words of this host's ranks those of this card's.
void RankCollective::find_parts() {
  parts_.clear();
  for (const uint64_t word : meeting_->words()) {
    const Part* part = std::bit_cast<const Part*>(word);
    if (part == nullptr || part->card != &device_) continue;
    parts_.push_back(part);
    if (part->sum != nullptr) first_ = part;
  }
}

void RankCollective::begin_cards() {
  sums_.clear();
  int64_t offset = 0;
  for (const CollectiveTensor& tensor : tensors_) {
    std::byte* sum = part_.sum + offset;
    sums_.push_back({sum, sum, tensor.elements, tensor.dtype});
    std::vector<const std::byte*> parts;
    for (const Part* part : parts_) parts.push_back(part->staging + offset);
    const int64_t bytes = bytes_of(tensor);
    if (bytes > 0 && device_.lost() == nullptr)
      reduce_parts(device_, label_, reduction_, parts, sums_.back());
    meter_.add(LinkClass::kHost, bytes * static_cast<int64_t>(parts.size() - 1));
    offset += bytes_in_part(bytes);
  }
  cards_->begin({.kind = CollectiveKind::kAllReduce, .tensors = sums_, .reduction = reduction_},
                device_.lost() != nullptr);
}

void RankCollective::end_cards() {
  failure_ = cards_->failure();
  phase_ = Phase::kAnswer;
  meeting_->begin_exchange(0, cards_->poisoned() || failure_ != nullptr);
}

void RankCollective::copy_out() {
  const std::byte* from = first_->sum;
  for (const CollectiveTensor& tensor : tensors_) {
    const int64_t bytes = bytes_of(tensor);
    if (bytes > 0)
      device_.note(
          device_.gpu().driver().copy({device_.communication(), label_}, tensor.out, from, bytes));
    if (cards_ == nullptr) meter_.add(LinkClass::kHost, bytes);
    from += bytes_in_part(bytes);
  }
}

}  // namespace gangway
