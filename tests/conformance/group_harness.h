// Groups of collectives for tests: members on several hosts of this process, joined like the
// devices of a plan.
//
// Threads: built on one; each member's collective may be used on any, on one at a time.
// Ownership: the group owns links, memory and collectives.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "executor/collectives/hosts/group_links.h"
#include "executor/links/sim_link.h"

namespace gangway {

// Links between simulated hosts that record which members were rung. A test that advances only
// members that were rung, as their devices' threads do, detects a missing ring.
class RungMembers {
 public:
  explicit RungMembers(size_t members) : is_rung_(members) {}

  std::unique_ptr<HostLink> link(uint32_t devices) {
    std::vector<Bell> bells;
    std::vector<std::shared_ptr<bool>> rung;
    for (uint32_t d = 0; d < devices; ++d) {
      rung.push_back(std::make_shared<bool>(false));
      bells.push_back({.function = std::make_shared<const std::function<void()>>(
                           [is_rung = rung.back()] { *is_rung = true; })});
    }
    auto link = std::make_unique<SimLink>(fabric_, bells);
    of_link_[link.get()] = {std::move(bells), std::move(rung)};
    return link;
  }
  Bell bell(HostLink& link, uint32_t rank, uint32_t device) {
    is_rung_[rank] = of_link_.at(&link).rung[device];
    return of_link_.at(&link).bells[device];
  }

  bool is_rung(uint32_t rank) const { return *is_rung_[rank]; }
  // The member looks at its bell now.
  void look(uint32_t rank) { *is_rung_[rank] = false; }

 private:
  struct OfLink {
    std::vector<Bell> bells;
    std::vector<std::shared_ptr<bool>> rung;  // Index: device, as for the bells.
  };
  const std::shared_ptr<SimFabric> fabric_ = std::make_shared<SimFabric>();
  std::map<const HostLink*, OfLink> of_link_;
  std::vector<std::shared_ptr<bool>> is_rung_;  // Index: rank.
};

// Counts a host's writes to other hosts' memory.
struct PeerWrites {
  std::set<uint32_t> hosts;  // Hosts that it wrote to.
  uint64_t rings = 0;
};

// A host's memory that counts another host's writes to it.
class CountedMemory final : public PeerMemory {
 public:
  CountedMemory(std::shared_ptr<PeerMemory> memory, PeerWrites& writes, uint32_t host)
      : memory_(std::move(memory)), writes_(writes), host_(host) {}

  uint64_t place(const std::string& area, int64_t bytes) override {
    return memory_->place(area, bytes);
  }
  uint32_t devices() const override { return memory_->devices(); }
  std::byte* at(uint64_t offset) const override { return memory_->at(offset); }
  std::span<std::byte> range(uint64_t offset) const override { return memory_->range(offset); }
  void put(const LinkPayload& payload, uint64_t flag, uint64_t value) override {
    writes_.hosts.insert(host_);
    memory_->put(payload, flag, value);
  }
  void signal(uint64_t flag, uint64_t value) override {
    writes_.hosts.insert(host_);
    memory_->signal(flag, value);
  }
  void ring(uint32_t device) override {
    ++writes_.rings;
    memory_->ring(device);
  }
  bool keeps_order() const override { return memory_->keeps_order(); }

 private:
  const std::shared_ptr<PeerMemory> memory_;
  PeerWrites& writes_;
  const uint32_t host_;
};

class GroupHarness {
 public:
  // Device of a host's member `index`: not all devices of a host are members.
  static uint32_t device_of(uint32_t index) { return 2 * index + 1; }
  // `host_of`: the host of each member, by rank. `make_link`: creates the link of a host that has
  // `devices` devices.
  using MakeLink = std::function<std::unique_ptr<HostLink>(uint32_t devices)>;
  struct Options {
    std::vector<uint32_t> host_of;
    int64_t bytes_max = 0;
    CollectiveKinds kinds{};
    bool abort_flags = false;
    // Gives the bell of member `rank`.
    std::function<Bell(HostLink& link, uint32_t rank, uint32_t device)> bell_of;
    bool counted = false;  // Counts writes(); all members then share a thread.
  };
  GroupHarness(const Options& options, const MakeLink& make_link);

  Collective& member(uint32_t rank) { return *members_[rank]; }
  // Moves a member out to a new owner.
  std::unique_ptr<Collective> take(uint32_t rank) { return std::move(members_[rank]); }
  HostLink& link(uint32_t host) { return *hosts_[host].link; }
  const PeerWrites& writes(uint32_t host) const { return hosts_[host].writes; }
  uint64_t moved(uint32_t rank, LinkClass link) const { return meters_[rank]->read(link); }

 private:
  struct Host {
    std::unique_ptr<HostLink> link;
    GroupView view;
    std::shared_ptr<OwnMemory> memory;
    std::map<uint32_t, std::shared_ptr<PeerMemory>> peers;
    PeerWrites writes;
  };

  PeerMemory& peer(uint32_t self, uint32_t host, bool counted);

  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<LinkMeter>> meters_;  // Index: rank.
  std::vector<std::unique_ptr<Collective>> members_;
};

}  // namespace gangway
