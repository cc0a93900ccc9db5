// The object table: every logical array, the devices that hold it, and how many references it has.
//
// An array is one entry however many shards it has. Its client holds one reference, each run that
// reads it one more. At zero the hosts get a message to free it, and its memory is given back.
//
// A client may hold kArraysMax arrays. Arrays of failed runs count too, though nobody reserved
// memory for them.
//
// Threads: the reactor's thread.
// Errors: find() throws kInvalid for an array that is not this session's.
// Cost: O(log arrays) a reference, whatever the hosts. Arrays that are freed together on the same
// hosts share one frame, which flush() builds once and sends to each host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/hosts/hosts.h"
#include "ir/plan/plan.h"
#include "protocol/memory_units.h"

namespace gangway {

// The devices of arrays. Arrays that lie alike share one layout, such as a plan's outputs on one
// slice.
struct DeviceLayout {
  std::vector<DeviceRef> devices;   // Each once, in the order of the mesh.
  uint32_t ranks_per_device = 1;    // Mesh devices on each of them, neighbours in the mesh.
  std::vector<DeviceRange> ranges;  // The same devices as ranges.
  std::vector<HostId> holders;      // The hosts of these devices.
  std::vector<HostId> hosts;        // Hosts that know the arrays: of all slices of their plan.

  bool lies_like(const DeviceLayout& other) const {
    return devices == other.devices && ranks_per_device == other.ranks_per_device;
  }
  // Bytes that a value takes on each device, if its part on a rank has this type.
  int64_t bytes_on_device(const Type& local) const {
    return ranks_per_device * block_bytes(local.bytes());
  }
};

struct ArrayRecord {
  SessionId owner;
  RunId maker;  // The run whose output it is; 0: none. It may have ended.
  std::shared_ptr<const DeviceLayout> layout;
  Type type;
  Mesh mesh;
  Sharding sharding;
  std::vector<std::shared_ptr<void>> holdings;  // Dropped with the array.
  bool client_holds = true;
  int users = 0;      // Runs and copies that read or write it.
  int in_flight = 0;  // The part of `users` that was sent to its hosts.
  // Why its run ended before it was sent to the hosts: the array will never be there.
  std::shared_ptr<const Error> failed;
};

class ObjectTable {
 public:
  static constexpr size_t kArraysMax = size_t{1} << 18;  // Some 100 MiB.
  explicit ObjectTable(HostTable& hosts, size_t arrays_max = kArraysMax)
      : hosts_(hosts), arrays_max_(arrays_max) {}

  // `id` is the client's choice; throws kInvalid when it is taken or of another session's range,
  // kOverloaded when the client holds too many.
  ArrayRecord& add(ArrayId id, ArrayRecord record);
  ArrayRecord& find(ArrayId id, SessionId owner);
  bool is_there(ArrayId id, SessionId owner) const;  // Whether find() finds it.
  void keep(ArrayId id);                             // A run or a copy refers to it.
  void began(ArrayId id);                            // That run or copy is in flight.
  void ended(ArrayId id);                            // It is in flight no longer.
  void drop(ArrayId id);                             // It refers to the array no longer.
  void client_drops(ArrayId id, SessionId owner);    // Unknown ids are ignored.
  // The client of an array that is there holds it, until client_drops(). Returns whether it did not
  // before.
  bool client_keeps(ArrayId id);
  void client_drops_all(SessionId owner, const std::set<ArrayId>& but = {});
  // Whether a run or a copy refers to it.
  bool is_used(ArrayId id) const;
  // Drops an array that no run or copy refers to, since it is to be computed again. Returns whether
  // its client held it; false if it is not there.
  bool give_up(ArrayId id, SessionId owner);
  // Moves outputs with these layouts out of the slots of their plan: they hold the result of `hold`
  // instead, which is called once for each run whose outputs have no memory of their own.
  void hold_outputs(SessionId owner,
                    const std::vector<std::shared_ptr<const DeviceLayout>>& layouts,
                    const std::function<std::shared_ptr<void>()>& hold);
  // Sends the hosts messages to free arrays that lost their last reference since the last flush.
  void flush();
  size_t size() const { return arrays_.size(); }
  // Whether some arrays on this device are held by runs in flight alone, so that their memory is
  // freed when those runs end. O(layouts).
  bool any_held_by_runs_alone(DeviceRef at) const;

 private:
  using Arrays = std::map<ArrayId, ArrayRecord>;
  // Whether the array's memory is freed when the runs that hold it end.
  static bool is_held_by_runs_alone(const ArrayRecord& array) {
    return !array.client_holds && array.in_flight > 0;
  }
  template <class Change>
  void change(Arrays::iterator at, const Change& change);

  HostTable& hosts_;
  const size_t arrays_max_;
  Arrays arrays_;
  std::map<SessionId, size_t> held_;  // Number of arrays of each client.
  struct Placed {
    int64_t arrays = 0;
    int64_t held_by_runs = 0;  // Arrays that only runs in flight hold.
  };
  std::map<std::shared_ptr<const DeviceLayout>, Placed> placed_;
  std::map<std::vector<HostId>, std::vector<ArrayId>> dead_;  // Keyed by the hosts that know them.
};

}  // namespace gangway
