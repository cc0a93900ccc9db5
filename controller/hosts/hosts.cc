#include "controller/hosts/hosts.h"

#include <algorithm>

#include "runtime/base/units.h"

namespace gangway {
namespace {

// The name in messages of the holder of all regions.
constexpr char kOverlaidPrograms[] = "the region that overlaid programs share";

int64_t total_of(const std::vector<Reservation>& reservations) {
  int64_t bytes = 0;
  for (const Reservation& item : reservations) bytes += item.bytes * item.at.count;
  return bytes;
}

}  // namespace

std::string to_text(const StuckDevice& stuck) {
  return cat("device ", stuck.device, " is stuck in ", stuck.what, stuck.at.empty() ? "" : " at ",
             stuck.at, ", for ", format_duration_ns(stuck.ms * 1'000'000),
             stuck.waits ? ", where it waits for other devices" : "");
}

void HostRecord::count_moved(const LinkBytes& now) {
  for (size_t link = 0; link < now.size(); ++link) {
    if (now[link] > moved[link]) moved_total[link].add(now[link] - moved[link]);
    moved[link] = now[link];
  }
}

HostRecord& HostTable::add(HostInfo info, ExecutorPeer& peer, int64_t now_ns) {
  info.wanted_name = info.name;
  info.name = names_.take(info.name, info.owner);
  const HostId id(++last_);
  HostRecord& host = hosts_[id];
  host.id = id;
  host.reserved = ReservedBytes(info.devices);
  host.info = std::move(info);
  host.peer = &peer;
  host.last_heard_ns = now_ns;
  freed_.raise();
  return host;
}

HostRecord& HostTable::at(HostId id) {
  auto found = hosts_.find(id);
  GW_ASSERT(found != hosts_.end(), "host ", id);
  return found->second;
}

HostRecord* HostTable::find(HostId id) {
  const auto found = hosts_.find(id);
  return found == hosts_.end() ? nullptr : &found->second;
}

void HostTable::drop(HostId id) {
  --at(id).users;
  erase_if_unused(id);
}

void HostTable::erase_if_unused(HostId id) {
  const HostRecord& host = at(id);
  if (host.lost && host.users == 0) hosts_.erase(id);
}

void HostTable::set_draining(const std::string& name, bool is_draining) {
  names_.set_draining(name, is_draining);
  freed_.raise();
}

std::string HostTable::draining() const {
  std::string text;
  for (const auto& [id, host] : hosts_) {
    if (!host.lost && names_.is_draining(host.info.name))
      text += cat(text.empty() ? "" : ", ", host.info.name);
  }
  return text;
}

void HostTable::send(HostId id, const Frame& frame) {
  const HostRecord* host = find(id);
  if (host != nullptr && host->peer != nullptr) host->peer->send(frame);
}

void HostTable::add_reserved(const DeviceRange& range, int64_t bytes) {
  at(range.host).reserved.add(range.first, range.first + range.count, bytes);
}

// The first of these devices with less than `wanted.bytes` free. None: there is room on all.
std::optional<uint32_t> HostTable::short_of(const Reservation& wanted) {
  const HostRecord& host = at(wanted.at.host);
  if (host.info.memory_bytes == 0) return std::nullopt;
  return host.reserved.first_above(wanted.at.first, wanted.at.first + wanted.at.count,
                                   host.info.memory_bytes - wanted.bytes);
}

// Adds all of `wanted`, or returns what does not fit and adds nothing.
std::optional<Shortage> HostTable::add_all(const std::vector<Reservation>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (const auto device = short_of(wanted[i])) {
      for (size_t back = 0; back < i; ++back) add_reserved(wanted[back].at, -wanted[back].bytes);
      return Shortage{{wanted[i].at.host, *device}, wanted[i].bytes};
    }
    add_reserved(wanted[i].at, wanted[i].bytes);
  }
  return std::nullopt;
}

void HostTable::remove_all(const std::vector<Reservation>& added) {
  for (const Reservation& item : added) add_reserved(item.at, -item.bytes);
}

