// InstalledPlan: a plan that has its memory on the devices, with a record for each run in flight,
// and with the states that it uses. While its program is suspended it has none of these.
//
// Threads: reactor thread; devices read what their runs need.
// Ownership: it owns its memory; states are shared with the state store. DeviceRuns and tasks point
// to it, so it stays where it is until its last run has left the devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "executor/host/linked_plan.h"
#include "executor/replay/device_plan.h"
#include "executor/replay/device_run.h"
#include "executor/store/state_store.h"
#include "protocol/messages.h"

namespace gangway {

// A run in flight: its part on each rank of this host.
struct RunSlot {
  std::vector<std::unique_ptr<DeviceRun>> devices;  // Indexed by rank.
  RunId run;
  size_t running = 0;  // Devices that have not finished.
  // Positions that have tickets: by slice, and for a run that is granted in all slices at once.
  std::vector<uint32_t> granted;
  uint32_t granted_in_order = 0;
  // Last report of each slice to the controller; busy_ns sums up.
  std::vector<SectionTime> reported;
  std::vector<uint64_t> source_positions;    // Sequential dispatch: for sources granted later.
  bool refused = false;                      // It does not fit its plan.
  std::deque<std::vector<std::byte>> parts;  // Inline arguments, by device.
};

// The memory of a plan, indexed by rank.
using PlanMemory = std::vector<std::unique_ptr<ShareMemory>>;

struct InstalledPlan : LinkedPlan {
  InstalledPlan(LinkedPlan&& given, PlanMemory&& on_devices);

  std::vector<std::unique_ptr<DevicePlan>> devices;  // Indexed by rank.
  // One for each run in flight; none while the program is suspended.
  std::vector<std::unique_ptr<RunSlot>> runs;
  std::vector<std::shared_ptr<State>> added;  // States that it created and no other plan shares.
  uint64_t prepared = 0;
  size_t active = 0;

  bool is_suspended() const { return runs.empty(); }
  // Suspension, and its end. The memory is freed, and the states are not used any more.
  void leave_devices();
  void return_to_devices(PlanMemory&& on_devices);
};

// The initialisers of an overlaid plan compute in an arena of its own, which its runs do not need.
enum class WithInitialisers : bool { kNo, kYes };

// Throws kOverloaded if there is no room; then nothing is allocated.
PlanMemory allocate_memory(const LinkedPlan& plan, WithInitialisers initialisers);
// Allocates the plan's memory and takes the plan over; if this throws, the plan is as before. Its
// states and runs are still to be added.
std::unique_ptr<InstalledPlan> ready(LinkedPlan& plan);
// Shards with new buffers, placed like an input of the plan. Throws kInvalid if there is no such
// input.
TensorShards new_input(const InstalledPlan& plan, uint32_t input);
// Makes a state the one that the plan uses for this value, on all its devices here.
void use_state(InstalledPlan& plan, uint32_t value, const State& state);

}  // namespace gangway
