// Placement of a plan's values in the memory of one device, or of one of its ranks.
//
//   state      a buffer of the state store; one for all runs
//   arena      packed by liveness, together with the arenas of the calls; one for all runs, since
//              the stream is in order
//   slot       written by a source's worker, or small inputs: one place for each run in flight
//   inbox      written by the sender of a transfer: a slot for each run in flight, of a shared
//              segment, or of the device's own memory where another device of the host writes there
//   bound      inputs and outputs: buffers that change with each run
//
// A discrete device can't read what the host wrote: its slots have copies in host memory, and
// values received from another host are copied to the arena. A value that is sent to a device of
// the same host is copied while later steps run, so it keeps its range of the arena to the end of
// the run.
//
// The arena of a call with a commit part stays its own until the commit has run: what the compute
// part staged there must survive other calls.
// Threads: pure.
// Cost: O(nodes * live values), once.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/devices/compiled_function.h"
#include "ir/plan/plan.h"
#include "ir/plan/plan_members.h"

namespace gangway {

struct ValuePlace {
  enum class Kind : uint8_t { kAbsent, kState, kArena, kSlot, kInbox, kBound } kind = Kind::kAbsent;
  int64_t offset = 0;  // kArena, kSlot, kInbox.
};

struct PlanLayout {
  std::vector<ValuePlace> values;   // Indexed by value.
  std::vector<int64_t> call_arena;  // Indexed by node: offset of a call's arena, or -1.
  int64_t arena_bytes = 0;
  int64_t slot_bytes = 0;   // For one run in flight.
  int64_t inbox_bytes = 0;  // For one run in flight; on a discrete device: in its own memory.
  int64_t bound_bytes = 0;  // For one run in flight: inputs above kSmallBytesMax, and outputs.
};

// Index of `member` in the mesh of a slice; kNone if it is not in it.
uint32_t mesh_device_of(const PlanSlice& slice, const Member& member);
// The member that mesh device `device` sends to, or receives from, in a send or a receive.
Member peer_of(const Plan& plan, const PlanNode& node, uint32_t device);
bool takes_part(const Plan& plan, const PlanNode& node, const Member& member);

using CompiledFunctions = std::vector<std::shared_ptr<const CompiledFunction>>;
PlanLayout lay_out(const Plan& plan, const Member& member, const CompiledFunctions& functions,
                   int64_t arena_bytes_min, bool discrete = false);

}  // namespace gangway
