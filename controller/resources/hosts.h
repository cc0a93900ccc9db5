// The hosts that are there: who they are, whether they live, and who reserved how much memory on
// each of their devices.
//
// Invariants: a HostId is never used again; a lost host stays in the table, with the reason, while
// a slice or an array lies on it. A host that comes back has another HostId and, by HostNames, the
// same name, under which metrics count on.
// Reserved bytes of a device never exceed its memory (0: not known, not checked).
// Threads: the reactor's thread.
// Cost: a reservation is O(ranges log ranges), whatever the devices of a range.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/resources/device_ref.h"
#include "controller/resources/freed_memory.h"
#include "controller/resources/host_names.h"
#include "controller/resources/overlaid_bytes.h"
#include "controller/resources/peers.h"
#include "controller/resources/reserved_bytes.h"
#include "ir/plan/islands.h"
#include "protocol/messages.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"
#include "runtime/observe/metrics.h"
#include "runtime/os/process_identity.h"

namespace gangway {

struct HostInfo {
  std::string name;
  uint32_t devices = 1;
  int64_t memory_bytes = 0;  // Of each device.
  std::string kind = "cpu";
  std::string text;              // One line a device.
  ProcessIdentity process = {};  // Of this machine; 0: nobody knows.
  std::string island = kMainIsland;
  std::string owner = {};        // Who runs it (protocol/owner.h).
  std::string wanted_name = {};  // Before it got a number.
  bool name_is_chosen = false;   // By its user: it is given this name or none.
};

struct HostRecord {
  HostId id;
  HostInfo info;
  ExecutorPeer* peer = nullptr;  // Null once lost.
  std::optional<Error> lost;     // Why.
  StopSource gone;               // Stopped then: what awaits an answer of it ends.
  ReservedBytes reserved;
  uint64_t runs = 0;  // Done here; runs_done counts on for the next host of its name.
  int64_t last_heard_ns = 0;
  bool suspect = false;  // It has said nothing for a while (recovery/host_watch.h).
  Gauge suspect_gauge;
  std::vector<StuckDevice> stuck;  // As it said last (recovery/stuck_board.h).
  int64_t users = 0;               // See keep().
  Counter runs_done;
  // What its devices have moved so far, by LinkClass, as it says with each heartbeat.
  LinkBytes moved{};
  std::array<Counter, kLinkClasses.size()> moved_total;

  uint32_t reactor_longest_ms = 0;  // As it says with each heartbeat.

  void count_moved(const LinkBytes& now);
};

// "device 1 is stuck in dot of f32[4, 8] at model.cc:12, for 3.20 s"
std::string to_text(const StuckDevice& stuck);

// Devices first .. first + count - 1 of one host.
struct DeviceRange {
  HostId host;
  uint32_t first = 0;
  uint32_t count = 1;
  bool contains(DeviceRef device) const {
    return device.host == host && device.device >= first && device.device - first < count;
  }
  friend auto operator<=>(const DeviceRange&, const DeviceRange&) = default;
};

// So much of each of these devices.
struct Reservation {
  DeviceRange at;
  int64_t bytes = 0;
};

// Shared by all who reserve the same: a list is as long as a slice has hosts.
using Reservations = std::shared_ptr<const std::vector<Reservation>>;
inline Reservations shared_reservations(std::vector<Reservation> reservations) {
  return std::make_shared<const std::vector<Reservation>>(std::move(reservations));
}

// What does not fit.
struct Shortage {
  DeviceRef at;
  int64_t bytes = 0;
  std::string over_quota = {};  // Not empty: it would fit, but for the quota of its owner.
};

// Tells those who wait for devices that some were given back, or came.
struct Freed {
  WaitQueue waiting;
  bool is_new = false;  // Nobody has looked since.
  FreedMemory memory;

  void raise() {
    is_new = true;
    waiting.wake_all();
  }
};

class HostTable {
 public:
  // The name gets a number appended when it is taken (host_names.h).
  HostRecord& add(HostInfo info, ExecutorPeer& peer, int64_t now_ns);
  HostRecord& at(HostId id);
  HostRecord* find(HostId id);  // Null: it was lost, and nothing uses it any more.
  // A slice or an array lies on it, or does no more.
  void keep(HostId id) { ++at(id).users; }
  void drop(HostId id);
  void erase_if_unused(HostId id);  // When it is lost.
  // It is there, and does not drain (HostNames).
  bool takes_slices(const HostRecord& host) const {
    return !host.lost && !names_.is_draining(host.info.name);
  }
  // Whoever waits for a slice is served anew.
  void set_draining(const std::string& name, bool is_draining);
  // "a, b": the hosts that drain, of those that are there; empty: none.
  std::string draining() const;
  // Nothing is sent to a host that is lost.
  void send(HostId id, const Frame& frame);
  const std::map<HostId, HostRecord>& all() const { return hosts_; }
  std::map<HostId, HostRecord>& all() { return hosts_; }

