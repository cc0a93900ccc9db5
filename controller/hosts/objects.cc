#include "controller/hosts/objects.h"

#include <algorithm>

namespace gangway {

ArrayRecord& ObjectTable::add(ArrayId id, ArrayRecord record) {
  GW_REQUIRE(id.value >> 40 == record.owner.value, "array ", id,
             ": its name is not in the range of client ", record.owner);
  const auto held = held_.try_emplace(record.owner).first;
  if (held->second >= arrays_max_) {
    throw Error(ErrorKind::kOverloaded,
                cat("array ", id, ": its client holds ", held->second, " arrays already"), {},
                "let arrays go that nobody needs any more");
  }
  const auto [at, is_new] = arrays_.try_emplace(id, std::move(record));
  GW_REQUIRE(is_new, "array ", id, ": the name is taken");
  ++held->second;
  const DeviceLayout& layout = *at->second.layout;
  if (placed_[at->second.layout].arrays++ == 0) {
    for (HostId host : layout.hosts) hosts_.keep(host);
  }
  return at->second;
}

ArrayRecord& ObjectTable::find(ArrayId id, SessionId owner) {
  const auto at = arrays_.find(id);
  GW_REQUIRE(at != arrays_.end() && at->second.owner == owner, "array ", id,
             ": not an array of this client, or freed");
  return at->second;
}

bool ObjectTable::is_there(ArrayId id, SessionId owner) const {
  const auto at = arrays_.find(id);
  return at != arrays_.end() && at->second.owner == owner;
}

// Changes the references to the array, and removes it with the last one.
template <class Change>
void ObjectTable::change(Arrays::iterator at, const Change& change) {
  ArrayRecord& array = at->second;
  const bool was = is_held_by_runs_alone(array);
  change(array);
  const bool is = is_held_by_runs_alone(array);
  const auto placed = placed_.find(array.layout);
  if (is != was) placed->second.held_by_runs += is ? 1 : -1;
  if (array.client_holds || array.users > 0) return;
  const std::vector<HostId>& hosts = placed->first->hosts;
  dead_[hosts].push_back(at->first);
  if (const auto held = held_.find(array.owner); --held->second == 0) held_.erase(held);
  arrays_.erase(at);  // Before the hosts are dropped, since it gives its memory back to them.
  if (--placed->second.arrays > 0) return;
  for (HostId host : hosts) hosts_.drop(host);
  placed_.erase(placed);
}

void ObjectTable::keep(ArrayId id) {
  change(arrays_.find(id), [](ArrayRecord& array) { ++array.users; });
}

void ObjectTable::began(ArrayId id) {
  change(arrays_.find(id), [](ArrayRecord& array) { ++array.in_flight; });
}

void ObjectTable::ended(ArrayId id) {
  change(arrays_.find(id), [](ArrayRecord& array) { --array.in_flight; });
}

void ObjectTable::drop(ArrayId id) {
  change(arrays_.find(id), [](ArrayRecord& array) { --array.users; });
}

void ObjectTable::client_drops(ArrayId id, SessionId owner) {
  const auto at = arrays_.find(id);
  if (at == arrays_.end() || at->second.owner != owner) return;
  change(at, [](ArrayRecord& array) { array.client_holds = false; });
}

bool ObjectTable::client_keeps(ArrayId id) {
  const auto at = arrays_.find(id);
  const bool is_new = !at->second.client_holds;
  change(at, [](ArrayRecord& array) { array.client_holds = true; });
  return is_new;
}

bool ObjectTable::is_used(ArrayId id) const {
  const auto at = arrays_.find(id);
  return at != arrays_.end() && at->second.users > 0;
}

bool ObjectTable::give_up(ArrayId id, SessionId owner) {
  const auto at = arrays_.find(id);
  if (at == arrays_.end()) return false;
  GW_ASSERT(at->second.users == 0, "array ", id, " is in use");
  client_drops(id, owner);
  return true;
}

void ObjectTable::client_drops_all(SessionId owner, const std::set<ArrayId>& but) {
  std::vector<ArrayId> owned;
  const ArrayId first(owner.value << 40);  // The lowest id in the range of this client.
  for (auto at = arrays_.lower_bound(first); at != arrays_.end() && at->second.owner == owner; ++at)
    owned.push_back(at->first);
  for (ArrayId id : owned) {
    if (!but.contains(id)) client_drops(id, owner);
  }
}

void ObjectTable::hold_outputs(SessionId owner,
                               const std::vector<std::shared_ptr<const DeviceLayout>>& layouts,
                               const std::function<std::shared_ptr<void>()>& hold) {
  std::map<RunId, std::vector<std::shared_ptr<void>>> by_run;
  for (auto& [id, array] : arrays_) {
    if (array.owner != owner || array.maker == RunId() || array.holdings.empty()) continue;
    if (std::ranges::find(layouts, array.layout) == layouts.end()) continue;
    auto& holdings = by_run[array.maker];
    if (holdings.empty()) holdings = {array.holdings.size() > 1 ? array.holdings.back() : hold()};
    array.holdings = holdings;
  }
}

void ObjectTable::flush() {
  for (auto& [hosts, arrays] : std::exchange(dead_, {})) {
    const Frame frame = encode(FreeFrame{std::move(arrays)});
    for (HostId host : hosts) hosts_.send(host, frame);
  }
}

bool ObjectTable::any_held_by_runs_alone(DeviceRef at) const {
  return std::any_of(placed_.begin(), placed_.end(), [&](const auto& item) {
    return item.second.held_by_runs > 0 &&
           std::ranges::any_of(item.first->ranges,
                               [&](const DeviceRange& range) { return range.contains(at); });
  });
}

}  // namespace gangway
