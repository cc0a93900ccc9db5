#include "tests/tidy/rooms.h"

#include <algorithm>

namespace gangway::tidy {
namespace {

using Names = std::vector<std::string_view>;

Names operator+(Names names, const Names& more) {
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

// Rooms that nearly every room includes: values and graphs.
Names graphs() { return {"runtime/base", "ir/types", "ir/op_table", "ir/graph"}; }

std::vector<Room> runtime_rooms() { return {{"runtime/base", {}}, {"runtime", {"runtime/base"}}}; }

std::vector<Room> ir_rooms() {
  return {
      {"ir/types", {"runtime/base"}},
      {"ir/boxes", {"runtime/base", "ir/types"}},
      {"ir/op_table", {"runtime/base", "ir/types"}},
      {"ir/graph", {"runtime/base", "ir/types", "ir/op_table"}},
      {"ir/verify", graphs()},
      {"ir/text", graphs() + Names{"ir/verify"}},
      {"ir/wire", graphs() + Names{"ir/verify", "ir/text"}},
      {"ir/build", graphs() + Names{"ir/verify", "ir/wire"}},
      {"ir/op_table/rows", graphs() + Names{"ir/build"}},  // A row's gradient is traced.
      {"ir/inspect", graphs() + Names{"ir/text"}},
      {"ir/plan", graphs() + Names{"ir/wire"}},
      {"ir/transforms/rewrite", graphs()},
      {"ir/transforms/propagation", graphs()},
      {"ir/transforms/conversions",
       graphs() + Names{"ir/build", "ir/transforms/rewrite", "ir/transforms/propagation"}},
      {"ir/transforms/fusion", graphs() + Names{"ir/transforms/rewrite"}},
      {"ir/transforms/overlap", graphs() + Names{"ir/transforms/rewrite"}},
      {"ir/transforms/memory", graphs() + Names{"ir/plan"}},
      {"ir/transforms/sections", graphs() + Names{"ir/plan"}},
      {"ir/transforms", graphs() + Names{"ir/verify", "ir/plan", "ir/transforms/rewrite",
                                         "ir/transforms/propagation", "ir/transforms/conversions",
                                         "ir/transforms/fusion", "ir/transforms/overlap",
                                         "ir/transforms/memory", "ir/transforms/sections"}},
      {"ir/explain", graphs() + Names{"ir/text", "ir/inspect", "ir/plan", "ir/transforms",
                                      "ir/transforms/propagation", "ir/transforms/conversions",
                                      "ir/transforms/memory"}},
  };
}

std::vector<Room> device_rooms() {
  Names device = graphs();
  for (const char* name : {"runtime", "ir/plan", "executor/work", "executor/store",
                           "executor/links", "executor/transfers", "executor/collectives"})
    device.emplace_back(name);
  return {
      {"executor/devices", device},
      {"executor/devices/lower",
       graphs() + Names{"ir/boxes", "ir/plan", "ir/transforms/memory", "executor/kernels",
                        "executor/collectives", "executor/devices"}},
      {"executor/devices/cpu",
       device + Names{"ir/build", "ir/transforms/memory", "executor/kernels", "executor/devices",
                      "executor/devices/lower"}},
      {"executor/devices/sim", device + Names{"executor/kernels", "executor/devices",
                                              "executor/devices/lower", "executor/devices/cpu"}},
      {"executor/devices/cuda/driver",
       {"runtime/base", "executor/kernels", "executor/store", "executor/collectives"}},
      {"executor/devices/cuda/kernels", {"executor/kernels"}},
      {"executor/devices/cuda/lower",
       graphs() + Names{"ir/plan", "ir/transforms/rewrite", "executor/kernels",
                        "executor/devices/lower", "executor/devices/cuda/driver",
                        "executor/devices/cuda/kernels"}},
      {"executor/devices/cuda/collectives",
       {"runtime/base", "runtime", "executor/transfers", "executor/collectives", "executor/devices",
        "executor/devices/cuda/driver", "executor/devices/cuda/kernels"}},
      {"executor/devices/cuda/module",
       {"runtime/base", "executor/kernels", "executor/devices/cuda/driver",
        "executor/devices/cuda/kernels"}},
      {"executor/devices/cuda",
       device + Names{"ir/transforms/memory", "executor/devices", "executor/devices/lower",
                      "executor/devices/cuda/driver", "executor/devices/cuda/kernels",
                      "executor/devices/cuda/lower", "executor/devices/cuda/collectives"}},
  };
}

std::vector<Room> executor_rooms() {
  std::vector<Room> rooms = {
      {"executor/kernels", {"runtime/base", "ir/types"}},
      {"executor/work", {"runtime/base", "runtime"}},
      {"executor/store", {"runtime/base", "runtime", "ir/types", "protocol"}},
      {"executor/links", {"runtime/base", "runtime", "executor/work"}},
      {"executor/transfers",
       {"runtime/base", "runtime", "ir/plan", "executor/work", "executor/links"}},
      {"executor/collectives",
       {"runtime/base", "runtime", "ir/plan", "ir/types", "executor/work", "executor/links",
        "executor/transfers"}},
  };
  std::ranges::copy(device_rooms(), std::back_inserter(rooms));
  Names parts = graphs();
  for (const char* name :
       {"runtime", "ir/plan", "ir/transforms/memory", "protocol", "executor/work", "executor/store",
        "executor/links", "executor/transfers", "executor/collectives", "executor/devices"})
    parts.emplace_back(name);
  rooms.push_back({"executor/sources",
                   {"runtime/base", "runtime", "ir/types", "protocol", "data", "executor/work",
                    "executor/store"}});
  rooms.push_back({"executor/replay", parts});
  rooms.push_back(
      {"executor/host", parts + Names{"ir/boxes", "executor/devices/cpu", "executor/devices/sim",
                                      "executor/devices/cuda/driver", "executor/devices/cuda",
                                      "executor/sources", "executor/replay"}});
  rooms.push_back(
      {"executor/checkpoints", {"runtime/base", "runtime", "ir/types", "protocol", "checkpoint"}});
  rooms.push_back({"executor/service",
                   {"runtime/base", "runtime", "ir/graph", "ir/plan", "protocol", "executor/host",
                    "executor/checkpoints"}});
  return rooms;
}

std::vector<Room> controller_rooms() {
  const Names below = graphs() + Names{"runtime", "ir/plan", "protocol"};
  const Names devices = below + Names{"controller/owners", "controller/hosts"};
  const Names plans = devices + Names{"controller/slices", "controller/plans"};
  return {
      {"controller/owners", below},
      {"controller/hosts", below},
      {"controller/slices", devices},
      {"controller/plans", devices + Names{"controller/slices", "ir/wire", "ir/transforms"}},
      {"controller/scheduler", plans},
      {"controller/programs", plans + Names{"ir/transforms", "controller/scheduler", "checkpoint"}},
      {"controller",
       plans + Names{"ir/wire", "ir/explain", "controller/scheduler", "controller/programs"}},
      {"controller/service",
       plans + Names{"ir/wire", "controller/scheduler", "controller/programs", "controller"}},
  };
}

// Rooms that programs use, and rooms that use programs.
std::vector<Room> public_rooms() {
  const Names api = graphs() + Names{"data",       "ir/build",      "ir/text",
                                     "ir/inspect", "ir/transforms", "ir/transforms/propagation",
                                     "client",     "checkpoint"};
  return {
      {"client", graphs() + Names{"runtime", "ir/wire", "ir/plan", "protocol"}},
      {"client/local",  // Starts clusters in this process or as children.
       {"runtime/base", "runtime", "protocol", "client", "controller", "controller/service",
        "executor/service"}},
      {"sim",  // The whole cluster on virtual time: for the tool and for tests.
       graphs() + Names{"runtime", "protocol", "client", "executor/store", "executor/links",
                        "executor/devices/sim", "executor/service", "controller/service"}},
      {"gangway.h", api},
      {"programs", api + Names{"gangway.h"}},
      {"examples", {"gangway.h", "programs"}},
      {"tools", {"*"}},
      {"bench", {"*"}},
      {"tests", {"*"}},
      {"cmake", {"*"}},
  };
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path == folder || (path.starts_with(folder) && path[folder.size()] == '/');
}

std::string_view top_of(std::string_view path) { return path.substr(0, path.find('/')); }

std::vector<Room> all_rooms() {
  std::vector<Room> all = runtime_rooms();
  const auto add = [&all](const std::vector<Room>& rooms) {
    all.insert(all.end(), rooms.begin(), rooms.end());
  };
  add({{"data", {"runtime/base"}}});
  add(ir_rooms());
  add({{"protocol", {"runtime/base", "runtime", "ir/types", "ir/plan"}}});
  add({{"checkpoint", {"runtime/base", "ir/types"}}});
  add(executor_rooms());
  add(controller_rooms());
  add(public_rooms());
  return all;
}

}  // namespace

bool Room::may(std::string_view other) const {
  return other == folder || std::ranges::count(may_include, "*") > 0 ||
         std::ranges::count(may_include, other) > 0;
}

std::span<const Room> rooms() {
  static const std::vector<Room> kRooms = all_rooms();
  return kRooms;
}

const Room* room_of(std::string_view path) {
  const Room* best = nullptr;
  for (const Room& room : rooms()) {
    if (lies_in(path, room.folder) && (!best || room.folder.size() > best->folder.size()))
      best = &room;
  }
  return best;
}

bool test_may_include(const Room& from, const Room& to) {
  const std::string_view top = top_of(to.folder);
  return top == top_of(from.folder) || std::ranges::any_of(rooms(), [&](const Room& room) {
           return top_of(room.folder) == top_of(from.folder) &&
                  std::ranges::any_of(room.may_include,
                                      [&](std::string_view name) { return top_of(name) == top; });
         });
}

}  // namespace gangway::tidy