  // What a holder that reserves so many bytes more has beyond its owner's quota; empty: nothing.
  // Null: nothing is beyond one, and held_bytes() counts nothing.
  using MemoryLimit = std::function<std::string(const std::string& holder, int64_t bytes)>;
  void limit_memory(MemoryLimit limit) {
    memory_limit_ = std::move(limit);
    held_bytes_ = memory_limit_ ? held_in_all() : std::map<std::string, int64_t>();
  }
  int64_t held_bytes(const std::string& holder) const;  // On all devices.
  Freed& freed() { return freed_; }
  HostNames& names() { return names_; }
  const HostNames& names() const { return names_; }

  // All of it or nothing. `owner` is who holds it, for messages: "client \"trainer\"". What does
  // not fit is returned, and nothing is reserved.
  std::optional<Shortage> reserve(const std::string& owner, const std::vector<Reservation>& wanted);
  // By the same ranges.
  void release(const std::string& owner, const std::vector<Reservation>& held);

  // The same of plans whose temporaries lie over one another: of each device as much is reserved
  // as the largest of them needs, for all of them together. Quotas count what each needs.
  std::optional<Shortage> reserve_overlaid(const std::string& owner,
                                           const std::vector<Reservation>& wanted);
  void release_overlaid(const std::string& owner, const std::vector<Reservation>& held);
  int64_t region_bytes(DeviceRef at) const { return overlaid_.region(at); }
  // What both together would lack now; none: they fit. Nothing is reserved.
  std::optional<Shortage> lacks(const std::string& owner, const std::vector<Reservation>& wanted,
                                const std::vector<Reservation>& overlaid = {});

  int64_t free_bytes(DeviceRef at) const;
  std::string name_of(DeviceRef at) const;  // "host-0/device 1"
  // "needs 3.0 MiB on host-0/device 1, where 1.0 MiB of 8.0 MiB are free: 2.0 MiB short": of what
  // reserve() returned.
  std::string shortage(const Shortage& short_of) const;
  const std::string& island_of(HostId id) const { return hosts_.at(id).info.island; }
  LinkClass link_class(HostId a, HostId b) const;
  // "client \"a\" holds 1.0 GiB, client \"b\" holds 3.0 MiB": most first.
  std::string holders(DeviceRef at) const;
  // What each who holds some does, of all devices together.
  std::map<std::string, int64_t> held_in_all() const;
  // Throws kUnavailable when the host is lost.
  void require_alive(HostId id) const;

 private:
  void add_reserved(const DeviceRange& range, int64_t bytes);
  void count_held(const std::string& owner, int64_t bytes);
  void tell_freed(const Reservation& item);
  std::optional<uint32_t> short_of(const Reservation& wanted);  // A device.
  std::optional<Shortage> add_all(const std::vector<Reservation>& wanted);
  void remove_all(const std::vector<Reservation>& added);
  std::optional<Shortage> over_limit(const std::string& owner,
                                     const std::vector<Reservation>& wanted, int64_t bytes) const;
  std::vector<Reservation> growth(const std::vector<Reservation>& overlaid) const;

  Freed freed_;
  MemoryLimit memory_limit_;
  std::map<std::string, int64_t> held_bytes_;  // On all devices, by holder, where that is limited.
  HostNames names_;
  std::map<HostId, HostRecord> hosts_;
  std::map<DeviceRange, std::map<std::string, int64_t>> held_;  // Of each device, by owner.
  OverlaidBytes overlaid_;
  uint32_t last_ = 0;
};

// Reserved memory that is given back with its last holder: a plan, the states of a slice, the
// arrays of one run.
struct Holding {
  Holding(HostTable& table, std::string who, Reservations bytes)
      : hosts(table), owner(std::move(who)), held(std::move(bytes)) {}
  ~Holding() { hosts.release(owner, *held); }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;

  HostTable& hosts;
  std::string owner;
  Reservations held;
};

// The same of what lies where that of others lies.
struct OverlaidHolding {
  OverlaidHolding(HostTable& table, std::string who, std::vector<Reservation> bytes)
      : hosts(table), owner(std::move(who)), held(std::move(bytes)) {}
  ~OverlaidHolding() { hosts.release_overlaid(owner, held); }
  OverlaidHolding(const OverlaidHolding&) = delete;
  OverlaidHolding& operator=(const OverlaidHolding&) = delete;

  HostTable& hosts;
  std::string owner;
  std::vector<Reservation> held;
};

}  // namespace gangway
