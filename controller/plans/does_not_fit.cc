#include "controller/plans/does_not_fit.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <set>

#include "protocol/memory_units.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

constexpr int64_t kFactorMax = 4096;  // No mesh is proposed that is larger by more.

std::string amount(int64_t bytes) {
  return format_bytes(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

// An axis of a slice's mesh, and the bytes of states on one device that are cut over it.
struct CutAxis {
  size_t slice = 0;
  std::string name;
  int64_t size = 1;
  int64_t bytes = 0;
};

class Advice {
 public:
  Advice(const PlanRecord& record, const HostTable& hosts, const Shortage& short_of,
         const std::map<DeviceRef, OwnArenas>& arenas)
      : record_(record), hosts_(hosts), at_(short_of.at), arenas_(arenas) {
    for (size_t i = 0; i < record.needs.size(); ++i) {
      for (const DeviceNeed& need : record.needs[i]) {
        const DeviceRef device{record.hosts[i], need.device};
        own_.insert(device);
        needed_max_ = std::max(needed_max_, need.total());
        if (device == at_) need_ = need;
      }
    }
    for (const auto& [id, host] : hosts.all()) {
      if (host.lost) continue;
      for (uint32_t d = 0; d < host.info.devices; ++d) look_at({id, d}, host.info.memory_bytes);
    }
  }

  Error error() const {
    const int64_t total = total_of(at_.host), shared = shared_room(at_, need_);
    const int64_t free = hosts_.free_bytes(at_);
    const bool never = need_.total() > total;
    std::string text =
        cat("compile: program \"", record_.plan->name, "\" ",
            !never                            ? "does not fit"
            : elsewhere_empty_ >= own_.size() ? "does not fit, nor ever will on its devices"
                                              : "does not fit, nor ever will on this cluster",
            ": needs ", amount(need_.total()), " (states ", amount(need_.state), ", temporaries ",
            amount(need_.arena + need_.overlaid), ", inputs and outputs of ",
            record_.plan->runs_in_flight_max, " runs ", amount(need_.slots), ") on ",
            hosts_.name_of(at_), ", ");
    if (never) {
      text += cat("which has ", amount(total), ": ", amount(need_.total() - total),
                  " short even when nobody holds any");
      if (elsewhere_empty_ < own_.size()) {
        text += cat("; the largest device is ", hosts_.name_of(largest_), " with ",
                    amount(total_of(largest_.host)));
      }
    } else {
      text += cat("where ", amount(free), " of ", amount(total), " are free",
                  shared == 0 ? "" : cat(", and ", amount(shared), " for temporaries in turns"),
                  ": ", amount(need_.total() - free - shared), " short; ", hosts_.holders(at_));
    }
    return Error(never ? ErrorKind::kInvalid : ErrorKind::kOverloaded, std::move(text),
                 {.program = record_.plan->name}, hint(never));
  }

 private:
  int64_t total_of(HostId host) const { return hosts_.all().at(host).info.memory_bytes; }

  void look_at(DeviceRef device, int64_t total) {
    if (largest_ == DeviceRef{} || total > total_of(largest_.host)) largest_ = device;
    if (own_.contains(device)) return;
    if (total >= needed_max_) ++elsewhere_empty_;
    if (hosts_.free_bytes(device) >= needed_max_) ++elsewhere_free_;
  }

  // The part of its need that overlaid programs have already.
  int64_t shared_room(DeviceRef device, const DeviceNeed& need) const {
    return std::min(need.overlaid, hosts_.region_bytes(device));
  }

  // Whether the program fits everywhere if each device needs what `change` returns instead: now, or
  // if nobody held anything.
  template <class Change>
  bool fits(bool on_empty, const Change& change) const {
    for (size_t i = 0; i < record_.needs.size(); ++i) {
      for (const DeviceNeed& need : record_.needs[i]) {
        const DeviceRef device{record_.hosts[i], need.device};
        const int64_t total = total_of(device.host);
        if (total == 0) continue;  // Not known.
        const int64_t room =
            on_empty ? total : hosts_.free_bytes(device) + shared_room(device, need);
        if (change(device, need) > room) return false;
      }
    }
    return true;
  }

  std::string hint(bool never) const {
    std::vector<std::string> ways;
    if (!never) ways.push_back("let other programs go");
    add_fewer_runs(never, ways);
    if (!never) add_overlay(ways);
    const bool by_mesh = add_larger_meshes(never, ways);
    add_other_devices(never, ways);
    if (!by_mesh && need_.state >= need_.total() / 4)
      ways.push_back("cut states over an axis of a larger mesh: they fall as 1/n along it");
    if (ways.empty()) ways.push_back("use more devices, or a smaller program");
    std::string text;
    for (const std::string& way : ways) text += cat(text.empty() ? "" : "; or ", way);
    return text;
  }

  void add_fewer_runs(bool never, std::vector<std::string>& ways) const {
    const int64_t now = record_.plan->runs_in_flight_max;
    for (int64_t runs = now - 1; runs >= 1; --runs) {
      const auto need_of = [&](DeviceRef, const DeviceNeed& need) {
        return need.total() - need.slots + block_bytes(need.slots * runs / now);
      };
      if (!fits(never, need_of)) continue;
      ways.push_back(cat("fewer runs in flight: CompileOptions::runs_in_flight_max = ", runs,
                         " needs about ", amount(need_of(at_, need_))));
      return;
    }
  }

  // Proposes that the others' temporaries and its own lie over one another.
  void add_overlay(std::vector<std::string>& ways) const {
    const auto need_of = [&](DeviceRef device, const DeviceNeed& need) {
      const auto others = arenas_.find(device);
      if (others == arenas_.end()) return need.total();
      return need.total() - need.arena + std::max(need.arena, others->second.largest) -
             others->second.all;
    };
    if (fits(false, need_of))
      ways.push_back(
          "start the controller with --overlay-memory: temporaries of programs that "
          "take turns then lie over one another");
  }

  std::vector<CutAxis> cut_axes() const {
    std::vector<CutAxis> axes;
    for (size_t s = 0; s < record_.plan->slices.size(); ++s) {
      if (!lies_on(s, at_)) continue;
      const Mesh& mesh = record_.plan->slices[s].mesh;
      for (size_t a = 0; a < mesh.axes.size(); ++a) {
        CutAxis axis{.slice = s, .name = mesh.axes[a].name, .size = mesh.axes[a].size};
        for (const PlanState& state : record_.plan->states) {
          const PlanValue& value = record_.plan->values[state.value];
          if (value.slice == s && value.sharding[a].kind == PlacementKind::kShard)
            axis.bytes += record_.layouts[s]->bytes_on_device(value.local_type);
        }
        axis.bytes = std::min(axis.bytes, need_.state);  // Some states may be there already.
        if (axis.bytes > 0) axes.push_back(std::move(axis));
      }
    }
    return axes;
  }

  bool lies_on(size_t slice, DeviceRef device) const {
    return std::ranges::any_of(record_.layouts[slice]->ranges,
                               [&](const DeviceRange& range) { return range.contains(device); });
  }

  // Returns whether it proposed one.
  bool add_larger_meshes(bool never, std::vector<std::string>& ways) const {
    bool any = false;
    for (const CutAxis& axis : cut_axes()) {
      const auto is_enough = [&](int64_t factor) {
        return fits(never, [&](DeviceRef device, const DeviceNeed& need) {
          const int64_t cut = lies_on(axis.slice, device) ? std::min(axis.bytes, need.state) : 0;
          return need.total() - cut + block_bytes(cut / factor);
        });
      };
      if (!is_enough(kFactorMax)) continue;
      const auto factors = std::views::iota(int64_t{2}, kFactorMax + 1);
      const int64_t factor = *std::ranges::partition_point(
          factors, [&](int64_t smaller) { return !is_enough(smaller); });
      any = true;
      ways.push_back(cat("a mesh with ", axis.name, "=", axis.size * factor, " instead of ",
                         axis.size, ": states cut over it, ", amount(axis.bytes),
                         " here, fall as 1/n"));
    }
    return any;
  }

  void add_other_devices(bool never, std::vector<std::string>& ways) const {
    const auto name = [](size_t count) {
      return cat(count, count == 1 ? " other device has " : " other devices have ");
    };
    const std::string ask = "allocate elsewhere (SliceOptions::memory_bytes): ";
    if (elsewhere_free_ >= own_.size()) {
      ways.push_back(cat(ask, name(elsewhere_free_), amount(needed_max_), " free"));
    } else if (never && elsewhere_empty_ >= own_.size()) {
      ways.push_back(cat(ask, name(elsewhere_empty_), "so much when empty"));
    }
  }

  const PlanRecord& record_;
  const HostTable& hosts_;
  const DeviceRef at_;
  const std::map<DeviceRef, OwnArenas>& arenas_;
  DeviceNeed need_;             // Need of the device that is short.
  int64_t needed_max_ = 0;      // Largest need of a device of the program.
  std::set<DeviceRef> own_;     // Devices of the program.
  size_t elsewhere_free_ = 0;   // Other devices with room for the largest part, now
  size_t elsewhere_empty_ = 0;  // or when they are empty.
  DeviceRef largest_;
};

}  // namespace

Error does_not_fit(const PlanRecord& record, const HostTable& hosts, const Shortage& short_of,
                   const std::map<DeviceRef, OwnArenas>& arenas) {
  return Advice(record, hosts, short_of, arenas).error();
}

}  // namespace gangway
