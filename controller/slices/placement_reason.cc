#include "controller/slices/placement_reason.h"

#include <algorithm>
#include <set>

#include "runtime/base/cat.h"

namespace gangway {
namespace {

std::string counted(size_t count, const char* what) {
  return cat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace

std::string placement_reason(const std::vector<OfferedHost>& offered,
                             const std::vector<DeviceRef>& chosen) {
  const std::set<DeviceRef> taken(chosen.begin(), chosen.end());
  std::set<std::string> islands, islands_taken;
  size_t hosts = 0, hosts_taken = 0, left = 0;
  int shares = 0;
  for (const OfferedHost& host : offered) {
    if (host.offered.empty()) continue;
    ++hosts;
    islands.insert(host.island);
    bool is_taken = false;
    size_t unused = 0;
    for (const OfferedDevice& device : host.offered) {
      if (taken.contains({host.id, device.device})) {
        is_taken = true;
        shares = std::max(shares, device.shares);
      } else if (device.shares == 0) {
        ++unused;
      }
    }
    if (!is_taken) continue;
    ++hosts_taken;
    left += unused;
    islands_taken.insert(host.island);
  }
  std::string names;
  for (const std::string& name : islands_taken) names += cat(names.empty() ? "" : ", ", name);
  return cat(hosts == 1 ? std::string("the only host with devices")
                        : cat("the best of ", counted(hosts, "host"), " in ",
                              counted(islands.size(), "island")),
             ": ", counted(hosts_taken, "host"), " of ",
             islands_taken.size() == 1 ? "island " : "islands ", names, ", whose devices had ",
             shares == 0 ? "no other slice"
                         : cat("at most ", counted(static_cast<size_t>(shares), "other slice")),
             "; ", left, " of ", hosts_taken == 1 ? "its" : "their", " devices ",
             left == 1 ? "is" : "are", " left unused");
}

}  // namespace gangway
