// Links the members of a group on one host with one another and with other hosts: the memory that
// they receive in, and their collectives over it.
//
//   group_of() -> for_each_area(): into the memory that the host offers -> join_group()
//
// Threads: reactor thread.
// Errors: join_group() throws what opening a peer's memory throws.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "executor/collectives/collective.h"
#include "executor/links/host_link.h"
#include "executor/transfers/link_meter.h"
#include "executor/work/bell.h"
#include "ir/plan/islands.h"
#include "ir/plan/plan_members.h"

namespace gangway {

// The device of a host that a member of a group is on; it may have several members.
struct GroupDevice {
  uint32_t host = 0, device = 0;
};

// A group as one host sees it.
struct GroupView {
  struct Member {
    uint32_t rank = 0, device = 0;
  };
  struct OnHost {
    uint32_t host = 0;
    LinkClass link = LinkClass::kHost;  // Link from this host.
    uint32_t count = 0;                 // Its members.
    // In the order of ranks. Another host of an exchange_of() has only its first member here.
    std::vector<Member> members;
  };

  std::string name;           // Equal on all hosts; no other group of the plan has it.
  uint32_t size = 0;          // Members on all hosts.
  std::vector<OnHost> hosts;  // In the order of their lowest ranks.
  uint32_t self = 0;          // Index of this host among them.
  int64_t bytes_max = 0;      // Limit for a collective; 0: members only do exchanges.
  CollectiveKinds kinds{};    // Kinds that they do, besides all-reduces.
  bool abort_flags = false;   // Members raise abort flags.

  const std::vector<Member>& here() const { return hosts[self].members; }
};

// `devices`: by rank. `link`: the class of the link to that host.
GroupView group_of(std::string name, std::span<const GroupDevice> devices, uint32_t self,
                   int64_t bytes_max, bool abort_flags,
                   const std::function<LinkClass(uint32_t host)>& link);

// A group that only does exchanges, with its ranks host by host. `devices_here`: the devices of
// this host's members, by rank. Cost: O(hosts).
GroupView exchange_of(std::string name, std::span<const MembersOfHost> hosts, uint32_t self,
                      std::span<const uint32_t> devices_here,
                      const std::function<LinkClass(uint32_t host)>& link);

// For devices whose tensors are not in host memory, which do these kinds: besides words they
// exchange the sizes of ragged rows, with an all-to-all in host memory.
void carry_sizes(GroupView& group, CollectiveKinds kinds);

// body(area, bytes) for the memory of this host in which member `index` receives.
void for_each_area(const GroupView& group, uint32_t index,
                   const std::function<void(const std::string&, int64_t)>& body);
// Bytes of the host's memory that it takes besides these areas.
int64_t private_bytes(const GroupView& group, uint32_t index);

// The other hosts that members of this one write to, ascending. They write to this one too.
std::vector<uint32_t> hosts_written(const GroupView& group);

struct GroupLinks {
  std::shared_ptr<OwnMemory> memory;  // Memory with the areas.
  // The memory of a host, for a member that rings that device there.
  std::function<PeerMemory&(uint32_t host, uint32_t device)> memory_of;
  std::vector<Bell> bells;         // Bells of this host's members.
  std::vector<LinkMeter*> meters;  // One for each member of this host; null: nothing is counted.
};
// Returns a collective for each member of this host.
std::vector<std::unique_ptr<Collective>> join_group(const GroupView& group,
                                                    const GroupLinks& links);

}  // namespace gangway
