// LinkedPlan: a plan whose ranks have their collectives, gates and channels, over memory of this
// host and of its peers.
//
// Threads: reactor thread.
// Errors: kInvalid if an offer is missing or wrong, kUnavailable if a peer's memory lacks an area.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "executor/host/laid_out_plan.h"
#include "executor/links/host_link.h"
#include "executor/transfers/device_link.h"
#include "protocol/install.h"

namespace gangway {

struct PlanLinks {
  // Indexed by host; null: nothing is written to it.
  std::vector<std::shared_ptr<PeerMemory>> peers;
  // Keys are a receive and a mesh device.
  std::map<std::pair<uint32_t, uint32_t>, std::shared_ptr<DeviceLink>> device_links;
  std::vector<LinkedShare> shares;  // Indexed by rank.
};

struct LinkedPlan : LaidOutPlan {
  LinkedPlan(LaidOutPlan&& given, PlanLinks&& with)
      : LaidOutPlan(std::move(given)), links(std::move(with)) {}

  PlanLinks links;
};

// `offers`: those of the hosts that this one writes to. Takes the plan over; if this throws, the
// plan is as before.
LinkedPlan linked(LaidOutPlan& plan, const std::vector<LinkOffer>& offers,
                  const HostDevices& devices);

}  // namespace gangway
