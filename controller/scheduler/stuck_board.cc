#include "controller/scheduler/stuck_board.h"

#include <algorithm>
#include <utility>

namespace gangway {
namespace {

bool lists(const std::vector<StuckDevice>& all, const StuckDevice& one) {
  return std::any_of(all.begin(), all.end(), [&](const StuckDevice& other) {
    return other.device == one.device && other.run == one.run;
  });
}

}  // namespace

bool StuckBoard::update(HostRecord& host, std::vector<StuckDevice> stuck) {
  for (const StuckDevice& one : stuck) {
    GW_REQUIRE(one.device < host.info.devices, "heartbeat: host \"", host.info.name,
               "\" has no device ", one.device);
  }
  const std::vector<StuckDevice> before = std::exchange(host.stuck, std::move(stuck));
  for (const StuckDevice& one : before) {
    if (lists(host.stuck, one)) continue;
    show(host, one, false);
    runs_.forget_stuck(host.id, one);
  }
  for (const StuckDevice& one : host.stuck) {
    runs_.note_stuck(host.id, one);
    if (lists(before, one)) continue;
    show(host, one, true);
    log_.warn("device is stuck", {{"host", host.info.name},
                                  {"device", one.device},
                                  {"run", one.run},
                                  {"in", one.what},
                                  {"at", one.at},
                                  {"for_ms", one.ms},
                                  {"waits_for_others", one.waits}});
  }
  return !before.empty() || !host.stuck.empty();
}

void StuckBoard::show(const HostRecord& host, const StuckDevice& stuck, bool is_stuck) {
  metrics_
      .gauge("gangway_device_stuck", "1: a device is stuck in a section that does not end",
             {{"host", host.info.name}, {"device", std::to_string(stuck.device)}})
      .set(is_stuck ? 1 : 0);
}

}  // namespace gangway
