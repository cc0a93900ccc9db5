// What is behind Host: devices, plans, runs, arrays and states of one executor.
//
// Split by story: host.cc (devices), host_plans.cc (install to uninstall), host_runs.cc (start to
// done), host_arrays.cc (put, get, states).
// Threads: reactor thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "executor/devices/cuda/driver/gpu.h"
#include "executor/host/host.h"
#include "executor/host/host_plan.h"
#include "executor/sources/source_feeder.h"
#include "executor/store/state_store.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct Host::Impl final : DeviceRun::Listener {
  Impl(Reactor& reactor, HostOptions options, HostEvents& events);
  ~Impl() override;

  // host_plans.cc
  Future<Installed> install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                            StateScope scope);
  static uint32_t initialiser_number(const HostPlan& made, size_t state);
  void add_initialisers(const HostPlan& made, CompileJob& job);
  void finish_install(PlanId id, const CompileJob& job);
  Installed offer(HostPlan& made, const CompileJob& job);
  void drop_install(HostPlan& made);
  void link(PlanId id, const std::vector<SegmentOffer>& offers);
  void commit_install(PlanId id);
  void uninstall(PlanId id);
  HostPlan& plan(PlanId id);
  DeviceNeed need_of(HostPlan& plan, DevicePlan& device);
  void allocate(HostPlan& plan, DevicePlan& device);
  void add_states(HostPlan& plan);
  void initialise(HostPlan& plan, uint32_t state, State& made);
  void erase_closed();

  // host_runs.cc
  void start(const RunFrame& request);
  bool try_start(const RunFrame& request);
  void bind(HostPlan& plan, const RunFrame& request, size_t device, DeviceRun& run,
            const std::shared_ptr<const Error>& error);
  EventPtr fill_source(HostPlan& plan, size_t device, DeviceRun& run, uint32_t source,
                       uint64_t position);
  void prepare(HostPlan& plan, PlanRun& run);
  void make_outputs(HostPlan& plan, const RunFrame& request);
  std::shared_ptr<const Error> check_shape(HostPlan& plan, const RunFrame& request);
  std::shared_ptr<const Error> check_arguments(HostPlan& plan, const RunFrame& request);
  void cancel(RunId run, ErrorKind kind, const std::string& why);
  void device_done(DeviceRun& run) override;
  void stop(HostPlan& plan, PlanRun& run, const std::shared_ptr<const Error>& error);
  void give_up(HostPlan& plan, const std::shared_ptr<const Error>& error);
  void sound_alarm(HostPlan& plan);
  void run_done(HostPlan& plan, PlanRun& run);
  void start_waiting();

  // host_arrays.cc
  void put(uint64_t request, ArrayId array, PlanId like, uint32_t input, const ClientBytes& from);
  void get(uint64_t request, ArrayId array, const ClientBytes& to);
  void free(std::span<const ArrayId> arrays);
  void get_state(uint64_t request, StateScope scope, const std::string& name,
                 const ClientBytes& to);
  void put_state(uint64_t request, StateScope scope, const std::string& name,
                 const ClientBytes& from);
  void free_scope(StateScope scope);
  enum class Direction : uint8_t { kIn, kOut };
  void copy_shards(uint64_t request, const TensorShards& tensor, const ClientBytes& client,
                   Direction direction);

  Reactor& reactor;
  const HostOptions options;
  HostEvents& events;
  SharedSegment bells;  // One doorbell for each device, for peers to ring.
  std::vector<std::shared_ptr<cuda::Gpu>> cards;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Bell> device_bells;
  std::unique_ptr<SourceFeeder> feeder;
  Compiler compiler;
  StateStore states;
  std::map<ArrayId, TensorShards> arrays;
  std::map<PlanId, std::unique_ptr<HostPlan>> plans;
  std::vector<std::unique_ptr<HostPlan>> closing;
  std::unordered_map<RunId, std::pair<HostPlan*, PlanRun*>> runs;
  std::unordered_map<const DeviceRun*, std::pair<HostPlan*, PlanRun*>> run_of;
  std::deque<RunFrame> waiting;  // In ticket order, until a run in flight ends.
  std::unordered_map<RunId, std::shared_ptr<const Error>> cancelled_waiting;
};

}  // namespace gangway
