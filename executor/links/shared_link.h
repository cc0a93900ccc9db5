// SharedLink: a HostLink between processes of one machine, over shared segments: one for the
// doorbells of the host's devices, and one for each memory that it offers.
//
// Threads, errors: see host_link.h.
// Ownership: the system frees a segment with the last process that holds it.
#pragma once

#include <memory>

#include "executor/links/host_link.h"
#include "executor/work/bell.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

class SharedLink final : public HostLink {
 public:
  explicit SharedLink(uint32_t devices);

  // The bell on which a device of this host parks.
  Bell bell(uint32_t device) const;
  std::shared_ptr<OwnMemory> offer(const AreaList& areas) override;
  std::shared_ptr<PeerMemory> open(std::span<const std::byte> offer) override;

 private:
  const uint32_t devices_;
  const std::shared_ptr<const SharedSegment> bells_;
};

}  // namespace gangway
