// HostEvents: what a host reports to its controller about runs and host transfers.
//
// Threads: reactor thread.
#pragma once

#include "protocol/messages.h"

namespace gangway {

class HostEvents {
 public:
  virtual ~HostEvents() = default;
  // This host's part of a run ended. With an error the run did not commit, and `is_origin` says
  // whether this host raised the error (the others only received it). Without an error, scalar
  // outputs of at most kSmallBytesMax bytes come along, so that item() costs no second trip.
  virtual void run_done(RunDoneFrame done) = 0;
  // Devices have ended sections of runs that are granted section by section. Sections that no such
  // frame reports are reported with the end of the run.
  virtual void progress(ProgressFrame) {}
  // Writes of this host to a peer's memory do not arrive any more. Reported once for each plan that
  // uses the link.
  virtual void link_broken(LinkBrokenFrame) {}
  virtual void transfer_done(HostTransferDoneFrame done) = 0;  // A put or get ended.
};

}  // namespace gangway
