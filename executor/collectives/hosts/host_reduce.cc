#include "executor/collectives/hosts/host_reduce.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gangway {
namespace {

using Kind = HostStep::Kind;

std::byte* out_of(const Bucket& bucket, const Bucket::Piece& piece) {
  const CollectiveTensor& tensor = bucket.tensors()[piece.tensor];
  return static_cast<std::byte*>(tensor.out) + piece.first * Bucket::stored_size(tensor);
}

int64_t stored_bytes(const Bucket& bucket, const Bucket::Piece& piece) {
  return piece.count * Bucket::stored_size(bucket.tensors()[piece.tensor]);
}

// Offset in the row of stored elements of the first piece of a range.
int64_t stored_begin(const Bucket& bucket, const LineRange& lines) {
  int64_t begin = -1;
  bucket.for_each(lines, [&](const Bucket::Piece& piece) {
    if (begin < 0) begin = piece.stored;
  });
  return begin;
}

}  // namespace

HostReduce::HostReduce(const HostSchedule& schedule, std::vector<HostEdge> edges,
                       const OwnMemory& memory, LinkMeter* meter, int64_t piece_bytes)
    : chunks_(schedule.chunks),
      edges_(std::move(edges)),
      steps_(steps_over(edges_, schedule)),
      memory_(memory),
      meter_(meter),
      piece_lines_(piece_bytes / kLineBytes),
      partial_(static_cast<size_t>(piece_bytes)) {}

void HostReduce::begin(const Input& input) {
  members_.assign(input.members.begin(), input.members.end());
  mine_ = input.mine;
  lines_ = input.lines;
  reduction_ = input.reduction;
  poisoned_ = input.poisoned;
  piece_ = {lines_.begin, lines_.begin};
  begin_piece();
}

void HostReduce::begin_piece() {
  piece_ = {piece_.end, std::min(piece_.end + piece_lines_, lines_.end)};
  ++number_;
  cursor_ = 0;
  if (!poisoned_) reduce_here();
}

Progress HostReduce::advance() {
  while (true) {
    for (; cursor_ < steps_.size(); ++cursor_) {
      if (advance_step(steps_[cursor_]) == Progress::kPending) return Progress::kPending;
    }
    // All hosts know of a poisoned member by the end of the first piece.
    if (poisoned_ || piece_.end == lines_.end) return Progress::kDone;
    begin_piece();
  }
}

LineRange HostReduce::lines_of(const HostStep& step) const {
  return piece_.part(step.begin, step.end, chunks_);
}

Progress HostReduce::advance_step(const EdgeStep& step) {
  const LineRange lines = lines_of(step.what);
  if (step.what.kind == Kind::kFinish) {
    if (!poisoned_) finish(lines);
    return Progress::kDone;
  }
  const HostEdge& edge = edges_[step.edge];
  if (step.what.kind == Kind::kSend) {
    send_partial(edge, lines);
    return Progress::kDone;
  }
  if (step.what.kind == Kind::kSendResult) {
    send_result(edge, lines);
    return Progress::kDone;
  }
  return receive(step, edge, lines);
}

Progress HostReduce::receive(const EdgeStep& step, const HostEdge& edge, const LineRange& lines) {
  const bool combines = step.what.kind == Kind::kCombine;
  const uint64_t at =
      edge.here + static_cast<uint64_t>(combines ? edge.from.partials : edge.from.results);
  const Arrived message = arrived(memory_.word(at), number_);
  if (!message.here) return Progress::kPending;
  poisoned_ |= message.poisoned;
  if (poisoned_) return Progress::kDone;
  const std::byte* theirs = memory_.at(at + kMessageHead);
  if (combines) {
    combine(theirs, lines, step.what.peer_left);
  } else {
    take(theirs, lines);
  }
  return Progress::kDone;
}

// Combines the tensors of this host's members.
void HostReduce::reduce_here() {
  mine_->for_each(piece_, [&](const Bucket::Piece& piece) {
    sources_.clear();
    for (const Bucket* member : members_) {
      const CollectiveTensor& tensor = member->tensors()[piece.tensor];
      sources_.push_back(static_cast<const std::byte*>(tensor.in) +
                         piece.first * Bucket::stored_size(tensor));
    }
    reduce_to_partial(mine_->tensors()[piece.tensor].dtype, reduction_, sources_,
                      partial_.data() + piece.partial - piece_.begin * kLineBytes, piece.count);
  });
}

void HostReduce::give_others(const Bucket::Piece& piece) {
  const std::byte* from = out_of(*mine_, piece);
  for (const Bucket* member : members_) {
    if (member != mine_)
      std::memcpy(out_of(*member, piece), from, static_cast<size_t>(stored_bytes(*mine_, piece)));
  }
}

void HostReduce::finish(const LineRange& lines) {
  mine_->for_each(lines, [&](const Bucket::Piece& piece) {
    round_partial(mine_->tensors()[piece.tensor].dtype,
                  partial_.data() + piece.partial - piece_.begin * kLineBytes,
                  out_of(*mine_, piece), piece.count);
    give_others(piece);
  });
}

void HostReduce::send_partial(const HostEdge& edge, const LineRange& lines) {
  const uint64_t at = edge.there + static_cast<uint64_t>(edge.to.partials);
  LinkPayload payload;
  if (!poisoned_ && lines.lines() > 0) {
    payload = {at + kMessageHead, lines.lines() * kLineBytes};
    std::memcpy(edge.peer->at(payload.offset),
                partial_.data() + (lines.begin - piece_.begin) * kLineBytes,
                static_cast<size_t>(payload.bytes));
    if (meter_ != nullptr) meter_->add(edge.link, mine_->partial_bytes(lines));
  }
  send(edge, at, payload, number_, poisoned_);
}

void HostReduce::send_result(const HostEdge& edge, const LineRange& lines) {
  const uint64_t at = edge.there + static_cast<uint64_t>(edge.to.results);
  LinkPayload payload;
  if (!poisoned_ && lines.lines() > 0) {
    const int64_t begin = stored_begin(*mine_, lines);
    payload.offset = at + kMessageHead;
    mine_->for_each(lines, [&](const Bucket::Piece& piece) {
      const int64_t bytes = stored_bytes(*mine_, piece);
      std::memcpy(edge.peer->at(payload.offset) + (piece.stored - begin), out_of(*mine_, piece),
                  static_cast<size_t>(bytes));
      payload.bytes = piece.stored - begin + bytes;
    });
    if (meter_ != nullptr) meter_->add(edge.link, mine_->stored_bytes(lines));
  }
  send(edge, at, payload, number_, poisoned_);
}

void HostReduce::combine(const std::byte* theirs, const LineRange& lines, bool peer_left) {
  mine_->for_each(lines, [&](const Bucket::Piece& piece) {
    std::byte* mine = partial_.data() + piece.partial - piece_.begin * kLineBytes;
    const std::byte* other = theirs + piece.partial - lines.begin * kLineBytes;
    combine_partials(mine_->tensors()[piece.tensor].dtype, reduction_, peer_left ? other : mine,
                     peer_left ? mine : other, mine, piece.count);
  });
}

void HostReduce::take(const std::byte* theirs, const LineRange& lines) {
  const int64_t begin = stored_begin(*mine_, lines);
  mine_->for_each(lines, [&](const Bucket::Piece& piece) {
    std::memcpy(out_of(*mine_, piece), theirs + (piece.stored - begin),
                static_cast<size_t>(stored_bytes(*mine_, piece)));
    give_others(piece);
  });
}

}  // namespace gangway
