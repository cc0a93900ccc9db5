#include "executor/devices/cuda/collectives/copy_collective.h"

#include <bit>

#include "executor/collectives/collective_call.h"
#include "executor/devices/cuda/collectives/card_parts.h"

namespace gangway {

CopyCollective::CopyCollective(CardStreams& device, std::unique_ptr<Collective> meeting,
                               int64_t bytes_max, LinkMeter& meter)
    : device_(device), meeting_(std::move(meeting)), bytes_max_(bytes_max), meter_(meter) {
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
  part_.staging[1] = staging + bytes_in_part(bytes_max_);
}

void CopyCollective::begin_exchange(uint64_t word, bool poisoned) {
  reducing_ = false;
  meeting_->begin_exchange(word, poisoned);
}

void CopyCollective::begin(const CollectiveCall& call, bool poisoned) {
  tensors_.assign(call.tensors.begin(), call.tensors.end());
  reduction_ = call.reduction;
  reducing_ = true;
  ++sequence_;
  const size_t half = sequence_ % 2;
  if (!poisoned) poisoned = !copy_in(device_, label_, tensors_, part_.staging[half], bytes_max_);
  part_.recorded[half] =
      device_.lost() == nullptr && device_.note(device_.gpu().driver().record(
                                       {device_.communication(), label_}, part_.events[half]));
  // All members are in this process: the word is where my part stands.
  meeting_->begin_exchange(reinterpret_cast<uintptr_t>(&part_), poisoned || !part_.recorded[half]);
}

Progress CopyCollective::advance() {
  if (meeting_->advance() == Progress::kPending) return Progress::kPending;
  if (!std::exchange(reducing_, false)) return Progress::kDone;
  const size_t half = sequence_ % 2;
  std::vector<const Part*> parts;
  for (const uint64_t word : meeting_->words()) {
    parts.push_back(std::bit_cast<const Part*>(word));
    if (parts.back()->recorded[half] && device_.lost() == nullptr)
      device_.note(device_.gpu().driver().wait({device_.communication(), label_},
                                               parts.back()->events[half]));
  }
  if (!meeting_->poisoned() && device_.lost() == nullptr) reduce(parts);
  device_.end_collective();
  return Progress::kDone;
}

void CopyCollective::reduce(const std::vector<const Part*>& parts) {
  int64_t offset = 0;
  std::vector<const std::byte*> pointers(parts.size());
  for (const CollectiveTensor& tensor : tensors_) {
    const int64_t bytes = bytes_of(tensor);
    if (bytes == 0) continue;
    for (size_t r = 0; r < parts.size(); ++r)
      pointers[r] = parts[r]->staging[sequence_ % 2] + offset;
    reduce_parts(device_, label_, reduction_, pointers, tensor);
    meter_.add(LinkClass::kHost, bytes * static_cast<int64_t>(parts.size() - 1));  // The others'.
    offset += bytes_in_part(bytes);
  }
}

}  // namespace gangway