std::optional<Shortage> HostTable::over_limit(const std::string& owner,
                                              const std::vector<Reservation>& wanted,
                                              int64_t bytes) const {
  if (bytes <= 0 || !memory_limit_) return std::nullopt;
  std::string over = memory_limit_(owner, bytes);
  if (over.empty()) return std::nullopt;
  return Shortage{{wanted[0].at.host, wanted[0].at.first}, bytes, std::move(over)};
}

std::optional<Shortage> HostTable::reserve(const std::string& owner,
                                           const std::vector<Reservation>& wanted) {
  const int64_t bytes = memory_limit_ ? total_of(wanted) : 0;
  if (auto over = over_limit(owner, wanted, bytes)) return over;
  if (auto lacking = add_all(wanted)) return lacking;
  for (const Reservation& item : wanted) held_[item.at][owner] += item.bytes;
  count_held(owner, bytes);
  return std::nullopt;
}

std::optional<Shortage> HostTable::lacks(const std::string& owner,
                                         const std::vector<Reservation>& wanted,
                                         const std::vector<Reservation>& overlaid) {
  const int64_t bytes = total_of(wanted) + total_of(overlaid);
  if (auto over = over_limit(owner, wanted.empty() ? overlaid : wanted, bytes)) return over;
  std::vector<Reservation> all = wanted;
  const std::vector<Reservation> more = growth(overlaid);
  all.insert(all.end(), more.begin(), more.end());
  auto lacking = add_all(all);
  if (!lacking) remove_all(all);
  return lacking;
}

void HostTable::count_held(const std::string& owner, int64_t bytes) {
  if (!memory_limit_ || bytes == 0) return;
  int64_t& held = held_bytes_[owner];
  held += bytes;
  if (held == 0) held_bytes_.erase(owner);
}

// Bytes by which the regions have to grow, device by device, since they are released so. If several
// arenas are to lie on one device, the largest counts.
std::vector<Reservation> HostTable::growth(const std::vector<Reservation>& overlaid) const {
  std::map<DeviceRef, int64_t> largest;
  for (const Reservation& item : overlaid) {
    for (uint32_t d = item.at.first; d < item.at.first + item.at.count; ++d) {
      int64_t& here = largest[{item.at.host, d}];
      here = std::max(here, item.bytes);
    }
  }
  std::vector<Reservation> more;
  for (const auto& [at, bytes] : largest) {
    const int64_t grows = bytes - overlaid_.region(at);
    if (grows > 0) more.push_back({{at.host, at.device, 1}, grows});
  }
  return more;
}

std::optional<Shortage> HostTable::reserve_overlaid(const std::string& owner,
                                                    const std::vector<Reservation>& wanted) {
  const int64_t bytes = total_of(wanted);
  if (auto over = over_limit(owner, wanted, bytes)) return over;
  if (auto lacking = reserve(kOverlaidPrograms, growth(wanted))) return lacking;
  for (const Reservation& item : wanted) {
    for (uint32_t d = item.at.first; d < item.at.first + item.at.count; ++d)
      overlaid_.add(owner, {item.at.host, d}, item.bytes);
  }
  count_held(owner, bytes);
  return std::nullopt;
}

void HostTable::release_overlaid(const std::string& owner, const std::vector<Reservation>& held) {
  std::vector<Reservation> less;
  for (const Reservation& item : held) {
    for (uint32_t d = item.at.first; d < item.at.first + item.at.count; ++d) {
      const int64_t shrinks = overlaid_.remove(owner, {item.at.host, d}, item.bytes);
      if (shrinks > 0) less.push_back({{item.at.host, d, 1}, shrinks});
    }
  }
  count_held(owner, -total_of(held));
  release(kOverlaidPrograms, less);
}

