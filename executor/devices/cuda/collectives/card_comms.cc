#include "executor/devices/cuda/collectives/card_comms.h"

#include <utility>

#include "executor/devices/cuda/collectives/card_moves.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

constexpr int64_t kMessageAlignment = 64;

// Of what is packed, and of what is to be unpacked: each message is aligned.
int64_t half_bytes(int64_t bytes_max, uint32_t members) {
  return align_up(bytes_max, kMessageAlignment) + kMessageAlignment * members;
}

bool is_outermost(const CollectiveCut& cut) { return cut.dims[0] == 1; }

cuda::Status failed(std::string_view label) {
  return {cuda::StatusKind::kLaunch, false, cat(label, ": a copy could not be started")};
}

}  // namespace

int64_t CardComms::staging_bytes(int64_t bytes_max, uint32_t members) {
  return 2 * half_bytes(bytes_max, members);
}

cuda::Status CardComms::enqueue(const CollectiveCall& call) const {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return device.gpu().driver().all_reduce(at(), comm, call.tensors, call.reduction);
    case CollectiveKind::kAllGather: return gather(call);
    case CollectiveKind::kReduceScatter: return scatter(call);
    case CollectiveKind::kBroadcast:
      return device.gpu().driver().broadcast(at(), comm, call.tensors, call.root);
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kPermute:
    case CollectiveKind::kRaggedAllToAll: break;
  }
  return exchange(call);
}

cuda::Status CardComms::gather(const CollectiveCall& call) const {
  CollectiveTensor tensor = call.tensors[0];
  auto* const out = static_cast<std::byte*>(tensor.out);
  const int64_t bytes = bytes_of(tensor);
  const bool whole = is_outermost(call.cut) && call.cut.whole == size * call.cut.dims[1];
  // Where most of the parts are dropped.
  if (!whole && size * bytes > staging_bytes(bytes_needed(call), size)) return exchange(call);
  if (!whole) tensor.out = staging;
  cuda::Status status = device.gpu().driver().all_gather(at(), comm, {&tensor, 1});
  for (uint32_t r = 0; !whole && r < size && status.ok(); ++r) {
    if (!move_block(device, label, block_of(&call, &call, size, r, rank), staging + r * bytes, out))
      status = failed(label);
  }
  return status;
}

cuda::Status CardComms::scatter(const CollectiveCall& call) const {
  CollectiveTensor tensor = call.tensors[0];
  const bool whole = is_outermost(call.cut) && call.cut.dims[1] == size * call.cut.part;
  if (!whole && !pack_parts(device, label, call, staging)) return failed(label);
  if (!whole) tensor.in = staging;
  tensor.elements = out_bytes(call) / static_cast<int64_t>(size_of(tensor.dtype));
  return device.gpu().driver().reduce_scatter(at(), comm, {&tensor, 1}, call.reduction);
}

cuda::Status CardComms::exchange(const CollectiveCall& call) const {
  const auto* const in = static_cast<const std::byte*>(call.tensors[0].in);
  auto* const out = static_cast<std::byte*>(call.tensors[0].out);
  std::vector<cuda::Message> messages;
  std::vector<Block> laid;  // Once messages have come.
  const bool same_for_all = call.kind == CollectiveKind::kAllGather;
  int64_t pack_at = 0;
  int64_t unpack_at = staging_bytes(bytes_needed(call), size) / 2;
  if (!zero_padding(device, label, call, rank)) return failed(label);
  for (uint32_t peer = 0; peer < size; ++peer) {
    const Block to = block_of(&call, &call, size, rank, peer);
    const Block from = block_of(&call, &call, size, peer, rank);
    if (peer == rank) {
      if (!move_block(device, label, to, in, out)) return failed(label);
      continue;
    }
    if (to.bytes() > 0) {
      const bool together = to.bytes() == to.run;
      const bool packs = !together && (pack_at == 0 || !same_for_all);
      if (packs && !move_block(device, label, packed(to, pack_at), in, staging))
        return failed(label);
      const std::byte* data = together ? in + to.in_begin : staging + (same_for_all ? 0 : pack_at);
      messages.push_back({cuda::Message::kSend, peer, const_cast<std::byte*>(data), to.bytes()});
      if (packs) pack_at += align_up(to.bytes(), kMessageAlignment);
    }
    if (from.bytes() > 0) {
      const bool together = from.bytes() == from.run;
      messages.push_back({cuda::Message::kReceive, peer,
                          together ? out + from.out_begin : staging + unpack_at, from.bytes()});
      if (together) continue;
      laid.push_back(unpacked(from, unpack_at));
      unpack_at += align_up(from.bytes(), kMessageAlignment);
    }
  }
  cuda::Status status =
      messages.empty() ? cuda::Status{} : device.gpu().driver().exchange(at(), comm, messages);
  for (size_t m = 0; m < laid.size() && status.ok(); ++m) {
    if (!move_block(device, label, laid[m], staging, out)) status = failed(label);
  }
  return status;
}

int64_t bytes_sent(const CollectiveCall& call, uint32_t members, uint32_t rank) {
  const int64_t others = int64_t{members} - 1;
  switch (call.kind) {
    case CollectiveKind::kAllReduce: return 2 * in_bytes(call) * others / members;
    case CollectiveKind::kAllGather: return in_bytes(call) * others;
    case CollectiveKind::kReduceScatter: return out_bytes(call) * others;
    // All but the member before the root pass it on.
    case CollectiveKind::kBroadcast: return (rank + 1) % members == call.root ? 0 : in_bytes(call);
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kPermute:
    case CollectiveKind::kRaggedAllToAll: break;
  }
  int64_t bytes = 0;
  for (uint32_t peer = 0; peer < members; ++peer) {
    if (peer != rank) bytes += block_of(&call, &call, members, rank, peer).bytes();
  }
  return bytes;
}

}  // namespace gangway
