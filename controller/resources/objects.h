// The object table: every logical array, the devices that hold it, and how many references it has.
//
// An array is one entry however many shards it has. Its client holds one reference, each run that
// reads it one more; at zero the hosts are told to free it and its memory is given back.
//
// Threads: the reactor's thread.
// Errors: find() throws kInvalid for an array that is not this session's.
// Cost: O(1) a reference; flush() sends each host one frame for all arrays that were freed
// together.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "controller/resources/hosts.h"
#include "ir/plan/plan.h"

namespace gangway {

struct ArrayRecord {
  SessionId owner;
  std::vector<HostId> hosts;
  std::vector<DeviceRef> devices;  // By mesh device.
  Type type;
  Mesh mesh;
  Sharding sharding;
  std::vector<std::shared_ptr<void>> holdings;  // Dropped with the array.
  bool client_holds = true;
  int runs = 0;  // That read or write it.
};

class ObjectTable {
 public:
  explicit ObjectTable(HostTable& hosts) : hosts_(hosts) {}

  // `id` is the client's choice; throws kInvalid when it is taken or of another session's range.
  ArrayRecord& add(ArrayId id, ArrayRecord record);
  ArrayRecord& find(ArrayId id, SessionId owner);
  void keep(ArrayId id);                           // A run refers to it.
  void drop(ArrayId id);                           // No longer.
  void client_drops(ArrayId id, SessionId owner);  // Unknown ids are ignored.
  void client_drops_all(SessionId owner);
  // Tells the hosts to free the arrays that lost their last reference since the last flush.
  void flush();
  size_t size() const { return arrays_.size(); }
  // Whether some arrays are held by runs in flight alone, so that their memory is freed when those
  // runs end.
  bool any_held_by_runs_alone() const;

 private:
  void erase_if_dead(ArrayId id);

  HostTable& hosts_;
  std::map<ArrayId, ArrayRecord> arrays_;
  std::map<HostId, std::vector<ArrayId>> dead_;
};

}  // namespace gangway
