// HostPlans: the table of the plans that a host has installed, or is installing or removing.
//
//   install()         CompilingPlan     functions are compiled and texts loaded
//                     LaidOutPlan       or TooLargePlan, which no host of its plan links
//   link()            LinkedPlan
//   commit_install()  InitialisingPlan  until the initialisers of its new states have run
//                     InstalledPlan     runs may begin
//   uninstall()       closing           until its last run has left the devices
//
// plan_on_host.h says what each stage has. The controller calls these in this order, and may
// uninstall a plan at any stage.
//
// Threads: reactor thread.
// Ownership: it owns the plans.
// Errors: calls throw kInvalid for a plan that is not at the stage before.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "executor/devices/compiler.h"
#include "executor/host/host_devices.h"
#include "executor/host/host_runs.h"
#include "executor/host/installed_plan.h"
#include "executor/sources/text_store.h"
#include "executor/store/state_store.h"
#include "protocol/install.h"
#include "runtime/fibers/future.h"
#include "runtime/fibers/reactor.h"

namespace gangway {

struct CompilingPlan {
  CompilingPlan(PlanOnHost&& given, TextStore& store) : plan(std::move(given)), texts(store) {}

  PlanOnHost plan;
  HeldTexts texts;
  std::shared_ptr<CompileJob> job = std::make_shared<CompileJob>();
  size_t to_come = 1;               // Texts that are still loading, and 1 while the compiler works.
  std::optional<Error> text_error;  // Error of the first text that could not be loaded.
  Promise<Installed> installed;
};

// One of its devices has less memory in total than the plan needs there.
struct TooLargePlan {
  Error why;
};

struct InitialisingPlan {
  std::unique_ptr<InstalledPlan> plan;
  Promise<void> committed;
  size_t running = 0;           // Shards of new states that are not filled yet.
  std::optional<Error> failed;  // The first failure of an initialiser, or of a step before.
  bool is_closing = false;      // It was uninstalled meanwhile.
};

class HostPlans {
 public:
  HostPlans(Reactor& reactor, HostDevices& devices, StateStore& states, TextStore& texts,
            Compiler& compiler, HostRuns& runs);
  // Ends the futures of installs that are under way.
  void close();
  void raise_all_aborts() const;

  // See Host.
  Future<Installed> install(const PlanRequest& request, const std::vector<SourceText>& fixed);
  void link(PlanId id, const std::vector<LinkOffer>& offers);
  Future<void> commit_install(PlanId id);
  void uninstall(PlanId id, bool refused);

  // Throws kInvalid if no plan of this id is here, or it is not installed yet.
  InstalledPlan& installed_plan(PlanId id);
  // Null if it is not here, or not installed yet.
  InstalledPlan* find_installed(PlanId id) const;
  // Plans that have their memory, those that are initialised or closing too.
  std::vector<const InstalledPlan*> with_memory() const;
  // The name of a plan of these scopes, or with one of these ids, that has unfinished work; null:
  // there is none.
  const std::string* busy(const MoveRequest& request) const;
  // Destroys closing plans whose work has left the devices.
  void erase_closed();

  size_t size() const { return plans_.size() + closing_.size(); }
  size_t links() const;
  size_t regions() const { return regions_.size(); }

 private:
  using Stage = std::variant<CompilingPlan, TooLargePlan, LaidOutPlan, LinkedPlan,
                             std::unique_ptr<InitialisingPlan>, std::unique_ptr<InstalledPlan>>;

  // Null: it has no memory yet.
  static InstalledPlan* plan_with_memory(const Stage& stage);
  // Whether runs or initialisers of it are on devices.
  static bool is_at_work(const Stage& stage);
  template <class Body>
  void for_each_stage(Body body) const;
  Stage& at(PlanId id);
  CompilingPlan& compiling(PlanId id) { return std::get<CompilingPlan>(at(id)); }

  std::vector<TextRequest> texts_wanted(CompilingPlan& installing,
                                        const std::vector<SourceText>& fixed);
  void load_text(PlanId id, TextRequest request);
  void text_came(PlanId id, const std::string& path, const Result<TextPtr>& text);
  void part_came(PlanId id, bool has_failed);
  void finish_install(PlanId id);
  Installed lay_out_compiled(PlanId id, CompilingPlan& installing);
  void drop_install(CompilingPlan& installing);
  Error install_dropped(const PlanOnHost& plan) const;

  // plan_states.cc
  void add_states(InitialisingPlan& installing);
  std::shared_ptr<State> add_state(InitialisingPlan& installing, size_t state, TensorShards shards);
  void share_state(const std::shared_ptr<State>& state);
  void drop_states(InstalledPlan& plan);
  void initialise(InitialisingPlan& installing, size_t state, const std::shared_ptr<State>& target);
  void initialised(InitialisingPlan& installing, const std::string& state, const Error* error);
  void end_commit(InitialisingPlan& installing);

  Reactor& reactor_;
  HostDevices& devices_;
  StateStore& states_;
  TextStore& texts_;
  Compiler& compiler_;
  HostRuns& runs_;
  OverlayRegions regions_;
  std::map<PlanId, Stage> plans_;
  std::list<Stage> closing_;
};

}  // namespace gangway
