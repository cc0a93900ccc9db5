#include "executor/devices/cuda/collectives/copy_collective.h"

#include <bit>

#include "executor/devices/cuda/collectives/card_moves.h"
#include "executor/devices/cuda/collectives/card_parts.h"

namespace gangway {

CopyCollective::CopyCollective(CardStreams& device, std::unique_ptr<Collective> rendezvous,
                               Options options)
    : ForwardingCollective(std::move(rendezvous)), device_(device), options_(options) {
  if (options_.kinds.has(CollectiveKind::kRaggedAllToAll))
    sizes_ = std::make_unique<RaggedSizes>(device_, size());
  for (cuda::EventHandle& event : part_.events) event = device_.gpu().driver().make_event().take();
}

CopyCollective::~CopyCollective() {
  for (const cuda::EventHandle event : part_.events) device_.gpu().driver().destroy(event);
}

int64_t CopyCollective::staging_bytes_for(int64_t bytes_max) {
  return 2 * bytes_in_part(bytes_max);
}

void CopyCollective::use_staging(std::byte* staging) {
  part_.staging[0] = staging;
  part_.staging[1] = staging + bytes_in_part(options_.bytes_max);
}

void CopyCollective::begin_exchange(uint64_t word, bool poisoned) {
  phase_ = Phase::kExchange;
  forward_exchange(word, poisoned);
}

void CopyCollective::begin(const CollectiveCall& call, bool poisoned) {
  keep(call);
  if (call.kind != CollectiveKind::kRaggedAllToAll) return begin_rendezvous(poisoned);
  sizes_->begin(call_, label_, poisoned);
  phase_ = Phase::kSizes;
}

void CopyCollective::begin_rendezvous(bool poisoned) {
  phase_ = Phase::kMeet;
  ++sequence_;
  const size_t half = sequence_ % 2;
  if (call_.kind == CollectiveKind::kRaggedAllToAll)
    part_.sizes[half].assign(call_.ragged.sizes, call_.ragged.sizes + size());
  if (!poisoned) poisoned = !lay_in(part_.staging[half]);
  part_.recorded[half] =
      device_.lost() == nullptr && device_.note(device_.gpu().driver().record(
                                       {device_.communication(), label_}, part_.events[half]));
  // All members are in this process: the word is the address of this member's part.
  rendezvous_->begin_exchange(reinterpret_cast<uintptr_t>(&part_),
                              poisoned || !part_.recorded[half]);
}

bool CopyCollective::lay_in(std::byte* part) {
  if (call_.kind == CollectiveKind::kReduceScatter) return lay_parts_in(part);
  const bool read = call_.kind != CollectiveKind::kBroadcast || call_.root == rank();
  return copy_in(device_, label_, read ? std::span(tensors_) : std::span<CollectiveTensor>(), part,
                 options_.bytes_max);
}

bool CopyCollective::lay_parts_in(std::byte* part) {
  if (device_.lost() != nullptr || !device_.note(device_.fork())) return false;
  return bytes_needed(call_) <= options_.bytes_max && pack_parts(device_, label_, call_, part);
}

Progress CopyCollective::advance() {
  if (phase_ == Phase::kSizes) {
    if (sizes_->advance(*rendezvous_) == Progress::kPending) return Progress::kPending;
    failure_ = sizes_->failure();
    if (rendezvous_->poisoned()) return device_.end_collective(), Progress::kDone;
    call_ = sizes_->known();
    begin_rendezvous(failure_ != nullptr);
  }
  if (rendezvous_->advance() == Progress::kPending) return Progress::kPending;
  if (phase_ == Phase::kExchange) return Progress::kDone;
  const size_t half = sequence_ % 2;
  std::vector<const Part*> parts;
  for (const uint64_t word : rendezvous_->words()) {
    parts.push_back(std::bit_cast<const Part*>(word));
    if (parts.back()->recorded[half] && device_.lost() == nullptr)
      device_.note(device_.gpu().driver().wait({device_.communication(), label_},
                                               parts.back()->events[half]));
  }
  if (!rendezvous_->poisoned() && device_.lost() == nullptr) finish(parts);
  device_.end_collective();
  return Progress::kDone;
}

void CopyCollective::finish(const std::vector<const Part*>& parts) {
  const bool reduces =
      call_.kind == CollectiveKind::kAllReduce || call_.kind == CollectiveKind::kReduceScatter;
  reduces ? reduce(parts) : take(parts);
}

void CopyCollective::reduce(const std::vector<const Part*>& parts) {
  const bool scatters = call_.kind == CollectiveKind::kReduceScatter;
  int64_t offset = scatters ? rank() * out_bytes(call_) : 0;
  std::vector<const std::byte*> pointers(parts.size());
  for (CollectiveTensor tensor : tensors_) {
    if (scatters) tensor.elements = out_bytes(call_) / static_cast<int64_t>(size_of(tensor.dtype));
    const int64_t bytes = bytes_of(tensor);
    if (bytes == 0) continue;
    for (size_t r = 0; r < parts.size(); ++r)
      pointers[r] = parts[r]->staging[sequence_ % 2] + offset;
    reduce_parts(device_, label_, call_.reduction, pointers, tensor);
    options_.meter.add(LinkClass::kHost,
                       bytes * static_cast<int64_t>(parts.size() - 1));  // The others'.
    offset += bytes_in_part(bytes);
  }
}

void CopyCollective::take(const std::vector<const Part*>& parts) {
  auto* const out = static_cast<std::byte*>(tensors_[0].out);
  const size_t half = sequence_ % 2;
  if (!zero_padding(device_, label_, call_, {rank(), size()})) return;
  CollectiveCall sender = call_;
  for (uint32_t r = 0; r < parts.size(); ++r) {
    sender.ragged.sizes = parts[r]->sizes[half].data();
    const Block block = kept(block_of(&sender, &call_, size(), r, rank()));
    if (!move_block(device_, label_, block, parts[r]->staging[half], out)) return;
    if (r != rank()) options_.meter.add(LinkClass::kHost, block.bytes());
  }
  if (call_.kind == CollectiveKind::kRaggedAllToAll) sizes_->tell(label_);
}

}  // namespace gangway
