// StuckWatch: finds the runs of a host that do not go on, and says what each is stuck in.
//
// A device is stuck when the entry of a plan that it is at (a section of a call, a transfer, the
// gate) has not ended for so long:
//
//   it has ended here before    max(1 s, 5 x the longest time that it took)
//   it has not                  max(1 s, 20 x what the cost model says)
//
// where an entry that waits for other devices may take what the model says of the whole plan. A run
// that waits for its tickets is not stuck: the controller has not granted it. Nothing is ended
// because of it: it is named, here and by the controller.
//
// "Stuck" is about work; a host that says nothing is suspect and then lost, which the controller
// finds (controller/recovery/host_watch.h).
//
// Two looks, kLookMs apart, compare how far each run has come, so device threads pay nothing for
// it but two plain stores an entry. A time is known to within two looks, and errs to the longer.
// The time in which this process stood still does not count.
// Threads: reactor thread.
// Cost: look() O(devices of the runs in flight).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "executor/host/host.h"
#include "executor/host/host_plan.h"
#include "protocol/messages.h"

namespace gangway {

class StuckWatch {
 public:
  static constexpr int64_t kLookMs = Host::kLookMs;

  // To be called every kLookMs. True: another device is stuck than before, or one fewer.
  bool look(const std::vector<const HostPlan*>& plans, int64_t now_ns);
  // At most one for each device: the one that waits for no other, then the one that is at it
  // longest.
  const std::vector<StuckDevice>& stuck() const { return stuck_; }
  // What each device is at and for how long, a line each.
  std::string describe(const std::vector<const HostPlan*>& plans) const;

 private:
  // A plan on a device: where its front run was seen, and what its entries took.
  struct Record {
    PlanId plan;
    RunId run;  // 0: none was there.
    uint32_t progress = 0;
    int64_t for_ns = 0;  // It was seen at this progress.
    bool ended_once = false;
    std::map<uint32_t, int64_t> longest_ns;  // By entry; without those that took less than a look.
  };

  void look_at(const HostPlan& plan, size_t device, int64_t passed_ns,
               std::map<uint32_t, StuckDevice>& found);
  static void note_end(Record& record);
  static int64_t limit_ns(const Record& record, const HostPlan& plan, const DevicePlan& device,
                          bool waits);

  int64_t last_look_ns_ = 0;  // 0: none.
  std::map<const DevicePlan*, Record> records_;
  std::vector<StuckDevice> stuck_;
};

}  // namespace gangway
