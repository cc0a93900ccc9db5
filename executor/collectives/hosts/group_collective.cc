#include "executor/collectives/hosts/group_collective.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/error.h"

namespace gangway {

GroupCollective::GroupCollective(GroupPart part)
    : part_(std::move(part)), rendezvous_(*part_.rendezvous), words_(part_.ranks.size(), 0) {
  GW_ASSERT(part_.index < part_.ranks.size() && rendezvous_.size() == part_.ranks.size());
  if (part_.exchange != nullptr) partial_.resize(static_cast<size_t>(2 * small_max()));
  members_.ranks = part_.ranks;
}

bool GroupCollective::all_here_began() const {
  return std::ranges::all_of(part_.beside, [this](uint32_t member) {
    return rendezvous_.slot(member).published.load(std::memory_order_acquire) >= sequence_;
  });
}

void GroupCollective::begin_rendezvous(uint64_t word, bool poisoned) {
  GW_DASSERT(phase_ == Phase::kIdle);
  ++sequence_;
  word_ = word;
  flag_ = poisoned;
  phase_ = Phase::kBegun;
}

void GroupCollective::begin_exchange(uint64_t word, bool poisoned) {
  failure_ = nullptr;
  kind_ = Kind::kExchange;
  bucket_.set({});
  begin_rendezvous(word, poisoned);
}

void GroupCollective::begin(const CollectiveCall& call, bool poisoned) {
  failure_ = nullptr;
  if (call.kind == CollectiveKind::kAllReduce) {
    begin_reduce(call, poisoned);
  } else {
    begin_move(call, poisoned);
  }
}

void GroupCollective::begin_reduce(const CollectiveCall& call, bool poisoned) {
  bucket_.set(call.tensors);
  reduction_ = call.reduction;
  // The plan sized the memory; a larger bucket, which all members would have, must not write beyond
  // it.
  if (bucket_.stored_bytes() > part_.bytes_max) {
    bucket_.set({});
    poisoned = true;
  }
  kind_ = bucket_.stored_bytes() <= kSmallBytes ? Kind::kSmall : Kind::kLarge;
  begin_rendezvous(0, poisoned);
}

void GroupCollective::begin_move(const CollectiveCall& call, bool poisoned) {
  const int64_t bytes = bytes_needed(call);
  // The same check as in an all-reduce. If there is nothing to move, members still learn whether
  // one is poisoned.
  if (bytes > part_.bytes_max || bytes == 0)
    return begin_exchange(0, poisoned || bytes > part_.bytes_max);
  tensor_ = call.tensors[0];
  call_ = call;
  call_.tensors = {&tensor_, 1};
  GW_ASSERT(part_.index >= part_.channels || part_.edges != nullptr, to_string(call.kind),
            ": the group was joined without it");
  kind_ = Kind::kMove;
  if (call.kind == CollectiveKind::kRaggedAllToAll) begin_sizes();
  copied_ = alone() && in_bytes(call_) <= small_max();
  begin_rendezvous(0, poisoned);
}

void GroupCollective::begin_sizes() {
  rows_follow_ = true;
  rows_tensor_ = tensor_;
  rows_ = call_;
  rows_.tensors = {&rows_tensor_, 1};
  sizes_.resize(part_.size);
  keep_to_rows(rows_.ragged.sizes, rows_.ragged.rows, sizes_);
  rows_.ragged.sizes = sizes_.data();
  tensor_ = {sizes_.data(), rows_.ragged.received, part_.size, DType::kI32};
  call_ = sizes_call(tensor_, part_.size);
}

void GroupCollective::begin_rows() {
  call_ = rows_;
  kind_ = Kind::kMove;
  copied_ = false;
  failure_ = overflow_of(call_, part_.size);
  begin_rendezvous(0, failure_ != nullptr);
}

void GroupCollective::raise_abort(uint64_t what) {
  if (part_.abort_flags != nullptr) part_.abort_flags->raise(part_.index, what);
}

bool GroupCollective::abort_raised(uint64_t what) const {
  return part_.abort_flags != nullptr && part_.abort_flags->raised(what);
}

Progress GroupCollective::advance() {
  while (advance_rendezvous() == Progress::kDone) {
    if (!std::exchange(rows_follow_, false) || agreed_.poisoned) return Progress::kDone;
    begin_rows();
  }
  return Progress::kPending;
}

Progress GroupCollective::advance_rendezvous() {
  if (phase_ == Phase::kBegun) publish();
  if (phase_ == Phase::kPublished && advance_published() == Progress::kPending)
    return Progress::kPending;
  if (phase_ == Phase::kHosts && advance_hosts() == Progress::kPending) return Progress::kPending;
  if (phase_ == Phase::kAnswer) {
    if (rendezvous_.answer.given.load(std::memory_order_acquire) < sequence_)
      return Progress::kPending;
    take_answer();
  }
  if (phase_ == Phase::kReduced) {
    if (!rendezvous_.all_at(&MemberSlot::reduced, sequence_)) return Progress::kPending;
    for (uint32_t m = 0; m < rendezvous_.size(); ++m)
      agreed_.poisoned |= rendezvous_.slot(m).failed[sequence_ & 1];
  }
  phase_ = Phase::kIdle;
  return Progress::kDone;
}

// Zeroes padding before other members write there, and copies a small tensor for them to read.
void GroupCollective::publish_move() {
  rendezvous_.slot(part_.index).call = &call_;
  if (flag_) return;
  zero_padding(call_, rank());
  const bool read = call_.kind != CollectiveKind::kBroadcast || call_.root == rank();
  if (copied_ && read)
    std::memcpy(rendezvous_.small(part_.index, sequence_), tensor_.in,
                static_cast<size_t>(in_bytes(call_)));
}

void GroupCollective::publish() {
  if (kind_ == Kind::kMove) publish_move();
  if (kind_ == Kind::kSmall && !flag_) {
    std::byte* copy = rendezvous_.small(part_.index, sequence_);
    bucket_.for_each(bucket_.lines(), [&](const Bucket::Piece& piece) {
      const CollectiveTensor& tensor = bucket_.tensors()[piece.tensor];
      std::memcpy(copy + piece.stored, tensor.in,
                  static_cast<size_t>(piece.count * Bucket::stored_size(tensor)));
    });
  }
  MemberSlot& mine = rendezvous_.slot(part_.index);
  mine.words[sequence_ & 1] = word_;
  mine.poisoned[sequence_ & 1] = flag_;
  mine.bucket = &bucket_;
  mine.failed[sequence_ & 1] = false;
  phase_ = Phase::kPublished;
  rendezvous_.tell(part_.index, &MemberSlot::published, sequence_);
}

Progress GroupCollective::advance_published() {
  // Member 0 meets the others first.
  const bool all_work = kind_ == Kind::kLarge || kind_ == Kind::kMove;
  if (!alone() && !all_work && part_.index != 0) {
    phase_ = Phase::kAnswer;
    return Progress::kDone;
  }
  if (!rendezvous_.all_at(&MemberSlot::published, sequence_)) return Progress::kPending;
  read_slots();
  if (alone()) {
    meet_on_one_host();
  } else if (kind_ == Kind::kLarge) {
    begin_channel();
  } else if (kind_ == Kind::kMove) {
    begin_host_move();
  } else {
    begin_answer();
  }
  return Progress::kDone;
}

void GroupCollective::read_words() {
  for (uint32_t m = 0; m < rendezvous_.size(); ++m)
    words_[m] = rendezvous_.slot(m).words[sequence_ & 1];
}

void GroupCollective::read_slots() {
  agreed_ = {};
  read_words();
  for (uint32_t m = 0; m < rendezvous_.size(); ++m) {
    const uint64_t word = words_[m];
    agreed_.join({word, word, rendezvous_.slot(m).poisoned[sequence_ & 1]});
  }
}

void GroupCollective::meet_on_one_host() {
  phase_ = Phase::kIdle;
  if (kind_ == Kind::kExchange || agreed_.poisoned) return;
  if (kind_ == Kind::kSmall) return reduce_small(nullptr);
  if (kind_ == Kind::kLarge) reduce_part();
  if (kind_ == Kind::kMove) {
    find_members();
    move_on_host();
    if (copied_) return;
  }
  raise_reduced();
}

// No other member waits for this one from now on.
void GroupCollective::raise_reduced() {
  phase_ = Phase::kReduced;
  rendezvous_.tell(part_.index, &MemberSlot::reduced, sequence_);
}

// Finds the tensors of this host's members.
void GroupCollective::find_members() {
  members_.calls.resize(rendezvous_.size());
  members_.in.resize(rendezvous_.size());
  for (uint32_t m = 0; m < rendezvous_.size(); ++m) {
    // A member that is done already, and had its tensor copied, has no call any more.
    members_.calls[m] = copied_ ? &call_ : rendezvous_.slot(m).call;
    members_.in[m] = copied_ ? rendezvous_.small(m, sequence_)
                             : static_cast<const std::byte*>(members_.calls[m]->tensors[0].in);
  }
}

// Takes, or reduces, this member's part of them.
void GroupCollective::move_on_host() {
  const bool reduces = call_.kind == CollectiveKind::kReduceScatter;
  int64_t others = 0;
  if (!reduces) {
    others = take_from_host(members_, part_.index, part_.size);
  } else if (alone()) {
    others = reduce_own_part(members_, part_.index, part_.size);
  }
  if (part_.meter != nullptr && others > 0) part_.meter->add(LinkClass::kHost, others);
  if (call_.kind == CollectiveKind::kRaggedAllToAll) zero_behind_rows(call_, part_.size);
}

// Hosts move tensors also if a member is poisoned: the result is not valid, and all learn that
// meanwhile. Data for other hosts is sent before this host's own is moved.
void GroupCollective::begin_host_move() {
  find_members();
  if (part_.index < part_.channels) {
    if (call_.kind == CollectiveKind::kReduceScatter) {
      part_.scatter->begin(members_, agreed_.poisoned);
    } else {
      part_.move->begin(members_, agreed_.poisoned);
    }
  }
  asks_for_poison_ = part_.index == 0 && !HostRoutes::reach_all(call_.kind, part_.hosts);
  if (asks_for_poison_) part_.exchange->begin(agreed_, nullptr, reduction_, nullptr);
  advance_channel();
  move_on_host();
  phase_ = Phase::kHosts;
}

Progress GroupCollective::advance_channel() {
  if (part_.index >= part_.channels) return Progress::kDone;
  const bool scatters = call_.kind == CollectiveKind::kReduceScatter;
  return scatters ? part_.scatter->advance() : part_.move->advance();
}

Progress GroupCollective::advance_move() {
  bool done = advance_channel() == Progress::kDone;
  if (asks_for_poison_) done &= part_.exchange->advance() == Progress::kDone;
  if (!done) return Progress::kPending;
  bool poisoned = asks_for_poison_ && part_.exchange->agreed().poisoned;
  if (part_.index < part_.channels)
    poisoned |= call_.kind == CollectiveKind::kReduceScatter ? part_.scatter->poisoned()
                                                             : part_.move->poisoned();
  rendezvous_.slot(part_.index).failed[sequence_ & 1] = poisoned;
  raise_reduced();
  return Progress::kDone;
}

// Reduces the tensors of all members of this host: into this member's tensors, or unrounded into
// `partial`.
void GroupCollective::reduce_small(std::byte* partial) {
  sources_.resize(rendezvous_.size());
  bucket_.for_each(bucket_.lines(), [&](const Bucket::Piece& piece) {
    const CollectiveTensor& tensor = bucket_.tensors()[piece.tensor];
    for (uint32_t m = 0; m < rendezvous_.size(); ++m)
      sources_[m] = rendezvous_.small(m, sequence_) + piece.stored;
    auto* out = static_cast<std::byte*>(tensor.out);
    if (partial == nullptr) {
      reduce_ranks(tensor.dtype, reduction_, sources_, {&out, 1}, piece.count);
    } else {
      reduce_to_partial(tensor.dtype, reduction_, sources_, partial + piece.partial, piece.count);
    }
  });
  count_read(bucket_.stored_bytes(bucket_.lines()));
}

// Reduces one part of the bucket, over all members' tensors, into all of them.
void GroupCollective::reduce_part() {
  const LineRange mine = bucket_.lines().part(part_.index, part_.index + 1, rendezvous_.size());
  sources_.resize(rendezvous_.size());
  outs_.resize(rendezvous_.size());
  bucket_.for_each(mine, [&](const Bucket::Piece& piece) {
    for (uint32_t m = 0; m < rendezvous_.size(); ++m) {
      const CollectiveTensor& tensor = rendezvous_.slot(m).bucket->tensors()[piece.tensor];
      const int64_t skip = piece.first * Bucket::stored_size(tensor);
      sources_[m] = static_cast<const std::byte*>(tensor.in) + skip;
      outs_[m] = static_cast<std::byte*>(tensor.out) + skip;
    }
    reduce_ranks(bucket_.tensors()[piece.tensor].dtype, reduction_, sources_, outs_, piece.count);
  });
  count_read(2 * bucket_.stored_bytes(mine));  // Read from each, and written to each.
}

// `bytes`: bytes that were read from each other member of this host.
void GroupCollective::count_read(int64_t bytes) {
  if (part_.meter != nullptr && rendezvous_.size() > 1)
    part_.meter->add(LinkClass::kHost, bytes * (rendezvous_.size() - 1));
}

void GroupCollective::begin_channel() {
  if (part_.index >= part_.channels) return raise_reduced();
  buckets_.clear();
  for (uint32_t m = 0; m < rendezvous_.size(); ++m) buckets_.push_back(rendezvous_.slot(m).bucket);
  const LineRange channel = bucket_.lines().part(part_.index, part_.index + 1, part_.channels);
  part_.reduce->begin({.members = buckets_,
                       .mine = &bucket_,
                       .lines = channel,
                       .reduction = reduction_,
                       .poisoned = agreed_.poisoned});
  if (!agreed_.poisoned) count_read(2 * bucket_.stored_bytes(channel));
  phase_ = Phase::kHosts;
}

void GroupCollective::begin_answer() {
  const bool reduces = kind_ == Kind::kSmall;
  if (reduces && !agreed_.poisoned) reduce_small(partial_.data());
  part_.exchange->begin(agreed_, reduces ? &bucket_ : nullptr, reduction_, partial_.data());
  phase_ = Phase::kHosts;
}

Progress GroupCollective::advance_hosts() {
  if (kind_ == Kind::kMove) return advance_move();
  if (kind_ == Kind::kLarge) {
    if (part_.reduce->advance() == Progress::kPending) return Progress::kPending;
    rendezvous_.slot(part_.index).failed[sequence_ & 1] = part_.reduce->poisoned();
    raise_reduced();
    return Progress::kDone;
  }
  if (part_.exchange->advance() == Progress::kPending) return Progress::kPending;
  give_answer();
  phase_ = Phase::kIdle;
  return Progress::kDone;
}

void GroupCollective::give_answer() {
  agreed_ = part_.exchange->agreed();
  if (kind_ == Kind::kSmall && !agreed_.poisoned) {
    bucket_.for_each(bucket_.lines(), [&](const Bucket::Piece& piece) {
      const CollectiveTensor& tensor = bucket_.tensors()[piece.tensor];
      auto* out = static_cast<std::byte*>(tensor.out);
      round_partial(tensor.dtype, partial_.data() + piece.partial, out, piece.count);
      if (rendezvous_.size() > 1)
        std::memcpy(rendezvous_.small_answer() + piece.stored, out,
                    static_cast<size_t>(piece.count * Bucket::stored_size(tensor)));
    });
  }
  if (rendezvous_.size() == 1) return;
  rendezvous_.answer.agreed = agreed_;
  rendezvous_.answer.given.store(sequence_, std::memory_order_release);
  rendezvous_.ring_others(part_.index);
}

void GroupCollective::take_answer() {
  agreed_ = rendezvous_.answer.agreed;
  read_words();
  if (kind_ != Kind::kSmall || agreed_.poisoned) return;
  bucket_.for_each(bucket_.lines(), [&](const Bucket::Piece& piece) {
    const CollectiveTensor& tensor = bucket_.tensors()[piece.tensor];
    std::memcpy(tensor.out, rendezvous_.small_answer() + piece.stored,
                static_cast<size_t>(piece.count * Bucket::stored_size(tensor)));
  });
  if (part_.meter != nullptr)
    part_.meter->add(LinkClass::kHost, bucket_.stored_bytes(bucket_.lines()));
}

}  // namespace gangway