void HostTable::release(const std::string& owner, const std::vector<Reservation>& held) {
  for (const Reservation& item : held) {
    add_reserved(item.at, -item.bytes);
    if (freed_.memory.is_watched()) tell_freed(item);
    auto& holders = held_[item.at];
    holders[owner] -= item.bytes;
    if (holders[owner] == 0) holders.erase(owner);
    if (holders.empty()) held_.erase(item.at);
  }
  if (memory_limit_) count_held(owner, -total_of(held));
}

// Wakes fibers that wait for memory which devices now have free, since `item` was given back.
void HostTable::tell_freed(const Reservation& item) {
  const HostRecord& host = at(item.at.host);
  if (host.info.memory_bytes == 0) return;
  for (const int64_t reserved :
       host.reserved.of_pieces(item.at.first, item.at.first + item.at.count)) {
    const int64_t now = host.info.memory_bytes - reserved;
    freed_.memory.grew(now - item.bytes, now);
  }
}

int64_t HostTable::held_bytes(const std::string& holder) const {
  const auto found = held_bytes_.find(holder);
  return found == held_bytes_.end() ? 0 : found->second;
}

int64_t HostTable::free_bytes(DeviceRef at) const {
  const HostRecord& host = hosts_.at(at.host);
  return host.info.memory_bytes - host.reserved[at.device];
}

std::string HostTable::name_of(DeviceRef at) const {
  return cat(hosts_.at(at.host).info.name, "/device ", at.device);
}

std::string HostTable::shortage(const Shortage& short_of) const {
  if (!short_of.over_quota.empty()) return short_of.over_quota;
  const auto text = [](int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); };
  const int64_t free = free_bytes(short_of.at),
                total = hosts_.at(short_of.at.host).info.memory_bytes;
  const bool never = short_of.bytes > total;
  return cat("needs ", text(short_of.bytes), " on ", name_of(short_of.at),
             never ? ", which has " : ", where ", never ? "" : cat(text(free), " of "), text(total),
             never ? "" : " are free", ": ", text(short_of.bytes - (never ? total : free)),
             " short", never ? " even when nobody holds any" : "");
}

LinkClass HostTable::link_class(HostId a, HostId b) const {
  if (a == b) return LinkClass::kHost;
  return island_of(a) == island_of(b) ? LinkClass::kIsland : LinkClass::kBetweenIslands;
}

std::map<std::string, int64_t> HostTable::held_in_all() const {
  std::map<std::string, int64_t> all;
  for (const auto& [range, holders] : held_) {
    for (const auto& [owner, bytes] : holders) all[owner] += bytes * range.count;
  }
  for (const auto& [owner, bytes] : overlaid_.by_owner()) all[owner] += bytes;
  return all;
}

std::string HostTable::holders(DeviceRef at) const {
  std::map<std::string, int64_t> here;
  for (auto range = held_.lower_bound({at.host, 0, 0});
       range != held_.end() && range->first.host == at.host; ++range) {
    if (!range->first.contains(at)) continue;
    for (const auto& [owner, bytes] : range->second) here[owner] += bytes;
  }
  if (here.empty()) return "nobody holds any";
  std::vector<std::pair<int64_t, std::string>> by_size;
  for (const auto& [owner, bytes] : here) by_size.emplace_back(-bytes, owner);
  std::sort(by_size.begin(), by_size.end());
  std::string text;
  for (const auto& [bytes, owner] : by_size) {
    text += cat(text.empty() ? "" : ", ", owner, " holds ",
                format_bytes(static_cast<uint64_t>(-bytes)));
  }
  return text;
}

void HostTable::require_alive(HostId id) const {
  constexpr const char* kHint = "allocate a new slice and compile again";
  const auto found = hosts_.find(id);
  if (found == hosts_.end())  // Lost, and erased since nothing lies on it: its name is not known.
    throw Error(ErrorKind::kUnavailable, cat("host number ", id, " is gone"), {}, kHint);
  const HostRecord& host = found->second;
  if (!host.lost) return;
  throw Error(ErrorKind::kUnavailable,
              cat("host \"", host.info.name, "\" is gone: ", host.lost->message()),
              {.host = host.info.name}, kHint);
}

}  // namespace gangway
