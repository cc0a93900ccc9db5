#include "executor/host/host.h"

#include "executor/host/host_impl.h"

namespace gangway {

std::shared_ptr<OrderLog> checked_order_log() {
  return order_log_of_test != nullptr ? order_log_of_test() : nullptr;
}

Host::Impl::Impl(Reactor& r, HostOptions options, HostEvents& e)
    : reactor(r),
      devices(r, std::move(options)),
      events(e),
      compiler(devices.options.name + "/compiler", r),
      host_budget(devices.options.suspended_bytes),
      texts(r, devices.options.name + "/texts", host_budget),
      arrays(r, devices, states, e),
      feeder(std::make_unique<SourceFeeder>(devices.options.name + "/data", r.simulated())) {}

Host::Impl::~Impl() {
  *alive = false;
  arrays.close();
  for (const auto& [id, plan] : plans) {
    if (plan->stage == PlanStage::kCompiling) drop_install(*plan);
    if (plan->initialising > 0) plan->committed.fail(install_dropped(*plan));
  }
  devices.leave();
  compiler.stop();
  texts.stop();
  feeder.reset();
  for (const auto& [id, made] : plans) sound_alarm(*made);
  for (const auto& made : closing) sound_alarm(*made);
  devices.stop();  // Before the plans are destroyed, whose work the threads run.
}

Host::Host(Reactor& reactor, HostOptions options, HostEvents& events)
    : impl_(std::make_unique<Impl>(reactor, std::move(options), events)) {}
Host::~Host() = default;

const HostOptions& Host::options() const { return impl_->devices.options; }

std::string Host::describe_devices() const { return impl_->devices.describe(); }

Future<Installed> Host::install(PlanId id, std::shared_ptr<const Plan> plan, uint32_t self,
                                StateScope scope, const PlanOwner& owner,
                                const std::vector<SourceText>& texts) {
  return impl_->install(id, std::move(plan), self, scope, owner, texts);
}
void Host::link(PlanId id, const std::vector<LinkOffer>& offers) { impl_->link(id, offers); }
Future<void> Host::commit_install(PlanId id) { return impl_->commit_install(id); }
void Host::uninstall(PlanId id, bool refused) { impl_->uninstall(id, refused); }
Future<int64_t> Host::move_states(const MoveRequest& request) {
  return request.to_host ? impl_->move_to_host(request) : impl_->move_to_devices(request);
}
void Host::prepare(const PrepareFrame& frame) { impl_->prepare(frame); }
void Host::grant(const GrantFrame& frame) { impl_->grant(frame); }
size_t Host::calls_to_prepare(const PrepareFrame& frame) const {
  return impl_->calls_to_prepare(frame);
}
size_t Host::calls_to_prepare(const GrantFrame& frame) const {
  return impl_->calls_to_prepare(frame);
}
void Host::cancel(RunId run, ErrorKind kind, const std::string& why) {
  impl_->cancel(run, kind, why);
}
void Host::put(uint64_t request, ArrayId array, PlanId like, uint32_t input,
               const ClientBytes& from) {
  impl_->arrays.put(request, array, impl_->plan(like), input, from);
}
void Host::get(uint64_t request, ArrayId array, const ClientBytes& to) {
  impl_->arrays.get(request, array, to);
}
void Host::free(std::span<const ArrayId> arrays) { impl_->arrays.free(arrays); }
void Host::take_ticket(Ticket ticket) { impl_->take_ticket(ticket, "a copy of a state"); }
void Host::get_state(uint64_t request, StateScope scope, const std::string& name,
                     const ClientBytes& to, Ticket ticket, const Box& part) {
  impl_->arrays.get_state(request, scope, name, to, ticket, part);
}
void Host::put_state(uint64_t request, StateScope scope, const std::string& name,
                     const ClientBytes& from, Ticket ticket, const Box& part) {
  impl_->arrays.put_state(request, scope, name, from, ticket, part);
}
void Host::free_scope(StateScope scope) { impl_->states.drop(scope); }
std::vector<const HostPlan*> Host::Impl::all_plans() const {
  std::vector<const HostPlan*> all;
  for (const auto& [id, made] : plans) all.push_back(made.get());
  for (const auto& made : closing) all.push_back(made.get());
  return all;
}
bool Host::look_for_stuck() {
  return impl_->stuck.look(impl_->all_plans(), impl_->reactor.clock().now_ns());
}
const std::vector<StuckDevice>& Host::stuck() const { return impl_->stuck.stuck(); }
std::string Host::describe_work() const { return impl_->stuck.describe(impl_->all_plans()); }
int64_t Host::bytes_in_use(uint32_t device) const {
  return impl_->devices.all.at(device)->memory().in_use();
}
int64_t Host::bytes_peak(uint32_t device) const {
  return impl_->devices.all.at(device)->memory().peak();
}
int64_t Host::host_bytes() const { return impl_->host_budget.in_use(); }
std::map<std::string, size_t> Host::census() const {
  const std::vector<const HostPlan*> all = impl_->all_plans();
  size_t links = 0, in_flight = 0;
  for (const HostPlan* plan : all) {
    links += static_cast<size_t>(plan->memory != nullptr) + plan->links.size();
    for (const auto& peer : plan->peers) links += static_cast<size_t>(peer != nullptr);
    in_flight += plan->active;
  }
  return {{"plans", all.size()},
          {"runs in flight", in_flight},
          {"names of runs", impl_->runs.size()},
          {"places for runs", impl_->run_of.size()},
          {"arrays", impl_->arrays.size()},
          {"states", impl_->states.size()},
          {"texts", impl_->texts.size()},
          {"links", links},
          {"overlaid regions", impl_->regions.size()},
          {"bytes of host memory", static_cast<size_t>(impl_->host_budget.in_use())},
          {"stuck devices", impl_->stuck.stuck().size()},
          {"plans that are watched", impl_->stuck.size()}};
}
LinkBytes Host::moved_bytes() const {
  LinkBytes sum{};
  for (const auto& device : impl_->devices.all) {
    for (const LinkClass link : kLinkClasses)
      sum[static_cast<size_t>(link)] += device->moved.read(link);
  }
  return sum;
}

}  // namespace gangway
