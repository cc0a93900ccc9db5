// HostRuns: the runs of a host's plans, from when they are prepared to their ends.
//
// A run is prepared once, gets its tickets in one or more grants, and ends on each device. Nodes
// of a plan that is dispatched sequentially are prepared with their grant (host_dispatch.cc).
//
// Threads: reactor thread.
// Ownership: plans own their records of runs; a plan is dropped here before it is destroyed.
// Errors: calls throw kInvalid for frames that break the order; a run's failure is an event.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/devices/compiler.h"
#include "executor/host/host_arrays.h"
#include "executor/host/host_devices.h"
#include "executor/host/host_events.h"
#include "executor/host/installed_plan.h"
#include "executor/replay/device_run.h"
#include "executor/sources/source_feeder.h"
#include "executor/work/event.h"
#include "protocol/messages.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

class HostRuns final : public DeviceRun::Listener {
 public:
  HostRuns(Reactor& reactor, HostDevices& devices, HostArrays& arrays, Compiler& compiler,
           HostEvents& events);
  // Nothing that devices report from now on is delivered.
  void close() { *alive = false; }
  void stop_feeding() { feeder_.reset(); }

  // Gives a plan its records of runs; the plan has its memory and its states. drop() takes them
  // away again; none of them is in flight.
  void add(InstalledPlan& plan);
  void drop(InstalledPlan& plan);

  // See Host.
  void prepare(InstalledPlan& plan, const PrepareFrame& frame);
  void grant(const GrantFrame& frame);
  void take_ticket(Ticket ticket, const char* what, bool same = false);
  void cancel(RunId run, ErrorKind kind, const std::string& why);
  static size_t calls_to_prepare(const InstalledPlan& plan);
  size_t calls_to_prepare(const GrantFrame& frame) const;

  // Ends all runs of the plan where they are; later ones end at once too. `error`: null: none of
  // its runs has to report one.
  void give_up(InstalledPlan& plan, const std::shared_ptr<const Error>& error);
  static void raise_aborts(const InstalledPlan& plan);

  // Called after a run has ended; its plan may be destroyed then.
  std::function<void()> run_ended;

  size_t in_flight() const { return runs_.size(); }
  size_t places() const { return run_of_.size(); }

  void device_done(DeviceRun& run) override;
  void sections_ended(DeviceRun& run) override;
  void compile_unfused(const LaidOutShare& share, const std::shared_ptr<CompileJob>& job) override;

 private:
  struct Place {
    InstalledPlan* plan = nullptr;
    RunSlot* run = nullptr;
  };

  void ring_soon(DeviceStream& stream);
  void ring_now();
  void serve_or_ring_now();
  void bind(InstalledPlan& plan, const RunFrame& request, size_t rank, RunSlot& run,
            const std::shared_ptr<const Error>& error);
  void bind_arguments(const InstalledPlan& plan, const RunFrame& request, const Member& member,
                      RunSlot& run, DeviceRun::Inputs& inputs) const;
  EventPtr fill_source(InstalledPlan& plan, size_t rank, DeviceRun& run, uint32_t source,
                       uint64_t position);
  void prepare_nodes(InstalledPlan& plan, RunSlot& run);
  static void fill_frames(const InstalledPlan& plan, RunSlot& run, uint32_t node);
  void prepare_node(InstalledPlan& plan, RunSlot& run, uint32_t node);
  void prepare_granted(InstalledPlan& plan, RunSlot& run, const GrantRange& range);
  void make_outputs(InstalledPlan& plan, const RunFrame& request);
  void refuse_suspended(InstalledPlan& plan, const RunFrame& request);
  std::shared_ptr<const Error> check_arguments(const InstalledPlan& plan,
                                               const RunFrame& request) const;
  // Section ends that the controller has not been sent yet.
  static std::vector<SectionTime> news_of(RunSlot& run);
  void run_done(InstalledPlan& plan, RunSlot& run);

  Reactor& reactor_;
  HostDevices& devices_;
  HostArrays& arrays_;
  Compiler& compiler_;
  HostEvents& events_;
  std::unique_ptr<SourceFeeder> feeder_;
  std::unordered_map<RunId, Place> runs_;
  std::unordered_map<const DeviceRun*, Place> run_of_;
  std::vector<DeviceStream*> to_ring_;  // Something new was prepared or granted for these.
  size_t grants_unrung_ = 0;
  uint64_t last_ticket_ = 0;  // The highest ticket that was granted.
  // The run whose gate took the last ticket in this slice; 0: the last ticket was not a gate's.
  struct LastGate {
    RunId run;
    uint32_t slice = 0;
  };
  LastGate last_gate_;
};

}  // namespace gangway
