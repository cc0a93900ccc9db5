// Whether devices followed the order of tickets, by what they wrote down (executor/replay/
// order_log.h):
//  - the runs of each rank of a plan on a device go by ascending tickets, and so does all that
//    shares a state, what clients read and write of it included;
//  - of runs that lie over one another in a device's memory, none begins before the last has ended;
//  - so do collectives, on a device that begins them by ticket, but for ranks that share one;
//  - all devices do a node of a run, section by section, with the same tickets;
//  - what is received was sent with a lower ticket, and an array that is read was filled with
//    lower ones: nothing waited on a higher one.
//
// A run that loses a host is given up wherever each device is: of its last node a device may have
// done the first sections alone, or none.
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
  kPerhapsCut,  // Some lost a host.
};

namespace internal {

inline std::string step_text(const OrderedStep& step) {
  if (step.plan == PlanId()) return cat("a client's ticket ", step.ticket);
  return cat("run ", step.run, " node ", step.node, " ticket ", step.ticket);
}

class OrderCheck {
 public:
  // What the step breaks.
  std::string add(const OrderedStep& step) {
    const bool is_client = step.plan == PlanId();
    std::string broken;
    if (!is_client)
      broken = after(lanes_[{step.device, {step.plan, step.rank}}], step, "the plan's lane");
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

  // Once all steps are known.
  std::string end(RunsAre runs) const {
    for (const auto& [node, devices] : by_device_) {
      // Who did most of it.
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
      if (sent == by_device_.end()) continue;  // On a host without this log, or given up.
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

  // A run that another one has followed into a region does not come back.
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

  std::map<std::pair<std::string, std::pair<PlanId, uint32_t>>, Last> lanes_;
  std::map<std::string, Last> collectives_;
  std::map<std::pair<std::string, const void*>, Last> states_;
  struct Region {
    OrderedStep last;
    std::set<RunId> ended;
  };
  std::map<std::pair<std::string, const void*>, Region> regions_;
  std::map<std::pair<std::string, const void*>, OrderedStep> filled_;
  // By node of a run, then by device: the tickets of its sections.
  using NodeOfRun = std::tuple<PlanId, RunId, uint32_t>;
  std::map<NodeOfRun, std::map<std::string, std::set<uint64_t>>> by_device_;
  std::vector<OrderedStep> received_;
};

}  // namespace internal

// Empty, or what broke the order first.
inline std::string broken_order(const OrderLog& log, RunsAre runs = RunsAre::kWhole) {
  internal::OrderCheck check;
  for (const OrderedStep& step : log.steps()) {
    if (std::string broken = check.add(step); !broken.empty()) return broken;
  }
  return check.end(runs);
}

}  // namespace gangway
