// StuckBoard: which devices are stuck, as their executors say with each heartbeat.
//
// It logs a device that became stuck, once, with host, device, run, operation and the user's line;
// shows it in the metrics (gangway_device_stuck) and in the status of its host; and tells its run,
// whose client hears of it if the run fails meanwhile. All of it is taken back when the device goes
// on. Nothing is ended because of it.
//
// Threads: the reactor's thread.
// Errors: kInvalid for a device that the host does not have.
// Cost: O(devices that are stuck) a heartbeat.
#pragma once

#include <string>
#include <vector>

#include "controller/scheduler/runs.h"
#include "runtime/observe/log.h"
#include "runtime/observe/metrics.h"

namespace gangway {

class StuckBoard {
 public:
  StuckBoard(RunTable& runs, Metrics& metrics, Logger log)
      : runs_(runs), metrics_(metrics), log_(std::move(log)) {}

  // What the host says now; none: no device of it is stuck. Whether runs are held up by it, or were
  // until now: then the caller pumps the runs.
  bool update(HostRecord& host, std::vector<StuckDevice> stuck);

 private:
  void show(const HostRecord& host, const StuckDevice& stuck, bool is_stuck);

  RunTable& runs_;
  Metrics& metrics_;
  const Logger log_;
};

}  // namespace gangway
