#include "executor/devices/cuda/collectives/card_exchange.h"

#include <algorithm>

#include "executor/devices/cuda/collectives/card_moves.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

constexpr int64_t kMessageAlignment = 64;

const std::byte* in_of(const CardRank& rank) {
  return static_cast<const std::byte*>(rank.call->tensors[0].in);
}
std::byte* out_of(const CardRank& rank) {
  return static_cast<std::byte*>(rank.call->tensors[0].out);
}

bool lies_together(const Block& block) { return block.bytes() == block.run; }

}  // namespace

// Room for packed data, and for data to be unpacked: each message is aligned.
int64_t CardComms::staging_bytes(int64_t bytes_max, uint32_t members) {
  return 2 * (align_up(bytes_max, kMessageAlignment) + kMessageAlignment * members);
}

CardExchange::CardExchange(const CardComms& comms, CardTraffic& moved)
    : comms_(comms),
      moved_(moved),
      size_(static_cast<uint32_t>(comms.card_of.size())),
      gathers_(comms.here[0].call->kind == CollectiveKind::kAllGather),
      lowest_(size_, false) {
  std::vector<bool> seen(comms.cards, false);
  for (uint32_t rank = 0; rank < size_; ++rank) {
    lowest_[rank] = !seen[comms.card_of[rank]];
    seen[comms.card_of[rank]] = true;
  }
  const int64_t unpacked_at =
      CardComms::staging_bytes(bytes_needed(*comms.here[0].call), size_) / 2;
  for (const CardRank& rank : comms.here) {
    if (gets(rank.rank)) receivers_.push_back({rank, unpacked_at});
  }
}

bool CardExchange::gets(uint32_t rank) const { return !gathers_ || lowest_[rank]; }

bool CardExchange::is_here(uint32_t rank) const {
  return comms_.card_of[rank] == comms_.card_of[comms_.here[0].rank];
}

cuda::Status CardExchange::run() {
  if (!clear_and_copy()) return copy_failed(comms_.label);
  for (const CardRank& from : comms_.here) {
    if (!send(from)) return copy_failed(comms_.label);
  }
  for (uint32_t from = 0; from < size_; ++from) {
    if (is_here(from)) continue;
    for (Receiver& to : receivers_) receive(from, to);
  }
  if (!messages_.empty()) {
    cuda::Status status = comms_.device.gpu().driver().exchange(
        {comms_.device.communication(), comms_.label}, comms_.comm, messages_);
    if (!status.ok()) return status;
  }
  return lay() ? cuda::Status{} : copy_failed(comms_.label);
}

// Copies what ranks of this card give one another.
bool CardExchange::clear_and_copy() {
  for (const Receiver& to : receivers_) {
    if (!zero_padding(comms_.device, comms_.label, *to.rank.call, {to.rank.rank, size_}))
      return false;
    for (const CardRank& from : comms_.here) {
      const Block block = kept(block_of(from.call, to.rank.call, size_, from.rank, to.rank.rank));
      if (!move_block(comms_.device, comms_.label, block, in_of(from), out_of(to.rank)))
        return false;
      if (from.rank != to.rank.rank) moved_.here += block.bytes();
    }
  }
  return true;
}

// A gathered part is the same for all, so it is packed once.
bool CardExchange::send(const CardRank& from) {
  int64_t pack_at = 0;
  for (uint32_t to = 0; to < size_; ++to) {
    if (is_here(to) || !gets(to)) continue;
    const Block block = block_of(from.call, nullptr, size_, from.rank, to);
    const int64_t bytes = block.bytes();
    if (bytes == 0) continue;
    const std::byte* data = in_of(from) + block.in_begin;
    if (!lies_together(block)) {
      data = from.staging + (gathers_ ? 0 : pack_at);
      const bool packs = !gathers_ || pack_at == 0;
      if (packs && !move_block(comms_.device, comms_.label, packed(block, pack_at), in_of(from),
                               from.staging))
        return false;
      pack_at += align_up(bytes, kMessageAlignment);
    }
    messages_.push_back(
        {cuda::Message::kSend, comms_.card_of[to], const_cast<std::byte*>(data), bytes});
    moved_.sent += bytes;
  }
  return true;
}

// Receives the rows from one rank. Ragged rows may have no room: all dropped rows go to one place,
// since nobody reads them. At most the rows of one message have room only in part.
void CardExchange::receive(uint32_t from, Receiver& to) {
  const Block block = block_of(nullptr, to.rank.call, size_, from, to.rank.rank);
  const Block rest = kept(block);
  const int64_t bytes = block.bytes();
  if (bytes == 0) return;
  std::byte* data = out_of(to.rank) + block.out_begin;
  if (rest.bytes() == 0) {
    data = to.rank.staging;
  } else if (!lies_together(block) || rest.bytes() < bytes) {
    data = to.rank.staging + to.next;
    laid_.push_back({unpacked(rest, to.next), &to.rank});
    to.next += align_up(bytes, kMessageAlignment);
  }
  messages_.push_back({cuda::Message::kReceive, comms_.card_of[from], data, bytes});
}

bool CardExchange::lay() {
  return std::ranges::all_of(laid_, [&](const Laid& one) {
    return move_block(comms_.device, comms_.label, one.block, one.rank->staging, out_of(*one.rank));
  });
}

}  // namespace gangway
