// HostArrays: the arrays that lie on a host, and what clients write to and read from arrays and
// states.
//
// A client's bytes are the global tensor, or a part of a state, in row-major order; the host copies
// the part that is in its shards, in the order of its devices' streams. A state that was lost is
// valid again once all of it was written; it may be written in parts if the parts of each shard
// follow one another.
//
// Threads: reactor thread; devices copy on their own.
// Errors: calls throw kInvalid; later failures are reported with HostEvents::transfer_done().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "executor/host/host_devices.h"
#include "executor/host/host_events.h"
#include "executor/store/state_store.h"
#include "executor/store/tensor_shards.h"

namespace gangway {

class HostArrays {
 public:
  HostArrays(Reactor& reactor, HostDevices& devices, StateStore& states, HostEvents& events)
      : reactor_(reactor), devices_(devices), states_(states), events_(events) {}
  // No event is delivered after this call.
  void close() { *open_ = false; }

  // Null if there is no such array.
  const TensorShards* find(ArrayId id) const;
  size_t size() const { return arrays_.size(); }
  void add(ArrayId id, TensorShards tensor) { arrays_[id] = std::move(tensor); }
  void free(std::span<const ArrayId> arrays);

  // Creates an array in these shards, which have buffers.
  void put(uint64_t request, ArrayId array, TensorShards tensor, const ClientBytes& from);
  void get(uint64_t request, ArrayId array, const ClientBytes& to);
  // `ticket`: reads the version that runs with lower tickets leave. `part`: empty: the whole state.
  void read_state(uint64_t request, StateScope scope, const std::string& name,
                  const ClientBytes& to, Ticket ticket, const Box& part);
  void write_state(uint64_t request, StateScope scope, const std::string& name,
                   const ClientBytes& from, Ticket ticket, const Box& part);

 private:
  enum class Direction : uint8_t { kIn, kOut };
  // `ticket`: the ticket of a state's copy; 0 for an array.
  void copy_shards(uint64_t request, const TensorShards& tensor, const ClientBytes& client,
                   Direction direction, Ticket ticket = {}, const Box& part = {});

  Reactor& reactor_;
  HostDevices& devices_;
  StateStore& states_;
  HostEvents& events_;
  std::map<ArrayId, TensorShards> arrays_;
  const std::shared_ptr<bool> open_ = std::make_shared<bool>(true);
};

}  // namespace gangway
