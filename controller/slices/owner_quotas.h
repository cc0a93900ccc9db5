// OwnerQuotas: holds each owner to its quota (quotas.h), over all of its programs.
//
// Devices and programs are looked at when a slice is asked for, memory of devices when some is
// reserved, and the controller's own memory by OwnerUse, which gets its bounds from here.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: the tables outlive it; it takes its check of memory out of the hosts when it ends.
// Errors: none are thrown; who asks says them, with what the owner's programs hold.
// Cost: O(programs) a look; nothing for reservations where no quota bounds memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "controller/hosts/hosts.h"
#include "controller/owners/owner_use.h"
#include "controller/owners/program_names.h"
#include "controller/owners/quotas.h"
#include "controller/slices/slices.h"

namespace gangway {

class OwnerQuotas {
 public:
  OwnerQuotas(HostTable& hosts, const SliceTable& slices, OwnerUse& owner_use,
              const ProgramNames& names)
      : hosts_(hosts), slices_(slices), owner_use_(owner_use), names_(names) {}
  ~OwnerQuotas() { hosts_.limit_memory(nullptr); }
  OwnerQuotas(const OwnerQuotas&) = delete;

  // Replaces the quotas. Holders keep what they hold, and clients that wait are looked at again.
  void set(Quotas quotas);
  const Quota& of(const std::string& owner) const { return quotas_.of(owner); }
  // How the slice would exceed the quota of the session's owner. None: it fits.
  std::optional<OverQuota> over(SessionId session, const SliceShape& shape) const;

 private:
  // The same for memory of devices, as text; empty: it fits.
  std::string over_memory(const std::string& holder, int64_t bytes) const;

  HostTable& hosts_;
  const SliceTable& slices_;
  OwnerUse& owner_use_;
  const ProgramNames& names_;
  Quotas quotas_;
};

}  // namespace gangway
