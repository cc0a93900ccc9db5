// OrderLog: the steps of the devices of some hosts, in the order in which they were done.
//
// Tests hand one to their hosts (HostOptions::order_log) and check afterwards that every device
// followed the order of tickets (tests/support/order_check.h). A cluster in one process without
// this option uses order_log_of_test(), through executor/host/host.h.
//
// Threads: record() any; steps() once the devices are idle.
// Cost: a lock and an allocation for each step of a device; without a log, a branch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/ids.h"

namespace gangway {

// One entry of a run that a device has ended; or a client's read or write of a state on the device.
struct OrderedStep {
  std::string device;
  PlanId plan;        // 0, as are all fields up to the ticket: a client's access.
  uint32_t rank = 0;  // Rank on the device.
  RunId run;
  uint32_t node = 0;    // Node of the plan.
  uint32_t sender = 0;  // For a receive: the node that sends.
  bool receives = false;
  uint64_t ticket = 0;
  bool in_order = false;            // A collective on a device that begins them by ticket.
  std::vector<const void*> states;  // States that other programs may share.
  const void* region = nullptr;     // Memory that its run had to itself; null: none.
  // Arrays that it waited for, and, with the last entry of a run, arrays that others may read now.
  std::vector<const void*> reads, fills;
};

class OrderLog {
 public:
  void record(OrderedStep step) {
    const std::lock_guard lock(mutex_);
    steps_.push_back(std::move(step));
  }
  const std::vector<OrderedStep>& steps() const { return steps_; }

 private:
  std::mutex mutex_;
  std::vector<OrderedStep> steps_;
};

// A new log, which is checked when its last holder drops it. Only test programs define this
// function (tests/support/checked_order.cc).
std::shared_ptr<OrderLog> order_log_of_test() __attribute__((weak));

}  // namespace gangway
