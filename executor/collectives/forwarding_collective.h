// ForwardingCollective: the common part of collectives whose members meet in host memory, by a
// *rendezvous*, while the bytes go another way.
//
// The members agree by the rendezvous, so questions about that are forwarded there. Abort flags are
// not: a collective forwards them if its members may wait outside of the rendezvous. A device whose
// bytes go through host memory as well uses the rendezvous itself.
//
// Threads, errors: see collective.h.
// Ownership: the rendezvous; a call's tensors are the caller's.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/collectives/collective_call.h"

namespace gangway {

class ForwardingCollective : public Collective {
 public:
  uint32_t rank() const final { return rendezvous_->rank(); }
  uint32_t size() const final { return rendezvous_->size(); }
  void name(std::string_view label) override { label_ = label; }
  bool poisoned() const override { return rendezvous_->poisoned(); }
  uint64_t least() const final { return rendezvous_->least(); }
  uint64_t most() const final { return rendezvous_->most(); }
  std::span<const uint64_t> words() const final { return rendezvous_->words(); }
  std::shared_ptr<const Error> failure() const final { return failure_; }

 protected:
  explicit ForwardingCollective(std::unique_ptr<Collective> rendezvous)
      : rendezvous_(std::move(rendezvous)) {}

  void forward_exchange(uint64_t word, bool poisoned) {
    failure_ = nullptr;
    rendezvous_->begin_exchange(word, poisoned);
  }
  void keep(const CollectiveCall& call) {
    tensors_.assign(call.tensors.begin(), call.tensors.end());
    call_ = call;
    call_.tensors = tensors_;
    failure_ = nullptr;
  }

  const std::unique_ptr<Collective> rendezvous_;
  std::string_view label_ = "all_reduce";
  std::vector<CollectiveTensor> tensors_;
  CollectiveCall call_;  // Its tensors are the ones above.
  std::shared_ptr<const Error> failure_;
};

}  // namespace gangway
