#include "executor/collectives/hosts/host_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gangway {
namespace {

struct Words {
  uint64_t least, most;
};
constexpr uint64_t kWordsAt = sizeof(std::atomic<uint64_t>);  // Behind the flag, in its line.

}  // namespace

HostExchange::HostExchange(const HostSchedule& schedule, std::vector<HostEdge> edges,
                           const OwnMemory& memory, LinkMeter* meter)
    : edges_(std::move(edges)),
      steps_(steps_over(edges_, schedule)),
      memory_(memory),
      meter_(meter) {
  std::erase_if(steps_,
                [](const EdgeStep& step) { return step.what.kind == HostStep::Kind::kFinish; });
}

void HostExchange::begin(const Agreed& mine, const Bucket* bucket, Reduction reduction,
                         std::byte* partial) {
  ++sequence_;
  cursor_ = 0;
  agreed_ = mine;
  bucket_ = bucket;
  reduction_ = reduction;
  partial_ = partial;
}

Progress HostExchange::advance() {
  for (; cursor_ < steps_.size(); ++cursor_) {
    const EdgeStep& step = steps_[cursor_];
    const bool sends =
        step.what.kind == HostStep::Kind::kSend || step.what.kind == HostStep::Kind::kSendResult;
    if (sends) {
      send_to(edges_[step.edge]);
    } else if (!receive(step)) {
      return Progress::kPending;
    }
  }
  return Progress::kDone;
}

void HostExchange::send_to(const HostEdge& edge) {
  const uint64_t at = slot(edge.there, edge.to);
  LinkPayload payload;
  if (bucket_ == nullptr) {
    payload = {at + kWordsAt, sizeof(Words)};
    const Words words{agreed_.least, agreed_.most};
    std::memcpy(edge.peer->at(payload.offset), &words, sizeof words);
  } else if (!agreed_.poisoned && bucket_->partial_bytes() > 0) {
    payload = {at + kMessageHead, bucket_->partial_bytes()};
    std::memcpy(edge.peer->at(payload.offset), partial_, static_cast<size_t>(payload.bytes));
    if (meter_ != nullptr) meter_->add(edge.link, bucket_->partial_bytes(bucket_->lines()));
  }
  send(edge, at, payload, sequence_, agreed_.poisoned);
}

bool HostExchange::receive(const EdgeStep& step) {
  const HostEdge& edge = edges_[step.edge];
  const uint64_t at = slot(edge.here, edge.from);
  const Arrived message = arrived(memory_.word(at), sequence_);
  if (!message.here) return false;
  agreed_.poisoned |= message.poisoned;
  const bool take = step.what.kind == HostStep::Kind::kTake;
  if (bucket_ == nullptr) {
    Words words{};
    std::memcpy(&words, memory_.at(at + kWordsAt), sizeof words);
    const Agreed theirs{words.least, words.most, agreed_.poisoned};
    if (take) agreed_ = theirs;
    agreed_.join(theirs);
  } else if (!agreed_.poisoned && bucket_->partial_bytes() > 0) {
    const std::byte* theirs = memory_.at(at + kMessageHead);
    if (take) {
      std::memcpy(partial_, theirs, static_cast<size_t>(bucket_->partial_bytes()));
    } else {
      combine(theirs, step.what.peer_left);
    }
  }
  return true;
}

void HostExchange::combine(const std::byte* theirs, bool peer_left) {
  bucket_->for_each(bucket_->lines(), [&](const Bucket::Piece& piece) {
    std::byte* mine = partial_ + piece.partial;
    const std::byte* other = theirs + piece.partial;
    combine_partials(bucket_->tensors()[piece.tensor].dtype, reduction_, peer_left ? other : mine,
                     peer_left ? mine : other, mine, piece.count);
  });
}

}  // namespace gangway
