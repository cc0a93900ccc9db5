#include "controller/slices/slices.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "controller/slices/placement_reason.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/units.h"

namespace gangway {

namespace {

constexpr size_t kItemsNamedMax = 8;  // Hosts and clients that one message names.

// "a, b and 3 more".
std::string listed(const std::vector<std::string>& items) {
  std::string text;
  const size_t named = std::min(items.size(), kItemsNamedMax);
  for (size_t i = 0; i < named; ++i) text += cat(i == 0 ? "" : ", ", items[i]);
  if (items.size() > named) text += cat(" and ", items.size() - named, " more");
  return text;
}

// The number of ranks that fit: all ranks of each device, within the shape's bounds of devices on
// one host and of islands.
uint64_t count_of(const std::vector<OfferedHost>& hosts, const SliceShape& shape) {
  std::map<std::string, uint64_t> by_island;
  uint64_t most = 0, all = 0;
  for (const OfferedHost& host : hosts) {
    uint64_t here = host.offered.size();
    if (shape.per_host_max != 0) here = std::min<uint64_t>(here, shape.per_host_max);
    all += here;
    most = std::max(most, by_island[host.island] += here);
  }
  return (shape.one_island ? most : all) * shape.ranks_per_device;
}

std::string constraints_of(const SliceShape& shape) {
  std::string text;
  if (shape.ranks_per_device > 1) text += cat(" with ranks_per_device = ", shape.ranks_per_device);
  if (shape.one_island) text += " in one island";
  if (shape.per_host_max > 0) text += cat(", at most ", shape.per_host_max, " devices of a host");
  if (shape.memory_bytes > 0)
    text += cat(", each with ", format_bytes(static_cast<uint64_t>(shape.memory_bytes)));
  if (shape.exclusive) text += ", each to itself";
  return text;
}

// Sizes of groups of neighbours along the innermost axes, in physical devices, the largest first.
std::vector<uint32_t> groups_of(const SliceShape& shape) {
  std::vector<uint32_t> groups;
  uint32_t ranks = 1;
  for (size_t axis = shape.axes.size(); axis-- > 0;) {
    ranks *= shape.axes[axis];
    const uint32_t group = ranks / shape.ranks_per_device;
    if (ranks % shape.ranks_per_device != 0 || group <= 1) continue;
    if (groups.empty() || groups.back() != group) groups.push_back(group);
  }
  std::reverse(groups.begin(), groups.end());
  return groups;
}

PlacementRequest request_of(const SliceShape& shape) {
  return {.devices = shape.physical(),
          .groups = groups_of(shape),
          .one_island = shape.one_island,
          .per_host_max = shape.per_host_max};
}

}  // namespace

bool SliceTable::may_take(const SliceShape& shape, DeviceRef at, int shares) const {
  if (exclusive_.contains(at) || (shape.exclusive && shares > 0)) return false;
  return shape.memory_bytes == 0 || hosts_.all().at(at.host).info.memory_bytes == 0 ||
         hosts_.free_bytes(at) >= shape.memory_bytes;
}

std::vector<OfferedHost> SliceTable::offered(const SliceShape& shape, Holders holders,
                                             const std::set<DeviceRef>& without) const {
  std::vector<OfferedHost> all;
  for (const auto& [id, host] : hosts_.all()) {
    const int64_t memory = host.info.memory_bytes;
    const bool serves =
        holders == Holders::kIgnoreAndUndrain ? !host.lost : hosts_.takes_slices(host);
    if (!serves || (memory != 0 && memory < shape.memory_bytes)) continue;
    OfferedHost& offer = all.emplace_back(
        OfferedHost{.id = id, .island = host.info.island, .devices = host.info.devices});
    for (uint32_t d = 0; d < host.info.devices; ++d) {
      const DeviceRef at{id, d};
      const auto shared = shares_.find(at);
      const int shares = shared == shares_.end() ? 0 : shared->second;
      const bool may = holders != Holders::kCount || may_take(shape, at, shares);
      if (may && !without.contains(at)) offer.offered.push_back({d, shares});
    }
  }
  return all;
}

std::vector<DeviceRef> SliceTable::find_place(const SliceShape& shape,
                                              const std::set<DeviceRef>& without) const {
  return placement_->place(offered(shape, Holders::kCount, without), request_of(shape));
}

std::vector<DeviceRef> SliceTable::find_place_if_idle(const SliceShape& shape,
                                                      const std::set<DeviceRef>& without) const {
  return placement_->place(offered(shape, Holders::kIgnore, without), request_of(shape));
}

// Adds devices that no slice of this shape may lie on because of this client's slices.
void SliceTable::add_held_by(SessionId owner, const SliceShape& shape,
                             std::set<DeviceRef>& devices) const {
  for (const auto& [id, slice] : slices_) {
    if (slice.owner == owner && (slice.exclusive || shape.exclusive))
      devices.insert(slice.devices.begin(), slice.devices.end());
  }
}

SliceTable::Elsewhere SliceTable::leave_hosts(SliceId id, const std::set<HostId>& hosts,
                                              const std::set<DeviceRef>& kept) {
  SliceRecord& slice = slices_.at(id);
  GW_ASSERT(slice.plans == 0, "slice ", id, " has plans");
  const bool lies_there = std::ranges::any_of(
      slice.devices, [&](const DeviceRef& device) { return hosts.contains(device.host); });
  if (!lies_there) return Elsewhere::kLies;
  std::set<DeviceRef> without;
  for (const auto& [host, record] : hosts_.all()) {
    for (uint32_t d = 0; hosts.contains(host) && d < record.info.devices; ++d)
      without.insert({host, d});
  }
  const SliceShape shape = slice.shape;
  give_devices_back(slice);
  std::set<DeviceRef> others = without;
  others.insert(kept.begin(), kept.end());
  std::vector<DeviceRef> devices = find_place(shape, others);
  if (devices.empty()) {
    add_held_by(slice.owner, shape, without);  // Nobody else gives these back.
    return find_place_if_idle(shape, without).empty() ? Elsewhere::kIsNowhere : Elsewhere::kIsHeld;
  }
  slice.placed_because.clear();  // Or it would say that the slice moved as a host was lost.
  take_devices(slice, shape, std::move(devices));
  return Elsewhere::kLies;
}

// Names the holders that keep this slice from devices, and the hosts that drain.
std::string SliceTable::who_holds(const SliceShape& shape) const {
  std::map<SessionId, uint64_t> devices_of;
  std::optional<DeviceRef> full;
  for (const auto& [id, slice] : slices_) {
    for (const DeviceRef& at : slice.devices) {
      if (!hosts_.takes_slices(hosts_.all().at(at.host))) continue;
      if (slice.exclusive || shape.exclusive) ++devices_of[slice.owner];
    }
  }
  for (const OfferedHost& host : offered(shape, Holders::kIgnore, {})) {
    for (const OfferedDevice& device : host.offered) {
      const DeviceRef at{host.id, device.device};
      const bool is_known = hosts_.all().at(host.id).info.memory_bytes != 0;
      if (!full && is_known && hosts_.free_bytes(at) < shape.memory_bytes) full = at;
    }
  }
  std::vector<std::string> items;
  for (const auto& [session, count] : devices_of) {
    items.push_back(
        cat(holder_name(session), " holds ", count, count == 1 ? " device" : " devices"));
  }
  if (full) items.push_back(cat("on ", hosts_.name_of(*full), " ", hosts_.holders(*full)));
  if (const std::string hosts = hosts_.draining(); !hosts.empty())
    items.push_back(cat("draining hosts: ", hosts));
  return listed(items);
}

std::string SliceTable::in_the_way(const SliceShape& shape) const {
  if (!find_place_if_idle(shape).empty()) return who_holds(shape);
  const uint64_t there = count_of(offered(shape, Holders::kIgnore, {}), shape);
  const std::string draining = hosts_.draining();
  return cat("the cluster has ", there, constraints_of(shape),
             draining.empty() ? "" : "; draining hosts: ", draining);
}

std::string SliceTable::holder_name(SessionId session) const {
  return names_ != nullptr ? names_->holder(session) : cat("client ", session);
}

Error SliceTable::refusal(const SliceShape& shape) const {
  const std::vector<OfferedHost> idle = offered(shape, Holders::kIgnore, {});
  if (placement_->place(idle, request_of(shape)).empty()) {
    const std::vector<OfferedHost> undrained = offered(shape, Holders::kIgnoreAndUndrain, {});
    if (!placement_->place(undrained, request_of(shape)).empty()) {
      return Error(ErrorKind::kOverloaded,
                   cat("allocate: hosts are draining: expected at most ", count_of(idle, shape),
                       " without them, got ", shape.devices, constraints_of(shape),
                       "; draining hosts: ", hosts_.draining()),
                   {}, "wait for them (SliceOptions::wait_ms), or ask who runs the controller");
    }
    std::vector<std::string> there;
    for (const auto& [id, host] : hosts_.all()) {
      if (host.lost) continue;
      there.push_back(cat(host.info.name, " has ", host.info.devices, " of ",
                          format_bytes(static_cast<uint64_t>(host.info.memory_bytes)),
                          " in island ", host.info.island,
                          hosts_.takes_slices(host) ? "" : ", which is draining"));
    }
    return Error(ErrorKind::kInvalid,
                 cat("allocate: not so many devices: expected at most ", count_of(idle, shape),
                     ", got ", shape.devices, constraints_of(shape), "; ",
                     there.empty() ? "no host is there" : listed(there)));
  }
  const std::string who = who_holds(shape);
  return Error(ErrorKind::kOverloaded,
               cat("allocate: not so many devices are free: expected at most ",
                   count_of(offered(shape, Holders::kCount, {}), shape), ", got ", shape.devices,
                   constraints_of(shape), who.empty() ? "" : "; ", who),
               {}, "wait for them (SliceOptions::wait_ms), or ask for less");
}

SliceRecord& SliceTable::allocate(SessionId owner, const SliceShape& shape) {
  require_possible(shape);
  std::vector<DeviceRef> devices = find_place(shape);
  if (devices.empty()) throw refusal(shape);
  return add(owner, shape, std::move(devices));
}

SliceRecord& SliceTable::add(SessionId owner, const SliceShape& shape,
                             std::vector<DeviceRef> devices) {
  const SliceId id(++last_);
  SliceRecord& slice = slices_[id];
  slice.id = id;
  slice.owner = owner;
  slice.host_scope = {id.value};
  slice.asked = shape;
  take_devices(slice, shape, std::move(devices));
  return slice;
}

void SliceTable::take_devices(SliceRecord& slice, const SliceShape& shape,
                              std::vector<DeviceRef> devices) {
  const char* const moved = slice.placed_because.empty() ? "" : "moved, as a host was lost, to ";
  slice.placed_because = moved + placement_reason(offered(shape, Holders::kCount, {}), devices);
  slice.shape = shape;
  slice.ranks_per_device = shape.ranks_per_device;
  slice.exclusive = shape.exclusive;
  slice.devices = std::move(devices);
  // Sorts so that neighbours in the mesh are neighbours in an island, and on a host. If the mesh
  // has axes, hosts with more devices come first, so that smaller groups make up larger ones.
  std::map<HostId, int64_t> on_host;
  if (!shape.axes.empty()) {
    for (const DeviceRef& device : slice.devices) ++on_host[device.host];
  }
  const auto place = [&](DeviceRef at) {
    const auto more = on_host.find(at.host);
    return std::tuple<const std::string&, int64_t, DeviceRef>(
        hosts_.island_of(at.host), more == on_host.end() ? 0 : -more->second, at);
  };
  std::sort(slice.devices.begin(), slice.devices.end(),
            [&](DeviceRef a, DeviceRef b) { return place(a) < place(b); });
  for (const DeviceRef& device : slice.devices) {
    ++shares_[device];
    if (shape.exclusive) exclusive_.insert(device);
    hosts_.keep(device.host);
  }
}

void SliceTable::drop_devices(SliceRecord& slice) {
  for (const DeviceRef& device : std::exchange(slice.devices, {})) {
    if (--shares_[device] == 0) shares_.erase(device);
    if (slice.exclusive) exclusive_.erase(device);
    hosts_.drop(device.host);
  }
}

// Wakes fibers that wait for devices, unless the slice had none.
void SliceTable::give_devices_back(SliceRecord& slice) {
  if (slice.devices.empty()) return;
  drop_devices(slice);
  hosts_.freed().raise();
}

void SliceTable::free_states(SliceRecord& slice) {
  slice.states.clear();  // Before the hosts are dropped, since it gives its memory back to them.
  const Frame frame = encode(FreeScopeFrame{slice.host_scope});
  for (HostId host : std::exchange(slice.state_hosts, {})) {
    hosts_.send(host, frame);
    hosts_.drop(host);
  }
}

bool SliceTable::place_state(SliceId id, const std::string& name, PlacedState at) {
  auto& placed = slices_.at(id).placed_states;
  const auto found = placed.find(name);
  if (found == placed.end()) return placed.emplace(name, std::move(at)).second;
  at.since = found->second.since;
  found->second = std::move(at);
  return false;
}

std::vector<std::string> SliceTable::lose_states(SliceId id, const std::set<std::string>& all_but) {
  SliceRecord& slice = slices_.at(id);
  std::vector<std::string> lost;
  for (const auto& [name, state] : slice.placed_states)
    if (!all_but.contains(name)) lost.push_back(name);
  for (const std::string& name : lost) slice.placed_states.erase(name);
  slice.lost_states.insert(lost.begin(), lost.end());
  return lost;
}

void SliceTable::forget_states(SliceId id) {
  SliceRecord& slice = slices_.at(id);
  free_states(slice);
  slice.host_scope = {++last_};  // No other slice has or gets this number.
}

SliceRecord& SliceTable::at(SliceId id, SessionId owner) {
  const auto found = slices_.find(id);
  GW_REQUIRE(found != slices_.end() && found->second.owner == owner && !found->second.released,
             "slice ", id, ": not a slice of this client");
  return found->second;
}

void SliceTable::drop(SliceId id) {
  --slices_.at(id).plans;
  erase_if_unused(id);
}

void SliceTable::hold_states(SliceId id, std::shared_ptr<Holding> memory,
                             const std::vector<HostId>& hosts) {
  SliceRecord& slice = slices_.at(id);
  slice.states.push_back(std::move(memory));
  for (HostId host : hosts) {
    if (slice.state_hosts.insert(host).second) hosts_.keep(host);
  }
}

void SliceTable::release(SliceId id) {
  const auto found = slices_.find(id);
  if (found == slices_.end()) return;
  found->second.released = true;
  erase_if_unused(id);
}

void SliceTable::release_all(SessionId owner) {
  std::vector<SliceId> owned;
  for (const auto& [id, slice] : slices_) {
    if (slice.owner == owner) owned.push_back(id);
  }
  for (SliceId id : owned) release(id);
}

int64_t SliceTable::devices_of(SessionId owner) const {
  int64_t count = 0;
  for (const auto& [id, slice] : slices_) {
    if (slice.owner == owner) count += static_cast<int64_t>(slice.devices.size());
  }
  return count;
}

void SliceTable::erase_if_unused(SliceId id) {
  const auto found = slices_.find(id);
  if (!found->second.released || found->second.plans > 0) return;
  SliceRecord slice = std::move(found->second);
  slices_.erase(found);
  free_states(slice);
  give_devices_back(slice);
  if (gone_) gone_(id);
}

SliceRecord* SliceTable::find(SliceId id) {
  const auto found = slices_.find(id);
  return found == slices_.end() ? nullptr : &found->second;
}

std::vector<SliceRecord*> SliceTable::all_of(SessionId owner) {
  std::vector<SliceRecord*> owned;
  for (auto& [id, slice] : slices_) {
    if (slice.owner == owner) owned.push_back(&slice);
  }
  return owned;
}

std::map<SessionId, std::set<DeviceRef>> SliceTable::devices() const {
  std::map<SessionId, std::set<DeviceRef>> all;
  for (const auto& [id, slice] : slices_)
    all[slice.owner].insert(slice.devices.begin(), slice.devices.end());
  return all;
}

std::string goes_on_without(const std::vector<std::string>& states, const std::string& why) {
  std::string names;
  for (const std::string& state : states) names += cat(names.empty() ? "\"" : ", \"", state, "\"");
  return cat(why, ": the program goes on without its states ", cut(names, kTextBytesMax),
             ", which no executable has any more");
}

}  // namespace gangway
