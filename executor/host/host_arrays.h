// HostArrays: the arrays that lie on a host, and what clients put into them and into states, and
// get.
//
// A client's bytes are the global tensor, or a part of a state, in row-major order; the host takes
// or gives what its shards have of it, in the order of its devices' streams. A state that was lost
// is whole again once all of it was written, in parts too if those of each shard come in its order.
//
// Threads: reactor thread; devices copy on their own.
// Errors: calls throw kInvalid; what fails later is told with HostEvents::copy_done().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "executor/host/host_devices.h"
#include "executor/host/host_plan.h"
#include "executor/store/state_store.h"
#include "executor/store/tensor_shards.h"

namespace gangway {

class HostArrays {
 public:
  HostArrays(Reactor& reactor, HostDevices& devices, StateStore& states, HostEvents& events)
      : reactor_(reactor), devices_(devices), states_(states), events_(events) {}
  // No event comes any more.
  void close() { *open_ = false; }

  // Null: there is none.
  const TensorShards* find(ArrayId id) const;
  void add(ArrayId id, TensorShards tensor) { arrays_[id] = std::move(tensor); }
  void free(std::span<const ArrayId> arrays);

  // A new array, placed like an input of a plan.
  void put(uint64_t request, ArrayId array, const HostPlan& like, uint32_t input,
           const ClientBytes& from);
  void get(uint64_t request, ArrayId array, const ClientBytes& to);
  // `ticket`: the version is what runs with lower tickets leave. `part`: empty: all of it.
  void get_state(uint64_t request, StateScope scope, const std::string& name, const ClientBytes& to,
                 Ticket ticket, const Box& part);
  void put_state(uint64_t request, StateScope scope, const std::string& name,
                 const ClientBytes& from, Ticket ticket, const Box& part);

 private:
  enum class Direction : uint8_t { kIn, kOut };
  // `ticket`: of a state; 0: an array.
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
