#include "executor/devices/cuda/collectives/ragged_sizes.h"

#include <algorithm>
#include <utility>

namespace gangway {
namespace {

int64_t bytes_for(uint32_t members) { return int64_t{members} * 4; }

}  // namespace

RaggedSizes::RaggedSizes(CardStreams& device, uint32_t members)
    : device_(device),
      members_(members),
      pinned_(device.gpu().host_memory(2 * bytes_for(members), "sizes")),
      sizes_(members),
      received_(members) {}

void RaggedSizes::begin(const CollectiveCall& call, std::string_view label, bool poisoned) {
  call_ = call;
  received_on_card_ = call.ragged.received;
  failure_ = nullptr;
  met_ = false;
  std::ranges::fill(sizes_, 0);
  poisoned_ = poisoned || device_.lost() != nullptr;
  waits_ = !poisoned_ &&
           device_.note(device_.gpu().driver().copy({device_.compute(), label}, pinned_.get(),
                                                    call.ragged.sizes, bytes_for(members_)));
  poisoned_ = poisoned_ || !waits_;
  if (waits_) mark_ = device_.take_mark();
}

Progress RaggedSizes::advance(Collective& rendezvous) {
  if (waits_) {
    if (device_.look_for(mark_, &failure_) == Progress::kPending) return Progress::kPending;
    waits_ = false;
    poisoned_ = failure_ != nullptr;
    if (!poisoned_) take_sizes();
  }
  if (!std::exchange(met_, true)) begin_exchange(rendezvous);
  if (rendezvous.advance() == Progress::kPending) return Progress::kPending;
  if (!rendezvous.poisoned()) failure_ = overflow_of(call_, members_);
  return Progress::kDone;
}

void RaggedSizes::take_sizes() {
  device_.gpu().driver().host_access({pinned_.get(), bytes_for(members_), cuda::AccessKind::kRead},
                                     "sizes");
  keep_to_rows(reinterpret_cast<const int32_t*>(pinned_.get()), call_.ragged.rows, sizes_);
}

void RaggedSizes::begin_exchange(Collective& rendezvous) {
  call_.ragged.sizes = sizes_.data();
  call_.ragged.received = received_.data();
  tensor_ = {sizes_.data(), received_.data(), members_, DType::kI32};
  rendezvous.begin(sizes_call(tensor_, members_), poisoned_);
}

// The copy of earlier sizes is done: compute joined that collective before it came to the mark.
bool RaggedSizes::tell(std::string_view label) {
  const int64_t bytes = bytes_for(members_);
  std::byte* const from = pinned_.get() + bytes;
  cuda::Driver& driver = device_.gpu().driver();
  driver.host_access({from, bytes, cuda::AccessKind::kWrite}, label);
  std::ranges::copy(received_, reinterpret_cast<int32_t*>(from));
  return device_.note(
      driver.copy({device_.communication(), label}, received_on_card_, from, bytes));
}

}  // namespace gangway
