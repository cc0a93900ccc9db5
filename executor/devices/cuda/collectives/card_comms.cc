#include "executor/devices/cuda/collectives/card_comms.h"

#include <vector>

#include "executor/devices/cuda/collectives/card_exchange.h"
#include "executor/devices/cuda/collectives/card_moves.h"
#include "executor/devices/cuda/collectives/card_parts.h"

namespace gangway {
namespace {

bool is_outermost(const CollectiveCut& cut) { return cut.dims[0] == 1; }

}  // namespace

cuda::Status CardComms::enqueue(CardTraffic& moved) const {
  switch (call().kind) {
    case CollectiveKind::kAllReduce:
      moved.sent = 2 * in_bytes(call()) * (cards - 1) / cards;
      return device.gpu().driver().all_reduce(at(), comm, call().tensors, call().reduction);
    case CollectiveKind::kAllGather: return gather(moved);
    case CollectiveKind::kReduceScatter:
      return here.size() == 1 ? scatter(moved) : scatter_ranks(moved);
    case CollectiveKind::kBroadcast: return broadcast(moved);
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kPermute:
    case CollectiveKind::kRaggedAllToAll: break;
  }
  return CardExchange(*this, moved).run();
}

cuda::Status CardComms::gather(CardTraffic& moved) const {
  CollectiveTensor tensor = call().tensors[0];
  auto* const out = static_cast<std::byte*>(tensor.out);
  std::byte* const staging = here[0].staging;
  const int64_t bytes = bytes_of(tensor);
  const bool whole = is_outermost(call().cut) && call().cut.whole == size() * call().cut.dims[1];
  // They do not fit if most of the parts are dropped.
  const bool fits = whole || size() * bytes <= staging_bytes(bytes_needed(call()), size());
  if (here.size() > 1 || !fits) {
    const cuda::Status status = CardExchange(*this, moved).run();
    return !status.ok() || copy_to_others(moved) ? status : copy_failed(label);
  }
  if (!whole) tensor.out = staging;
  cuda::Status status = device.gpu().driver().all_gather(at(), comm, {&tensor, 1});
  moved.sent = bytes * (cards - 1);
  for (uint32_t r = 0; !whole && r < size() && status.ok(); ++r) {
    const Block block = block_of(&call(), &call(), size(), r, here[0].rank);
    if (!move_block(device, label, block, staging + r * bytes, out)) status = copy_failed(label);
  }
  return status;
}

// Copies the lowest rank's result, which all ranks of the card get, to the others.
bool CardComms::copy_to_others(CardTraffic& moved) const {
  const int64_t bytes = out_bytes(call());
  for (const CardRank& other : here.subspan(1)) {
    if (bytes == 0) break;
    if (!device.note(device.gpu().driver().copy(at(), other.call->tensors[0].out,
                                                call().tensors[0].out, bytes)))
      return false;
    moved.here += bytes;
  }
  return true;
}

cuda::Status CardComms::broadcast(CardTraffic& moved) const {
  const uint32_t root = card_of[call().root], card = card_of[here[0].rank];
  CollectiveTensor tensor = call().tensors[0];
  for (const CardRank& rank : here) {
    if (rank.rank == call().root) tensor.in = rank.call->tensors[0].in;
  }
  const cuda::Status status = device.gpu().driver().broadcast(at(), comm, {&tensor, 1}, root);
  // All but the card before the root's pass it on.
  if ((card + 1) % cards != root) moved.sent = bytes_of(tensor);
  return !status.ok() || copy_to_others(moved) ? status : copy_failed(label);
}

cuda::Status CardComms::scatter(CardTraffic& moved) const {
  CollectiveTensor tensor = call().tensors[0];
  std::byte* const staging = here[0].staging;
  const bool whole = is_outermost(call().cut) && call().cut.dims[1] == size() * call().cut.part;
  if (!whole && !pack_parts(device, label, call(), staging)) return copy_failed(label);
  if (!whole) tensor.in = staging;
  tensor.elements = out_bytes(call()) / static_cast<int64_t>(size_of(tensor.dtype));
  moved.sent = out_bytes(call()) * (cards - 1);
  return device.gpu().driver().reduce_scatter(at(), comm, {&tensor, 1}, call().reduction);
}

// The parts lie in staging by card, so that each card gets those of its ranks together.
cuda::Status CardComms::scatter_ranks(CardTraffic& moved) const {
  const int64_t part = out_bytes(call());
  if (part == 0) return {};
  std::vector<uint32_t> order;  // Ranks.
  for (uint32_t card = 0; card < cards; ++card) {
    for (uint32_t rank = 0; rank < size(); ++rank) {
      if (card_of[rank] == card) order.push_back(rank);
    }
  }
  std::vector<const std::byte*> parts;
  for (const CardRank& rank : here) {
    if (!pack_parts(device, label, *rank.call, order, rank.staging)) return copy_failed(label);
    parts.push_back(rank.staging);
  }
  CollectiveTensor sum = call().tensors[0];
  const auto width = static_cast<int64_t>(size_of(sum.dtype));
  std::byte* const half = here[0].staging + staging_bytes(bytes_needed(call()), size()) / 2;
  sum.elements = part * size() / width;
  sum.out = half;
  reduce_parts(device, label, call().reduction, parts, sum);
  moved.here = part * size() * static_cast<int64_t>(here.size() - 1);
  const auto ranks = static_cast<int64_t>(here.size());
  const CollectiveTensor mine{half, here[0].staging, part * ranks / width, sum.dtype};
  moved.sent = part * ranks * (cards - 1);
  cuda::Status status =
      device.gpu().driver().reduce_scatter(at(), comm, {&mine, 1}, call().reduction);
  for (size_t r = 0; r < here.size() && status.ok(); ++r) {
    const std::byte* const from = here[0].staging + static_cast<int64_t>(r) * part;
    status = device.gpu().driver().copy(at(), here[r].call->tensors[0].out, from, part);
    if (r > 0) moved.here += part;
  }
  return status;
}

}  // namespace gangway
