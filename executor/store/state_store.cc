#include "executor/store/state_store.h"

#include "runtime/base/error.h"

namespace gangway {

std::shared_ptr<State> StateStore::find_like(StateScope scope, const std::string& name,
                                             const TensorShards& like) {
  auto found = states_.find({scope, name});
  if (found == states_.end()) return nullptr;
  const TensorShards& have = found->second->shards;
  GW_REQUIRE(have.type == like.type, "state \"", name, "\": types differ: it is ",
             to_string(have.type), ", this program has ", to_string(like.type));
  GW_REQUIRE(have.same_placement(like), "state \"", name, "\": placements differ: it is ",
             to_string(have.mesh, have.sharding), " over ", to_string(have.mesh),
             ", this program has ", to_string(like.mesh, like.sharding), " over ",
             to_string(like.mesh));
  return found->second;
}

State& StateStore::get(StateScope scope, const std::string& name) {
  auto found = states_.find({scope, name});
  GW_REQUIRE(found != states_.end(), "state \"", name, "\": no program of this session has it");
  return *found->second;
}

std::vector<std::shared_ptr<State>> StateStore::all_of(StateScope scope) const {
  std::vector<std::shared_ptr<State>> all;
  for (auto at = states_.lower_bound({scope, {}}); at != states_.end() && at->first.first == scope;
       ++at)
    all.push_back(at->second);
  return all;
}

void StateStore::add(StateScope scope, std::shared_ptr<State> state) {
  states_[{scope, state->name}] = std::move(state);
}

void StateStore::remove(StateScope scope, const std::shared_ptr<State>& state) {
  const auto found = states_.find({scope, state->name});
  if (found != states_.end() && found->second == state) states_.erase(found);
}

void StateStore::drop(StateScope scope) {
  std::erase_if(states_, [&](const auto& entry) { return entry.first.first == scope; });
}

}  // namespace gangway
