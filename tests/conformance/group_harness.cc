#include "tests/conformance/group_harness.h"

#include <algorithm>

namespace gangway {

GroupHarness::GroupHarness(const Options& options, const MakeLink& make_link)
    : members_(options.host_of.size()) {
  std::vector<GroupDevice> devices;
  std::map<uint32_t, uint32_t> count;
  for (const uint32_t host : options.host_of) devices.push_back({host, device_of(count[host]++)});
  hosts_.resize(count.rbegin()->first + 1);
  for (size_t r = 0; r < devices.size(); ++r) meters_.push_back(std::make_unique<LinkMeter>());
  for (const auto& [h, members] : count) {
    Host& host = hosts_[h];
    host.link = make_link(device_of(members));
    host.view = group_of("group", devices, h, options.bytes_max, options.abort_flags,
                         [self = h](uint32_t other) {
                           return other == self ? LinkClass::kHost : LinkClass::kIsland;
                         });
    host.view.kinds = options.kinds;
    AreaList areas;
    for (uint32_t m = 0; m < members; ++m) {
      for_each_area(host.view, m,
                    [&](const std::string& name, int64_t bytes) { areas.add(name, bytes); });
    }
    host.memory = host.link->offer(areas);
  }
  for (const auto& [h, _] : count) {
    Host& host = hosts_[h];
    GroupLinks links{.memory = host.memory,
                     .memory_of = [&, self = h](uint32_t to, uint32_t) -> PeerMemory& {
                       return peer(self, to, options.counted);
                     }};
    for (const GroupView::Member& member : host.view.here()) {
      links.bells.push_back(options.bell_of(*host.link, member.rank, member.device));
      links.meters.push_back(meters_[member.rank].get());
    }
    auto made = join_group(host.view, links);
    for (size_t m = 0; m < made.size(); ++m)
      members_[host.view.here()[m].rank] = std::move(made[m]);
  }
}

PeerMemory& GroupHarness::peer(uint32_t self, uint32_t host, bool counted) {
  std::shared_ptr<PeerMemory>& memory = hosts_[self].peers[host];
  if (memory == nullptr && host == self) memory = hosts_[self].memory;
  if (memory == nullptr) {
    memory = hosts_[self].link->open(hosts_[host].memory->offer());
    if (counted)
      memory = std::make_shared<CountedMemory>(std::move(memory), hosts_[self].writes, host);
  }
  return *memory;
}

}  // namespace gangway
