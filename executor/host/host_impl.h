// Implementation of Host: devices, plans, runs, arrays and states of one executor.
//
// host_plans.cc has the steps from install to uninstall, host_runs.cc those of a run from start to
// done, host_dispatch.cc the additions of sequential dispatch, and host_suspend.cc the moves of
// programs off their devices and back. Devices and arrays are classes of their own.
// Threads: reactor thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "executor/host/host.h"
#include "executor/host/host_arrays.h"
#include "executor/host/host_devices.h"
#include "executor/host/host_plan.h"
#include "executor/host/stuck_watch.h"
#include "executor/sources/source_feeder.h"
#include "executor/sources/text_store.h"
#include "executor/store/host_budget.h"
#include "executor/store/state_store.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct Host::Impl final : DeviceRun::Listener {
  Impl(Reactor& reactor, HostOptions options, HostEvents& events);
  ~Impl() override;

  // host_plans.cc
  Future<Installed> install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                            StateScope scope, const PlanOwner& owner,
                            const std::vector<SourceText>& fixed);
  static uint32_t initialiser_number(const HostPlan& made, size_t state);
  void add_initialisers(const HostPlan& made, CompileJob& job);
  static void add_sources(HostPlan& made);
  std::vector<TextRequest> texts_wanted(const HostPlan& made,
                                        const std::vector<SourceText>& fixed) const;
  void load_text(PlanId id, TextRequest request);
  void text_came(PlanId id, const std::string& path, const Result<TextPtr>& text);
  void part_came(PlanId id, bool has_failed);
  void drop_texts(HostPlan& made);
  void finish_install(PlanId id);
  Installed offer(HostPlan& made, const CompileJob& job);
  void drop_install(HostPlan& made);
  Error install_dropped(const HostPlan& made) const;
  void link(PlanId id, const std::vector<LinkOffer>& offers);
  Future<void> commit_install(PlanId id);
  void uninstall(PlanId id, bool refused);
  HostPlan& plan(PlanId id);
  DeviceNeed need_of(HostPlan& plan, DevicePlan& device);
  std::shared_ptr<OverlayRegion> region_of(const HostPlan& plan, const DevicePlan& device);
  static void place_arenas(HostPlan& plan);
  void allocate(HostPlan& plan, DevicePlan& device);
  void add_states(HostPlan& plan);
  static void use_state(HostPlan& plan, uint32_t value, const State& state);
  static void sort_states(HostPlan& plan);
  void add_runs(HostPlan& plan);
  void drop_runs(HostPlan& plan);
  static void free_memory(HostPlan& plan);
  void share_state(const std::shared_ptr<State>& state);
  void drop_states(HostPlan& plan);
  void end_commit(HostPlan& plan);
  void initialise(HostPlan& plan, uint32_t number, const std::shared_ptr<State>& state);
  void initialised(HostPlan& plan, const State& state, const Error* error);
  void erase_closed();

  // host_suspend.cc
  struct StateMove;
  Future<int64_t> move_to_host(const MoveRequest& request);
  Future<int64_t> move_to_devices(const MoveRequest& request);
  std::shared_ptr<StateMove> begin_move(const MoveRequest& request);
  void require_idle(const MoveRequest& request) const;
  void copy_shards(const std::shared_ptr<StateMove>& move);
  void shard_copied(const std::shared_ptr<StateMove>& move, const Error* error);
  void end_move(StateMove& move);
  void left_devices(StateMove& move);
  void take_memory(StateMove& move);
  void back_on_devices(StateMove& move);
  void leave_again(StateMove& move);

  // host_runs.cc
  void prepare(const PrepareFrame& frame);
  void grant(const GrantFrame& frame);
  void ring_soon(Device& device);
  void ring_now();
  void serve_or_ring_now();
  void take_ticket(Ticket ticket, const char* what, bool same = false);
  static void require_in_order(const HostPlan& plan, const PlanRun& run, const GrantRange& range);
  void bind(HostPlan& plan, const RunFrame& request, size_t device, PlanRun& run,
            const std::shared_ptr<const Error>& error);
  EventPtr fill_source(HostPlan& plan, size_t device, DeviceRun& run, uint32_t source,
                       uint64_t position);
  void prepare_nodes(HostPlan& plan, PlanRun& run);
  static void fill_frames(HostPlan& plan, PlanRun& run, uint32_t node);
  void make_outputs(HostPlan& plan, const RunFrame& request);
  void refuse_suspended(HostPlan& made, const RunFrame& request);
  std::shared_ptr<const Error> check_shape(HostPlan& plan, const RunFrame& request);
  std::shared_ptr<const Error> check_arguments(HostPlan& plan, const RunFrame& request);
  void cancel(RunId run, ErrorKind kind, const std::string& why);
  void device_done(DeviceRun& run) override;
  void sections_ended(DeviceRun& run) override;
  // Section ends that the controller has not been sent yet.
  std::vector<SectionTime> news_of(PlanRun& run);
  void compile_unfused(const DevicePlan& plan, const std::shared_ptr<CompileJob>& job) override;
  void stop(HostPlan& plan, PlanRun& run, const std::shared_ptr<const Error>& error);
  void give_up(HostPlan& plan, const std::shared_ptr<const Error>& error);
  void sound_alarm(HostPlan& plan);
  void run_done(HostPlan& plan, PlanRun& run);

  // host_dispatch.cc
  void prepare_granted(HostPlan& plan, PlanRun& run, const GrantRange& range);
  void prepare_node(HostPlan& plan, PlanRun& run, uint32_t node);
  // The nodes in the range that are dispatched sequentially.
  static std::vector<uint32_t> nodes_that_begin(const HostPlan& plan, const GrantRange& range);
  static size_t calls_here(const HostPlan& plan, const std::vector<uint32_t>& nodes);
  size_t calls_to_prepare(const PrepareFrame& frame) const;
  size_t calls_to_prepare(const GrantFrame& frame) const;

  std::vector<const HostPlan*> all_plans() const;

  Reactor& reactor;
  HostDevices devices;
  HostEvents& events;
  Compiler compiler;
  StateStore states;
  HostBudget host_budget;
  TextStore texts;
  HostArrays arrays;
  std::unique_ptr<SourceFeeder> feeder;
  StuckWatch stuck;
  std::map<uint32_t, std::shared_ptr<OverlayRegion>> regions;  // Keys are devices.
  std::map<PlanId, std::unique_ptr<HostPlan>> plans;
  std::vector<std::unique_ptr<HostPlan>> closing;
  std::unordered_map<RunId, std::pair<HostPlan*, PlanRun*>> runs;
  std::unordered_map<const DeviceRun*, std::pair<HostPlan*, PlanRun*>> run_of;
  std::vector<Device*> to_ring;  // Devices for which something new was prepared or granted.
  size_t grants_unrung = 0;
  uint64_t last_ticket = 0;  // The highest ticket that was granted.
  // The run whose gate took the last ticket in this slice; 0: the last ticket was not a gate's.
  struct LastGate {
    RunId run;
    uint32_t slice = 0;
  };
  LastGate last_gate;
};

}  // namespace gangway
