// StuckBoard: the devices that are stuck, as their executors report with each heartbeat.
//
// It logs a device that became stuck, once, with host, device, run, operation and the user's line;
// shows it in the metrics (gangway_device_stuck) and in the status of its host; and notes it at its
// run, so that the run's error says it if the run fails meanwhile. It takes all that back when the
// device goes on. It ends no work.
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

  // Takes the stuck devices that the host reports now. Returns whether stuck devices hold up runs,
  // or did until now: then the caller pumps the runs.
  bool update(HostRecord& host, std::vector<StuckDevice> stuck);

 private:
  void show(const HostRecord& host, const StuckDevice& stuck, bool is_stuck);

  RunTable& runs_;
  Metrics& metrics_;
  const Logger log_;
};

}  // namespace gangway
