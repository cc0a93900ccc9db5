// OverlayRegion: the memory of one device in which the arenas of overlaid plans lie over one
// another, so that it needs as much as the largest of them and not their sum.
//
// The contents mean nothing between two runs. A run of one plan enters before it writes to the
// region, and leaves when it has ended; the order of tickets keeps others out meanwhile
// (Work::region()), since runs of overlaid plans get all their tickets at once. A run that enters
// while another one is inside is refused: it would overwrite what that one computes with.
//
// The region's first address never changes: addresses are reserved for all of the device's memory,
// and pages are mapped behind them as plans need them. Addresses that a plan has recorded therefore
// stay right when a larger plan comes, and when it goes. The pages count as the device's
// (DeviceMemory), to the byte that plans need.
//
// Not for discrete devices, since the host cannot reserve addresses in their memory.
//
// Threads: place() and the release of a place on the reactor's thread; enter() and leave() on the
// device's.
// Ownership: places keep the region alive, and the region its device's memory.
// Errors: place() throws kOverloaded, naming what needs how much, and where.
// Cost: place() maps pages; enter() and leave() compare two numbers.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "executor/store/device_memory.h"
#include "runtime/base/ids.h"

namespace gangway {

class OverlayRegion : public std::enable_shared_from_this<OverlayRegion> {
 public:
  explicit OverlayRegion(DeviceMemory& memory) : memory_(memory.shared_from_this()) {}
  ~OverlayRegion();
  OverlayRegion(const OverlayRegion&) = delete;

  // The first `bytes` of the region, for the plan that holds the returned pointer. Pages are
  // unmapped with the last plan that needs them.
  std::shared_ptr<std::byte> place(int64_t bytes, const std::string& what);
  int64_t bytes() const { return counted_; }  // Bytes of the largest place.

  // Returns false if another run is inside. The ranks of one run enter and leave one by one.
  bool enter(RunId run);
  void leave(RunId run);
  RunId inside() const { return inside_; }

 private:
  void set_aside(const std::string& what);
  void resize(const std::string& what);

  const std::shared_ptr<DeviceMemory> memory_;
  std::byte* base_ = nullptr;  // Null until there is a place.
  size_t addresses_ = 0;       // Number of bytes reserved from there.
  std::multiset<int64_t> places_;
  int64_t counted_ = 0;
  RunId inside_;  // 0: no run.
  uint32_t ranks_inside_ = 0;
};

}  // namespace gangway
