// DevicePlan: an installed plan as one device replays it: its entries in ticket order, and a record
// for each run in flight in which everything that does not change from run to run is already filled
// in. A device that runs several ranks of the plan has one for each.
//
//   install: plan -> entries, places, frames      once
//   start:   bind arguments and outputs           host side, every node at once
//   advance: walk the entries                     device thread
//
// Threads: built on the reactor thread; read-only while runs are in flight.
// Ownership: it owns its arena, slots and collectives; states are shared with the state store.
#pragma once

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
  std::vector<uint32_t> arguments;       // Indices into Plan::inputs that it reads.
  std::vector<Collective*> collectives;  // In the order of the function's collective_needs().
};

struct DeviceOutput {
  uint32_t output = 0;  // Index into Plan::outputs.
  uint32_t value = 0;
  bool bound = false;  // The value is computed in place; else it is copied when the run ends.
  bool small = false;  // Replicated, small, and this is the lowest device that has it.
};

// A slice for which this host reports to the controller how far its devices are and how long they
// were busy: the first device of the slice is one of its own.
struct ToldSlice {
  uint32_t slice = 0;
  // Number of positions that have ended; the index is the number of entries that have.
  std::vector<uint32_t> ended;
};

struct DevicePlan {
  std::shared_ptr<const Plan> plan;
  Device* device = nullptr;
  Member member;
  CompiledFunctions functions;  // Indexed by Plan::functions; null: not run here.
  PlanLayout layout;
  std::vector<Entry> entries;
  std::vector<uint32_t> entries_end;  // End of each plan node's entries.
  std::vector<uint32_t> patched;      // The entries that have patches.
  // The entry at each position (ir/plan/positions.h): by slice, and in the order of the plan's
  // nodes; kNone, or empty: not here.
  std::vector<std::vector<uint32_t>> entry_at;
  std::vector<uint32_t> entry_in_order;
  std::vector<ToldSlice> told_slices;   // None on a discrete device: a launched entry is not done.
  std::vector<uint32_t> told_slice_of;  // Each entry's index into told_slices; kNone: in none.
  mutable RunId last_committed;         // The device's thread's.
  mutable Lane lane;
  std::vector<const void*> shared_states;  // Addresses of `states` that are set, ascending.
  PlanId id;
  std::shared_ptr<OrderLog> order_log;  // Null: nothing is logged.
  std::vector<DeviceOutput> outputs;
  std::vector<Box> source_parts;  // The device's part of each of Plan::sources; empty: not here.
  std::vector<TransferChannel> channels;
  std::vector<std::shared_ptr<void>> pins;  // Pin the segments of the channels.
  std::vector<std::unique_ptr<Collective>> collectives;
  Collective* gate = nullptr;
  bool has_commit = false;  // The runs of the plan form a chain.

  BufferPtr arena;  // Overlaid plan: arena of the initialisers; null once they have ended.
  std::shared_ptr<OverlayRegion> region;  // Null: the plan is not overlaid here.
  std::shared_ptr<std::byte> overlaid;    // Its arena, in the region.
  BufferPtr slots;                        // slot_bytes for each run in flight.
  BufferPtr meeting_place;                // Staging of collectives; null: none.
  HostMemory staging;                     // Slots in host memory; null if the slots are.
  BufferPtr inboxes;                      // Values received over links; null: none.
  std::vector<BufferPtr> states;          // Indexed by value.
  // Indexed by Plan::inputs; null for small ones.
  std::vector<std::shared_ptr<BufferPool>> input_pools;
  // Indexed by Plan::outputs; null where absent.
  std::vector<std::shared_ptr<BufferPool>> output_pools;
  // For Work::modelled_ns(), as is the next.
  int64_t modelled_ns = kNever;
  bool needs_others = true;
  int64_t reserved_bytes = 0;  // Shared memory that counts as the device's.

  std::byte* arena_data() const { return region != nullptr ? overlaid.get() : arena->data(); }
  // Whether a shard of a tensor on this host is on this device and rank.
  bool holds(const Shard& shard) const {
    return shard.device == member.device && shard.rank == member.rank;
  }
};

}  // namespace gangway
