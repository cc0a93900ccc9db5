// StateStore: the named tensors that live on this host's devices from run to run.
//
// Within a scope a name stands for one state: two programs of one session share it, and must agree
// on its type and placement. Runs update states in place, in the stream, behind the gate; so a copy
// that is enqueued between two runs reads exactly the version between them.
//
// Threads: reactor thread; the buffers' contents belong to the device's stream.
// Errors: kInvalid where two programs disagree, or the name is unknown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/store/buffer.h"
#include "executor/store/tensor_shards.h"
#include "protocol/messages.h"

namespace gangway {

// The copy in the host's memory of a state whose program is suspended.
struct StateOnHost {
  struct Copy {
    HostMemory bytes;  // Null: the device's memory is the host's, and the bytes stayed there.
    // Copied from the device's buffer.
    std::shared_ptr<const Error> error;
    std::map<int64_t, int64_t> rewritten;
  };
  std::shared_ptr<void> counted;  // Holds the bytes in the HostBudget.
  int64_t bytes = 0;
  std::vector<Copy> copies;  // Indexed by shard.
};

struct State {
  std::string name;
  TensorShards shards;  // While it is on the host: no buffers, or buffers that left the device.
  std::unique_ptr<StateOnHost> on_host = nullptr;  // Null: it is on the devices.
};

class StateStore {
 public:
  // The state of that name if it is there; throws when its type or placement differs from `like`.
  std::shared_ptr<State> find_like(StateScope scope, const std::string& name,
                                   const TensorShards& like);
  State& get(StateScope scope, const std::string& name);
  std::vector<std::shared_ptr<State>> all_of(StateScope scope) const;
  void add(StateScope scope, std::shared_ptr<State> state);
  // Forgets this state if the name still stands for it.
  void remove(StateScope scope, const std::shared_ptr<State>& state);
  size_t size() const { return states_.size(); }
  // The states stay until the last plan that uses them is removed.
  void drop(StateScope scope);

 private:
  std::map<std::pair<StateScope, std::string>, std::shared_ptr<State>> states_;
};

}  // namespace gangway
