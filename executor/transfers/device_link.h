// DeviceLink: how one discrete device writes into another's memory, both of one process, with no
// host memory in between.
//
//   sender    send(): the copy runs after what the sender has started, beside its later steps
//   receiver  receive(), once the sender has stamped the slot: later steps wait for the copy
//
// Invariant: a slot is written again only after the receiver has given it back.
// Threads: send() and join() on the sender's device thread, receive() on the receiver's.
// Ownership: owned by a plan's channels; both devices outlive it.
// Errors: send() returns immediate failures; later ones are failures of a mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/error.h"

namespace gangway {

class DeviceLink {
 public:
  virtual ~DeviceLink() = default;

  // `from` is read until the point that join() orders.
  virtual std::shared_ptr<const Error> send(uint32_t slot, void* to, const void* from,
                                            int64_t bytes) = 0;
  // Work that the sender starts from now on comes after all that it sent.
  virtual void join() = 0;
  virtual void receive(uint32_t slot) = 0;
};

}  // namespace gangway
