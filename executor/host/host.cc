#include "executor/host/host.h"

#include "executor/devices/compiler.h"
#include "executor/host/host_arrays.h"
#include "executor/host/host_devices.h"
#include "executor/host/host_plans.h"
#include "executor/host/host_runs.h"
#include "executor/host/host_suspend.h"
#include "executor/host/stuck_watch.h"
#include "executor/replay/order_log.h"
#include "executor/sources/text_store.h"
#include "executor/store/host_budget.h"
#include "executor/store/state_store.h"
#include "runtime/fibers/reactor.h"
#include "runtime/observe/trace.h"

namespace gangway {

std::shared_ptr<OrderLog> checked_order_log() {
  return order_log_of_test != nullptr ? order_log_of_test() : nullptr;
}

Host::Host(Reactor& reactor, HostOptions options, HostEvents& events)
    : reactor_(reactor),
      devices_(std::make_unique<HostDevices>(reactor, std::move(options))),
      compiler_(std::make_unique<Compiler>(devices_->options.name + "/compiler", reactor)),
      states_(std::make_unique<StateStore>()),
      host_budget_(std::make_unique<HostBudget>(devices_->options.suspended_bytes)),
      texts_(
          std::make_unique<TextStore>(reactor, devices_->options.name + "/texts", *host_budget_)),
      arrays_(std::make_unique<HostArrays>(reactor, *devices_, *states_, events)),
      runs_(std::make_unique<HostRuns>(reactor, *devices_, *arrays_, *compiler_, events)),
      plans_(
          std::make_unique<HostPlans>(reactor, *devices_, *states_, *texts_, *compiler_, *runs_)),
      moves_(std::make_unique<StateMoves>(reactor, *devices_, *states_, *host_budget_, *plans_,
                                          *runs_)),
      stuck_(std::make_unique<StuckWatch>()) {
  runs_->run_ended = [this] { plans_->erase_closed(); };
  devices_->on_link_broken = [&events](LinkBrokenFrame broken) {
    events.link_broken(std::move(broken));
  };
}

Host::~Host() {
  runs_->close();
  arrays_->close();
  plans_->close();
  devices_->leave();
  compiler_->stop();
  texts_->stop();
  runs_->stop_feeding();
  plans_->raise_all_aborts();
  devices_->stop();  // Before the plans are destroyed, whose work the threads run.
}

const HostOptions& Host::options() const { return devices_->options; }

std::string Host::describe_devices() const { return devices_->describe(); }

Future<Installed> Host::install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                                StateScope scope, const PlanOwner& owner,
                                const std::vector<SourceText>& texts) {
  return plans_->install({id, std::move(plan), self, scope, owner}, texts);
}
void Host::link(PlanId id, const std::vector<LinkOffer>& offers) { plans_->link(id, offers); }
Future<void> Host::commit_install(PlanId id) { return plans_->commit_install(id); }
void Host::uninstall(PlanId id, bool refused) { plans_->uninstall(id, refused); }
Future<int64_t> Host::move_states(const MoveRequest& request) {
  return moves_->move_states(request);
}

void Host::prepare(const PrepareFrame& frame) {
  TraceSpan span("take run", frame.run.run.value, 0, TraceMark::kRunArrives);
  runs_->prepare(plans_->installed_plan(frame.run.plan), frame);
}
void Host::grant(const GrantFrame& frame) { runs_->grant(frame); }
size_t Host::calls_to_prepare(const PrepareFrame& frame) const {
  const InstalledPlan* const plan = plans_->find_installed(frame.run.plan);
  return plan == nullptr ? 0 : HostRuns::calls_to_prepare(*plan);
}
size_t Host::calls_to_prepare(const GrantFrame& frame) const {
  return runs_->calls_to_prepare(frame);
}
void Host::cancel(RunId run, ErrorKind kind, const std::string& why) {
  runs_->cancel(run, kind, why);
}

void Host::put(uint64_t request, ArrayId array, PlanId like, uint32_t input,
               const ClientBytes& from) {
  arrays_->put(request, array, new_input(plans_->installed_plan(like), input), from);
}
void Host::get(uint64_t request, ArrayId array, const ClientBytes& to) {
  arrays_->get(request, array, to);
}
void Host::free(std::span<const ArrayId> arrays) { arrays_->free(arrays); }
void Host::take_ticket(Ticket ticket) { runs_->take_ticket(ticket, "a copy of a state"); }
void Host::read_state(uint64_t request, StateScope scope, const std::string& name,
                      const ClientBytes& to, Ticket ticket, const Box& part) {
  arrays_->read_state(request, scope, name, to, ticket, part);
}
void Host::write_state(uint64_t request, StateScope scope, const std::string& name,
                       const ClientBytes& from, Ticket ticket, const Box& part) {
  arrays_->write_state(request, scope, name, from, ticket, part);
}
void Host::free_scope(StateScope scope) { states_->drop(scope); }

bool Host::look_for_stuck() {
  return stuck_->look(plans_->with_memory(), reactor_.clock().now_ns());
}
const std::vector<StuckDevice>& Host::stuck() const { return stuck_->stuck(); }
std::string Host::describe_work() const { return stuck_->describe(plans_->with_memory()); }

int64_t Host::bytes_in_use(uint32_t device) const {
  return devices_->all.at(device)->memory().in_use();
}
int64_t Host::bytes_peak(uint32_t device) const {
  return devices_->all.at(device)->memory().peak();
}
int64_t Host::host_bytes() const { return host_budget_->in_use(); }

std::map<std::string, size_t> Host::census() const {
  size_t in_flight = 0;
  for (const InstalledPlan* plan : plans_->with_memory()) in_flight += plan->active;
  return {{"plans", plans_->size()},
          {"runs in flight", in_flight},
          {"names of runs", runs_->in_flight()},
          {"places for runs", runs_->places()},
          {"arrays", arrays_->size()},
          {"states", states_->size()},
          {"texts", texts_->size()},
          {"links", plans_->links()},
          {"overlaid regions", plans_->regions()},
          {"bytes of host memory", static_cast<size_t>(host_budget_->in_use())},
          {"stuck devices", stuck_->stuck().size()},
          {"plans that are watched", stuck_->size()}};
}

LinkBytes Host::moved_bytes() const {
  LinkBytes sum{};
  for (const auto& device : devices_->all) {
    for (const LinkClass link : kLinkClasses)
      sum[static_cast<size_t>(link)] += device->stream().moved.read(link);
  }
  return sum;
}

}  // namespace gangway
