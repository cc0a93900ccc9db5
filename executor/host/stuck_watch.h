// StuckWatch: finds the runs of a host that make no progress, and says what each is stuck in.
//
// A device is stuck when the entry of a plan that it is at (a section of a call, a transfer, the
// gate) has not ended for this long:
//
//   it has ended here before    max(1 s, 5 x the longest time that it took)
//   it has not                  max(1 s, 20 x what the cost model says)
//
// An entry that waits for other devices may take what the model says of the whole plan. A run that
// waits for its tickets is not stuck: the controller has not granted it. The watch ends nothing:
// this host and the controller only report the stuck devices.
//
// "Stuck" is about work; a host that sends nothing is suspect and then lost, which the controller
// finds (controller/scheduler/host_watch.h).
//
// Two looks, kLookMs apart, compare how far each run has come, so that the cost on device threads
// is two plain stores an entry. A time is known to within two looks, and is rounded up. Time in
// which this process stood still does not count.
// Threads: reactor thread.
// Cost: look() O(devices of the runs in flight).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/host/host.h"
#include "executor/host/installed_plan.h"
#include "protocol/messages.h"

namespace gangway {

class StuckWatch {
 public:
  static constexpr int64_t kLookMs = Host::kLookMs;

  // Call it every kLookMs. Returns true if the set of stuck devices has changed.
  bool look(const std::vector<const InstalledPlan*>& plans, int64_t now_ns);
  // At most one entry for each device: the one that waits for no other, or else the one that has
  // lasted longest.
  const std::vector<StuckDevice>& stuck() const { return stuck_; }
  // How many plans on devices it watches.
  size_t size() const { return records_.size(); }
  // The entry that each device is at and for how long, a line each.
  std::string describe(const std::vector<const InstalledPlan*>& plans) const;

 private:
  // A plan on a device: where its front run was seen, and how long its entries took.
  struct Record {
    PlanId plan;
    RunId run;  // 0: there was no run.
    uint32_t progress = 0;
    int64_t for_ns = 0;  // Time for which it has been seen at this progress.
    bool ended_once = false;
    std::map<uint32_t, int64_t> longest_ns;  // Keys are entries that took longer than a look.
  };

  void look_at(const InstalledPlan& plan, size_t device, int64_t passed_ns,
               std::map<uint32_t, StuckDevice>& found);
  static void note_end(Record& record);
  static int64_t limit_ns(const Record& record, const InstalledPlan& plan, size_t device,
                          bool waits);

  int64_t last_look_ns_ = 0;  // 0: there was none.
  std::map<const DevicePlan*, Record> records_;
  std::vector<StuckDevice> stuck_;
};

}  // namespace gangway
