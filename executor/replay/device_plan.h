// One device's share of an installed plan, at each stage of the installation. A device that runs
// several ranks of the plan has a share for each.
//
//   PlanRank       the rank, and the device that runs it
//   LaidOutShare   its entries in ticket order, and where every value lies    read-only
//   LinkedShare    the collectives and channels by which it meets its peers   read-only
//   ShareMemory    its memory on the device; none while it is suspended
//   DevicePlan     all of these, and the states that it uses: a DeviceRun replays it
//
// Threads: made on the reactor thread; read-only while runs are in flight.
// Ownership: the installed plan of the host owns the shares (executor/host/installed_plan.h).
// States are shared with the state store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "executor/devices/device.h"
#include "executor/replay/order_log.h"
#include "executor/replay/plan_layout.h"
#include "executor/store/buffer_pool.h"
#include "executor/store/overlay_region.h"
#include "executor/store/tensor_shards.h"
#include "executor/transfers/transfer_channel.h"
#include "ir/types/box.h"

namespace gangway {

enum class EntryKind : uint8_t { kCall, kCommit, kSource, kSend, kReceive, kGate };

// A base of a call's frame that changes with each run.
struct Patch {
  uint32_t base = 0;   // Index into CallFrame::bases.
  uint32_t value = 0;  // Plan value.
};

struct Entry {
  EntryKind kind = EntryKind::kCall;
  uint32_t node = 0;           // Node of the plan; kCommit: the call whose frame it goes on with.
  uint32_t plan_node = kNone;  // kCommit: its own node.
  const CompiledFunction* function = nullptr;
  uint32_t begin = 0, end = 0;    // kCall, kCommit: steps of one section.
  bool meets_others = false;      // It has a collective, or is the gate.
  uint32_t finite_value = kNone;  // kCall: the plan value that must be finite.
  bool guarded = false;      // kCall, its last section: values to be committed must be finite too.
  uint32_t value = kNone;    // kSource, kSend: the plan value that moves.
  uint32_t channel = kNone;  // kSend, kReceive.
  uint32_t source = kNone;   // kSource: index into Plan::sources.
  bool first = true;         // kCall: its first section; the fields below are only set there.
  std::vector<Patch> patches;
  std::vector<uint32_t> arguments;  // Indices into Plan::inputs that it reads.
};

struct DeviceOutput {
  uint32_t output = 0;  // Index into Plan::outputs.
  uint32_t value = 0;
  bool bound = false;  // The value is computed in place; else it is copied when the run ends.
  bool small = false;  // Replicated, small, and this is the lowest device that has it.
};

// A slice for which this host reports to the controller how far its devices are and how long they
// were busy: the first device of the slice is one of its own.
struct ReportedSlice {
  uint32_t slice = 0;
  // Number of positions that have ended; the index is the number of entries that have.
  std::vector<uint32_t> ended;
};

// A rank of the plan that one of this host's devices runs.
struct PlanRank {
  PlanId id;
  std::shared_ptr<const Plan> plan;
  Device* device = nullptr;
  Member member;
  std::shared_ptr<OrderLog> order_log;  // Null: nothing is logged.

  // Whether a shard of a tensor on this host is on this device and rank.
  bool holds(const Shard& shard) const {
    return shard.device == member.device && shard.rank == member.rank;
  }
};

struct LaidOutShare : PlanRank {
  CompiledFunctions functions;  // Indexed by Plan::functions; null: not run here.
  PlanLayout layout;
  std::shared_ptr<OverlayRegion> region;  // Null: the plan is not overlaid here.
  std::vector<Entry> entries;
  std::vector<uint32_t> entries_end;  // End of each plan node's entries.
  std::vector<uint32_t> patched;      // The entries that have patches.
  uint32_t channels = 0;              // How many of its entries send or receive.
  // The entry at each position (ir/plan/positions.h): by slice, and in the order of the plan's
  // nodes; kNone, or empty: not here.
  std::vector<std::vector<uint32_t>> entry_at;
  std::vector<uint32_t> entry_in_order;
  // None on a discrete device: a launched entry is not done.
  std::vector<ReportedSlice> reported_slices;
  // Each entry's index into reported_slices; kNone: in none.
  std::vector<uint32_t> reported_slice_of;
  std::vector<DeviceOutput> outputs;
  std::vector<Box> source_parts;  // The device's part of each of Plan::sources; empty: not here.
  bool has_commit = false;        // The runs of the plan form a chain.
  // For Work::modelled_ns(), as is the next.
  int64_t modelled_ns = kNever;
  bool needs_others = true;
};

struct LinkedShare {
  std::vector<TransferChannel> channels;
  std::vector<std::shared_ptr<void>> pins;  // Pin the segments of the channels.
  std::vector<std::unique_ptr<Collective>> collectives;
  // The collectives of a call, in the order of its function's collective_needs(). Keys are nodes;
  // a call without collectives has no entry.
  std::map<uint32_t, std::vector<Collective*>> of_calls;
  Collective* gate = nullptr;
};

// The first slot of a channel with a link, in the receiver's own memory.
struct LinkedInbox {
  std::byte* first = nullptr;
  int64_t stride = 0;  // Bytes of a slot.

  std::byte* slot(uint32_t number) const { return first + stride * number; }
};

// Frees its memory with itself.
struct ShareMemory {
  ShareMemory() = default;
  ~ShareMemory();
  ShareMemory(const ShareMemory&) = delete;
  ShareMemory& operator=(const ShareMemory&) = delete;

  BufferPtr arena;  // Overlaid plan: arena of the initialisers; null once they have ended.
  std::shared_ptr<std::byte> overlaid;      // Arena of an overlaid plan, in the region; else null.
  BufferPtr slots;                          // slot_bytes for each run in flight.
  BufferPtr meeting_place;                  // Staging of collectives; null: none.
  HostMemory staging;                       // Slots in host memory; null if the slots are.
  BufferPtr inboxes;                        // Values received over links; null: none.
  std::vector<LinkedInbox> linked_inboxes;  // Indexed by channel.
  // Indexed by Plan::inputs; null for small ones.
  std::vector<std::shared_ptr<BufferPool>> input_pools;
  // Indexed by Plan::outputs; null where absent.
  std::vector<std::shared_ptr<BufferPool>> output_pools;
  std::shared_ptr<void> reserved;  // Shared memory that counts as the device's.

  std::byte* arena_data() const { return overlaid != nullptr ? overlaid.get() : arena->data(); }
};

struct DevicePlan {
  DevicePlan(const LaidOutShare& of, const LinkedShare& with) : laid(of), links(with) {}

  const LaidOutShare& laid;
  const LinkedShare& links;
  std::unique_ptr<ShareMemory> memory;     // Null: the program is suspended.
  std::vector<BufferPtr> states;           // Indexed by value.
  std::vector<const void*> shared_states;  // Addresses of `states` that are set, ascending.
  mutable RunId last_committed;            // The device's thread's.
  mutable RankStream rank_stream;
};

}  // namespace gangway
