// The table of hosts: who they are, whether they live, and who reserved how much memory on each of
// their devices.
//
// Invariants: a HostId is never used again; a lost host stays in the table, with the reason, while
// a slice or an array lies on it. A host that comes back has another HostId and, through HostNames,
// the same name, under which its metrics go on.
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

#include "controller/hosts/device_ref.h"
#include "controller/hosts/freed_memory.h"
#include "controller/hosts/host_names.h"
#include "controller/hosts/overlaid_bytes.h"
#include "controller/hosts/peers.h"
#include "controller/hosts/reserved_bytes.h"
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
  int64_t memory_bytes = 0;  // Memory of each device.
  std::string kind = "cpu";
  std::string text;              // One line for each device.
  ProcessIdentity process = {};  // Pid 0: not known, or of another machine.
  std::string machine = {};      // Machine::identity; empty in tests of one machine.
  std::string island = kMainIsland;
  std::string owner = {};        // The user who runs it (protocol/owner.h).
  std::string wanted_name = {};  // The name before a number was appended.
  bool name_is_chosen = false;   // Its user chose the name: it gets this name or is refused.
  // When the certificate with which it registers ends, since 1970; 0: it has shown none.
  int64_t certificate_ends_s = 0;
};

struct HostRecord {
  HostId id;
  HostInfo info;
  ExecutorPeer* peer = nullptr;  // Null once lost.
  std::optional<Error> lost;     // Why it was lost.
  StopSource gone;               // Stopped when it is lost, to end waits for its answers.
  ReservedBytes reserved;
  uint64_t runs = 0;  // Runs done here; runs_done goes on for the next host of its name.
  int64_t last_heard_ns = 0;
  // Number of signs of life. last_heard_ns also moves when the controller has stood still.
  uint64_t heard = 0;
  bool suspect = false;  // It has been silent for a while (scheduler/host_watch.h).
  Gauge suspect_gauge;
  std::vector<StuckDevice> stuck;  // Reported last (scheduler/stuck_board.h).
  int64_t users = 0;               // See keep().
  Counter runs_done;
  // Bytes that its devices have moved so far, by LinkClass. Each heartbeat reports them.
  LinkBytes moved{};
  std::array<Counter, kLinkClasses.size()> moved_total;

  uint32_t reactor_longest_ms = 0;  // Each heartbeat reports it.

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

// Memory on each of these devices.
struct Reservation {
  DeviceRange at;
  int64_t bytes = 0;
};

// Shared by all holders that reserve the same, since a list has an entry for each host of a slice.
using Reservations = std::shared_ptr<const std::vector<Reservation>>;
inline Reservations shared_reservations(std::vector<Reservation> reservations) {
  return std::make_shared<const std::vector<Reservation>>(std::move(reservations));
}

// A reservation that does not fit, by the first device where that is so.
struct Shortage {
  DeviceRef at;
  int64_t bytes = 0;
  std::string over_quota = {};  // Not empty: it is refused for the quota of its owner.
};

// Wakes fibers that wait for devices when some were given back, or came.
struct Freed {
  WaitQueue waiting;
  bool is_new = false;  // Cleared by the next look.
  FreedMemory memory;

  void raise() {
    is_new = true;
    waiting.wake_all();
  }
};

class HostTable {
 public:
  // If the name is taken, a number is appended (host_names.h).
  HostRecord& add(HostInfo info, ExecutorPeer& peer, int64_t now_ns);
  HostRecord& at(HostId id);
  HostRecord* find(HostId id);  // Null: it was lost, and nothing uses it any more.
  // Counts a slice or an array that lies on the host, or does no more.
  void keep(HostId id) { ++at(id).users; }
  void drop(HostId id);
  void erase_if_unused(HostId id);  // Only if it is lost.
  // Whether the host is there, and does not drain (HostNames).
  bool takes_slices(const HostRecord& host) const {
    return !host.lost && !names_.is_draining(host.info.name);
  }
  // Clients that wait for a slice are looked at again.
  void set_draining(const std::string& name, bool is_draining);
  // "a, b": the hosts that are there and drain. Empty if there are none.
  std::string draining() const;
  // Nothing is sent to a host that is lost.
  void send(HostId id, const Frame& frame);
  const std::map<HostId, HostRecord>& all() const { return hosts_; }
  std::map<HostId, HostRecord>& all() { return hosts_; }

