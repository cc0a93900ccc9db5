#include "controller/resources/objects.h"

#include <algorithm>

namespace gangway {

ArrayRecord& ObjectTable::add(ArrayId id, ArrayRecord record) {
  GW_REQUIRE(id.value >> 40 == record.owner.value, "array ", id,
             ": its name is not in the range of client ", record.owner);
  const auto [at, is_new] = arrays_.try_emplace(id, std::move(record));
  GW_REQUIRE(is_new, "array ", id, ": the name is taken");
  for (HostId host : at->second.hosts) hosts_.keep(host);
  return at->second;
}

ArrayRecord& ObjectTable::find(ArrayId id, SessionId owner) {
  const auto at = arrays_.find(id);
  GW_REQUIRE(at != arrays_.end() && at->second.owner == owner, "array ", id,
             ": not an array of this client, or freed");
  return at->second;
}

void ObjectTable::keep(ArrayId id) { ++arrays_.at(id).runs; }

void ObjectTable::drop(ArrayId id) {
  --arrays_.at(id).runs;
  erase_if_dead(id);
}

void ObjectTable::client_drops(ArrayId id, SessionId owner) {
  const auto at = arrays_.find(id);
  if (at == arrays_.end() || at->second.owner != owner) return;
  at->second.client_holds = false;
  erase_if_dead(id);
}

void ObjectTable::client_drops_all(SessionId owner) {
  std::vector<ArrayId> owned;
  for (const auto& [id, record] : arrays_) {
    if (record.owner == owner) owned.push_back(id);
  }
  for (ArrayId id : owned) client_drops(id, owner);
}

void ObjectTable::erase_if_dead(ArrayId id) {
  const auto at = arrays_.find(id);
  if (at->second.client_holds || at->second.runs > 0) return;
  const std::vector<HostId> hosts = at->second.hosts;
  arrays_.erase(at);  // Its memory first, which is the hosts'.
  for (HostId host : hosts) {
    dead_[host].push_back(id);
    hosts_.drop(host);
  }
}

void ObjectTable::flush() {
  for (auto& [host, arrays] : std::exchange(dead_, {})) {
    hosts_.send(host, encode(FreeFrame{std::move(arrays)}));
  }
}

bool ObjectTable::any_held_by_runs_alone() const {
  return std::any_of(arrays_.begin(), arrays_.end(), [](const auto& item) {
    return !item.second.client_holds && item.second.runs > 0;
  });
}

}  // namespace gangway
