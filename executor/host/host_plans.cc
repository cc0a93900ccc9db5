#include "executor/host/host_plans.h"

#include <algorithm>
#include <utility>

#include "runtime/fibers/kj_error.h"
#include "runtime/os/landing_log.h"

namespace gangway {

HostPlans::HostPlans(Reactor& reactor, HostDevices& devices, StateStore& states, TextStore& texts,
                     Compiler& compiler, HostRuns& runs)
    : reactor_(reactor),
      devices_(devices),
      states_(states),
      texts_(texts),
      compiler_(compiler),
      runs_(runs) {}

void HostPlans::close() {
  for (auto& [id, stage] : plans_) {
    if (auto* const compiling = std::get_if<CompilingPlan>(&stage)) drop_install(*compiling);
    if (auto* const installing = std::get_if<std::unique_ptr<InitialisingPlan>>(&stage);
        installing != nullptr && (*installing)->running > 0)
      (*installing)->committed.fail(install_dropped(*(*installing)->plan));
  }
}

void HostPlans::raise_all_aborts() const {
  for (const InstalledPlan* plan : with_memory()) HostRuns::raise_aborts(*plan);
}

HostPlans::Stage& HostPlans::at(PlanId id) {
  const auto found = plans_.find(id);
  GW_REQUIRE(found != plans_.end(), "plan ", id, ": is not installed on host \"",
             devices_.options.name, "\"");
  return found->second;
}

InstalledPlan& HostPlans::installed_plan(PlanId id) {
  const auto* const plan = std::get_if<std::unique_ptr<InstalledPlan>>(&at(id));
  GW_REQUIRE(plan != nullptr, "plan ", id, ": is not ready to run");
  return **plan;
}

InstalledPlan* HostPlans::find_installed(PlanId id) const {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return nullptr;
  const auto* const plan = std::get_if<std::unique_ptr<InstalledPlan>>(&found->second);
  return plan == nullptr ? nullptr : plan->get();
}

template <class Body>
void HostPlans::for_each_stage(Body body) const {
  for (const auto& [id, stage] : plans_) body(stage);
  for (const Stage& stage : closing_) body(stage);
}

InstalledPlan* HostPlans::plan_with_memory(const Stage& stage) {
  if (const auto* const plan = std::get_if<std::unique_ptr<InstalledPlan>>(&stage))
    return plan->get();
  const auto* const installing = std::get_if<std::unique_ptr<InitialisingPlan>>(&stage);
  return installing == nullptr ? nullptr : (*installing)->plan.get();
}

std::vector<const InstalledPlan*> HostPlans::with_memory() const {
  std::vector<const InstalledPlan*> all;
  for_each_stage([&](const Stage& stage) {
    if (const InstalledPlan* const plan = plan_with_memory(stage)) all.push_back(plan);
  });
  return all;
}

const std::string* HostPlans::busy(const MoveRequest& request) const {
  const std::string* name = nullptr;
  for_each_stage([&](const Stage& stage) {
    const InstalledPlan* const plan = plan_with_memory(stage);
    if (plan == nullptr || name != nullptr) return;
    const bool of_scopes = std::ranges::count(request.scopes, plan->scope) > 0;
    const bool is_named = std::ranges::count(request.plans, plan->id) > 0;
    if ((of_scopes || is_named) && is_at_work(stage)) name = &plan->plan->name;
  });
  return name;
}

bool HostPlans::is_at_work(const Stage& stage) {
  if (const auto* const plan = std::get_if<std::unique_ptr<InstalledPlan>>(&stage))
    return (*plan)->active > 0;
  const auto* const installing = std::get_if<std::unique_ptr<InitialisingPlan>>(&stage);
  return installing != nullptr && (*installing)->running > 0;
}

namespace {

// Links between its devices, memory of peers, and its own, which peers write.
size_t links_of(const LinkedPlan& plan) {
  const auto peers = std::ranges::count_if(
      plan.links.peers, [](const std::shared_ptr<PeerMemory>& peer) { return peer != nullptr; });
  return 1 + plan.links.device_links.size() + static_cast<size_t>(peers);
}

}  // namespace

size_t HostPlans::links() const {
  size_t count = 0;
  for_each_stage([&](const Stage& stage) {
    if (std::holds_alternative<LaidOutPlan>(stage)) ++count;
    if (const auto* const plan = std::get_if<LinkedPlan>(&stage)) count += links_of(*plan);
    if (const InstalledPlan* const plan = plan_with_memory(stage)) count += links_of(*plan);
  });
  return count;
}

Future<Installed> HostPlans::install(const PlanRequest& request,
                                     const std::vector<SourceText>& fixed) {
  const PlanId id = request.id;
  GW_REQUIRE(!plans_.contains(id), "plan ", id, ": is installed already");
  CompilingPlan installing(plan_on_host(request, devices_), texts_);
  add_functions(installing.plan, states_, *installing.job);
  installing.job->done = [this, id](const CompileJob& done) {
    if (!done.dropped.load(std::memory_order_relaxed)) part_came(id, done.error.has_value());
  };
  std::vector<TextRequest> wanted = texts_wanted(installing, fixed);
  installing.to_come += wanted.size();
  Future<Installed> installed = installing.installed.future();
  const std::shared_ptr<CompileJob> job = installing.job;
  plans_.emplace(id, Stage(std::in_place_type<CompilingPlan>, std::move(installing)));
  for (TextRequest& text : wanted) load_text(id, std::move(text));
  compiler_.compile(job);
  return installed;
}

std::vector<TextRequest> HostPlans::texts_wanted(CompilingPlan& installing,
                                                 const std::vector<SourceText>& fixed) {
  for (const std::optional<DataSourceSpec>& spec : installing.plan.source_specs) {
    if (spec && !spec->path.empty()) installing.texts.by_path.emplace(spec->path, nullptr);
  }
  const PlanOwner& owner = installing.plan.owner;
  std::vector<TextRequest> wanted;
  for (const auto& [path, none] : installing.texts.by_path) {
    TextRequest& text = wanted.emplace_back();
    text.path = path;
    if (!owner.is_operator) {
      text.readable = devices_.options.trusted;
      text.owner = owner.name;
    }
    text.dropped = {installing.job, &installing.job->dropped};
    const auto before = std::ranges::find(fixed, path, &SourceText::path);
    if (before != fixed.end()) text.bytes_max = before->bytes;
  }
  return wanted;
}

// Runs off the reactor's thread, like compiling.
void HostPlans::load_text(PlanId id, TextRequest request) {
  if (request.dropped->load(std::memory_order_relaxed)) return;
  const auto came = [this, guard = runs_.alive, id, dropped = request.dropped,
                     path = request.path](const Result<TextPtr>& text) {
    if (*guard && !dropped->load(std::memory_order_relaxed)) text_came(id, path, text);
  };
  texts_.load(std::move(request)).on_ready(came);
}

void HostPlans::text_came(PlanId id, const std::string& path, const Result<TextPtr>& text) {
  CompilingPlan& installing = compiling(id);
  if (text.ok()) {
    installing.texts.by_path[path] = text.value();
  } else if (!installing.text_error) {
    installing.text_error = text.error();
  }
  part_came(id, !text.ok());
}

// A failure is reported at once, even if other parts are still to come.
void HostPlans::part_came(PlanId id, bool has_failed) {
  if (--compiling(id).to_come == 0 || has_failed) finish_install(id);
}

void HostPlans::finish_install(PlanId id) {
  CompilingPlan& installing = compiling(id);
  const std::shared_ptr<CompileJob> job = installing.job;
  Promise<Installed> promise = std::move(installing.installed);
  Result<Installed> result = result_of([&] {
    if (installing.text_error)
      throw Error(*installing.text_error);  // The compiler may still be working on the job.
    if (job->error) throw Error(*job->error);
    return lay_out_compiled(id, installing);
  });
  if (!result.ok()) {
    job->dropped.store(true, std::memory_order_release);
    plans_.erase(id);
  }
  promise.finish(std::move(result));
}

Installed HostPlans::lay_out_compiled(PlanId id, CompilingPlan& installing) {
  Installed installed;
  Result<LaidOutPlan> laid =
      laid_out(compiled(std::move(installing.plan), std::move(installing.texts), *installing.job),
               devices_, regions_, installed);
  Stage& stage = at(id);
  if (!laid.ok()) {  // The controller refuses it, and says what would fit.
    stage.emplace<TooLargePlan>(TooLargePlan{laid.error()});
    return installed;
  }
  stage.emplace<LaidOutPlan>(laid.take());
  if (const auto& landings = devices_.options.landings)
    landings->offers(cat("plan ", id, " on ", devices_.options.name), installed.offers[0].bytes);
  return installed;
}

void HostPlans::link(PlanId id, const std::vector<LinkOffer>& offers) {
  Stage& stage = at(id);
  if (const auto* const too_large = std::get_if<TooLargePlan>(&stage)) throw Error(too_large->why);
  auto* const laid = std::get_if<LaidOutPlan>(&stage);
  GW_REQUIRE(laid != nullptr, "plan ", id, ": is compiled still, or linked already");
  LinkedPlan installing = linked(*laid, offers, devices_);
  stage.emplace<LinkedPlan>(std::move(installing));
}

Future<void> HostPlans::commit_install(PlanId id) {
  Stage& stage = at(id);
  auto* const linked_plan = std::get_if<LinkedPlan>(&stage);
  GW_REQUIRE(linked_plan != nullptr, "plan ", id, ": must be linked first");
  auto initialising = std::make_unique<InitialisingPlan>();
  InitialisingPlan& installing = *initialising;
  installing.plan = ready(*linked_plan);
  stage.emplace<std::unique_ptr<InitialisingPlan>>(std::move(initialising));
  try {
    add_states(installing);
    runs_.add(*installing.plan);
  } catch (...) {  // Initialisers that were enqueued before still end.
    installing.failed = current_error();
    drop_states(*installing.plan);
    throw;
  }
  Future<void> committed = installing.committed.future();
  if (installing.running == 0) end_commit(installing);
  return committed;
}

void HostPlans::uninstall(PlanId id, bool refused) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return;  // Idempotent: a repeated message means nothing new.
  Stage stage = std::move(found->second);
  plans_.erase(found);
  if (auto* const compiling_plan = std::get_if<CompilingPlan>(&stage))
    return drop_install(*compiling_plan);
  const auto* const installing = std::get_if<std::unique_ptr<InitialisingPlan>>(&stage);
  InstalledPlan* const plan = plan_with_memory(stage);
  if (plan != nullptr && (refused || installing != nullptr)) drop_states(*plan);
  if (installing != nullptr) {
    (*installing)->is_closing = true;
    if ((*installing)->running > 0) (*installing)->committed.fail(install_dropped(*plan));
  }
  if (plan != nullptr) runs_.give_up(*plan, nullptr);
  closing_.push_back(std::move(stage));
  erase_closed();
}

// Functions that are being compiled are dropped when the compiler's thread has finished them.
void HostPlans::drop_install(CompilingPlan& installing) {
  installing.job->dropped.store(true, std::memory_order_release);
  installing.installed.fail(install_dropped(installing.plan));
}

Error HostPlans::install_dropped(const PlanOnHost& plan) const {
  return Error(ErrorKind::kCancelled,
               cat("plan \"", plan.plan->name,
                   "\": was uninstalled, or its host ended, while it was installed"),
               {.host = devices_.options.name});
}

// A plan is destroyed when its last run has left the devices, and with it all work that was
// enqueued before.
void HostPlans::erase_closed() {
  const size_t gone = std::erase_if(closing_, [this](const Stage& stage) {
    if (is_at_work(stage)) return false;
    if (InstalledPlan* const plan = plan_with_memory(stage)) runs_.drop(*plan);
    return true;
  });
  if (gone == 0) return;
  for (const auto& device : devices_.all) device->compiler().trim();
}

}  // namespace gangway