  // Says how a holder that reserves `bytes` more would exceed its owner's quota; empty: it would
  // not. Null: there are no quotas of memory, and held_bytes() counts nothing.
  using MemoryLimit = std::function<std::string(const std::string& holder, int64_t bytes)>;
  void limit_memory(MemoryLimit limit) {
    memory_limit_ = std::move(limit);
    held_bytes_ = memory_limit_ ? held_in_all() : std::map<std::string, int64_t>();
  }
  int64_t held_bytes(const std::string& holder) const;  // On all devices.
  Freed& freed() { return freed_; }
  HostNames& names() { return names_; }
  const HostNames& names() const { return names_; }

  // Reserves all of `wanted`, or returns what does not fit and reserves nothing. `owner` is the
  // holder's name in messages: "client \"trainer\"".
  std::optional<Shortage> reserve(const std::string& owner, const std::vector<Reservation>& wanted);
  // `held` has the ranges with which the memory was reserved.
  void release(const std::string& owner, const std::vector<Reservation>& held);

  // The same for overlaid arenas: each device reserves as much as the largest plan there needs,
  // once for all plans. Quotas count the need of each plan.
  std::optional<Shortage> reserve_overlaid(const std::string& owner,
                                           const std::vector<Reservation>& wanted);
  void release_overlaid(const std::string& owner, const std::vector<Reservation>& held);
  int64_t region_bytes(DeviceRef at) const { return overlaid_.region(at); }
  // Returns what would not fit if both were reserved now. None: they fit. Reserves nothing.
  std::optional<Shortage> lacks(const std::string& owner, const std::vector<Reservation>& wanted,
                                const std::vector<Reservation>& overlaid = {});

  int64_t free_bytes(DeviceRef at) const;
  std::string name_of(DeviceRef at) const;  // "host-0/device 1"
  // The text for a result of reserve(): "needs 3.0 MiB on host-0/device 1, where 1.0 MiB of 8.0 MiB
  // are free: 2.0 MiB short".
  std::string shortage(const Shortage& short_of) const;
  const std::string& island_of(HostId id) const { return hosts_.at(id).info.island; }
  LinkClass link_class(HostId a, HostId b) const;
  // "client \"a\" holds 1.0 GiB, client \"b\" holds 3.0 MiB": the largest holder first.
  std::string holders(DeviceRef at) const;
  // Bytes that each holder holds, on all devices together.
  std::map<std::string, int64_t> held_in_all() const;
  // Throws kUnavailable if the host is lost.
  void require_alive(HostId id) const;

 private:
  void add_reserved(const DeviceRange& range, int64_t bytes);
  void count_held(const std::string& owner, int64_t bytes);
  void tell_freed(const Reservation& item);
  std::optional<uint32_t> short_of(const Reservation& wanted);  // The first device without room.
  std::optional<Shortage> add_all(const std::vector<Reservation>& wanted);
  void remove_all(const std::vector<Reservation>& added);
  std::optional<Shortage> over_limit(const std::string& owner,
                                     const std::vector<Reservation>& wanted, int64_t bytes) const;
  std::vector<Reservation> growth(const std::vector<Reservation>& overlaid) const;

  Freed freed_;
  MemoryLimit memory_limit_;
  std::map<std::string, int64_t> held_bytes_;  // On all devices, by holder, if there are quotas.
  HostNames names_;
  std::map<HostId, HostRecord> hosts_;
  std::map<DeviceRange, std::map<std::string, int64_t>> held_;  // Bytes on each device, by owner.
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

// The same for an overlaid arena.
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
