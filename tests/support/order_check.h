// Checks in the devices' logs (executor/replay/order_log.h) that they followed the order of
// tickets:
//  - the runs of each rank of a plan on a device go by ascending tickets, and so do all steps that
//    share a state, including reads and writes of the state by clients;
//  - if runs use one region of a device's memory, none begins before the last has ended;
//  - the collectives of a device that orders them go by ascending tickets; ranks of one plan that
//    share the device may have the same ticket;
//  - all devices do a node of a run, section by section, with the same tickets;
//  - a receive has a higher ticket than its send, and a reader of an array has a higher one than
//    the steps that filled the array: no step waits for a higher ticket.
//
// When a run loses a host, each device gives the run up at whichever point it has reached: the
// device may have done none or only the first sections of its last node.
//
// Threads: pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/replay/order_log.h"
#include "runtime/base/cat.h"

namespace gangway {

enum class RunsAre : uint8_t {
  kWhole,       // Each device has done all of its part.
  kPerhapsCut,  // Some runs lost a host.
};

namespace internal {

inline std::string step_text(const OrderedStep& step) {
  if (step.plan == PlanId()) return cat("a client's ticket ", step.ticket);
  return cat("run ", step.run, " node ", step.node, " ticket ", step.ticket);
}

class OrderCheck {
 public:
  // Returns which rule the step breaks; empty if none.
  std::string add(const OrderedStep& step) {
    const bool is_client = step.plan == PlanId();
    std::string broken;
    if (!is_client)
      broken = after(rank_streams_[{step.device, {step.plan, step.rank}}], step,
                     "the plan's rank stream");
    if (step.in_order && broken.empty()) {
      Last& last = collectives_[step.device];
      const bool is_beside = last.first && last.second.ticket == step.ticket &&
                             last.second.plan == step.plan && last.second.rank != step.rank;
      if (!is_beside) broken = after(last, step, "collectives");
    }
    for (const void* state : step.states) {
      if (broken.empty()) broken = after(states_[{step.device, state}], step, "a state");
    }
    if (broken.empty()) broken = after_region(step);
    if (!is_client) by_device_[{step.plan, step.run, step.node}][step.device].insert(step.ticket);
    if (step.receives) received_.push_back(step);
    if (broken.empty()) broken = after_arrays(step);
    for (const void* array : step.fills) filled_[{step.device, array}] = step;
    return broken;
  }

  // Checks the rules that need all steps; call it after the last add().
  std::string end(RunsAre runs) const {
    for (const auto& [node, devices] : by_device_) {
      // The device that did most sections of the node.
      const auto most = std::max_element(
          devices.begin(), devices.end(),
          [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
      for (const auto& [device, tickets] : devices) {
        const bool is_part = std::equal(
            tickets.begin(), tickets.end(), most->second.begin(),
            std::next(most->second.begin(), static_cast<std::ptrdiff_t>(tickets.size())));
        if (is_part && (runs == RunsAre::kPerhapsCut || tickets.size() == most->second.size()))
          continue;
        return cat("run ", std::get<RunId>(node), " node ", std::get<uint32_t>(node), ": ", device,
                   " and ", most->first, " did it with other tickets");
      }
    }
    for (const OrderedStep& step : received_) {
      const auto sent = by_device_.find({step.plan, step.run, step.sender});
      if (sent == by_device_.end()) continue;  // The sender's host has no log here, or gave up.
      const uint64_t ticket = *sent->second.begin()->second.begin();
      if (ticket >= step.ticket)
        return cat(step.device, ": ", step_text(step), " waited for a send with ticket ", ticket);
    }
    return {};
  }

 private:
  using Last = std::pair<bool, OrderedStep>;
  static std::string after(Last& last, const OrderedStep& step, const char* what) {
    const bool broken = last.first && last.second.ticket >= step.ticket;
    const std::string before = broken ? step_text(last.second) : std::string();
    last = {true, step};
    return broken ? cat(step.device, ": ", what, ": ", step_text(step), " came after ", before)
                  : std::string();
  }

  // A run must not use a region again after another run has used it.
  std::string after_region(const OrderedStep& step) {
    if (step.region == nullptr) return {};
    Region& region = regions_[{step.device, step.region}];
    if (region.last.run == step.run) return {};
    const std::string before = step_text(region.last);
    region.ended.insert(region.last.run);
    region.last = step;
    if (!region.ended.contains(step.run)) return {};
    return cat(step.device, ": ", step_text(step), " found its temporaries overwritten by ",
               before);
  }

  std::string after_arrays(const OrderedStep& step) const {
    for (const void* array : step.reads) {
      const auto filled = filled_.find({step.device, array});
      if (filled != filled_.end() && filled->second.ticket >= step.ticket)
        return cat(step.device, ": ", step_text(step), " waited for an array of ",
                   step_text(filled->second));
    }
    return {};
  }

  std::map<std::pair<std::string, std::pair<PlanId, uint32_t>>, Last> rank_streams_;
  std::map<std::string, Last> collectives_;
  std::map<std::pair<std::string, const void*>, Last> states_;
  struct Region {
    OrderedStep last;
    std::set<RunId> ended;
  };
  std::map<std::pair<std::string, const void*>, Region> regions_;
  std::map<std::pair<std::string, const void*>, OrderedStep> filled_;
  // The tickets of a node's sections, by node of a run, then by device.
  using NodeOfRun = std::tuple<PlanId, RunId, uint32_t>;
  std::map<NodeOfRun, std::map<std::string, std::set<uint64_t>>> by_device_;
  std::vector<OrderedStep> received_;
};

}  // namespace internal

// The first violation of the order; empty if there is none.
inline std::string broken_order(const OrderLog& log, RunsAre runs = RunsAre::kWhole) {
  internal::OrderCheck check;
  for (const OrderedStep& step : log.steps()) {
    if (std::string broken = check.add(step); !broken.empty()) return broken;
  }
  return check.end(runs);
}

}  // namespace gangway
