#include "controller/scheduler/runs.h"

#include <algorithm>

#include "runtime/base/units.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

constexpr int64_t kTimeLimitMaxMs = int64_t{1} << 42;  // 139 years: fits in nanoseconds.

}  // namespace

struct RunTable::Run {
  RunId id;
  SessionId session;
  RunFrame request;  // As the client named things.
  PlanRecord* plan = nullptr;
  bool granted = false;
  std::vector<ArrayId> kept;   // Arguments and outputs it refers to.
  std::set<HostId> pending;    // Hosts that have not said that they are done.
  std::optional<Error> error;  // The first; a culprit's wins over hearsay.
  bool culprit = false;
  bool stopping = false;
  std::vector<SmallOutput> outputs;
  int64_t deadline_ns = 0;

  void fail(const Error& why, bool is_culprit) {
    if (error && (culprit || !is_culprit)) return;
    error = why;
    culprit = is_culprit;
  }
};

RunTable::RunTable(HostTable& hosts, PlanTable& plans, ObjectTable& objects, Callbacks callbacks,
                   std::unique_ptr<Policy> policy)
    : hosts_(hosts),
      plans_(plans),
      objects_(objects),
      callbacks_(std::move(callbacks)),
      policy_(std::move(policy)) {}

RunTable::~RunTable() = default;

void RunTable::submit(SessionId session, RunFrame request, int64_t now_ns) {
  auto owned = std::make_unique<Run>();
  Run& run = *owned;
  run.id = RunId(++last_run_);
  TraceSpan span("submit", run.id.value);
  run.session = session;
  run.request = std::move(request);
  try {
    GW_REQUIRE(by_client_.emplace(std::make_pair(session, run.request.run), run.id).second, "run ",
               run.request.run, ": the name is taken");
    runs_.emplace(run.id, std::move(owned));
    start(run);
  } catch (const Error& error) {
    if (owned != nullptr) {  // Never entered the table.
      callbacks_.ended(session, {.run = run.request.run, .error = error});
      return;
    }
    run.fail(error, true);
    return end(run);
  }
  if (run.request.time_limit_ms > 0) {
    run.deadline_ns = now_ns + std::min(run.request.time_limit_ms, kTimeLimitMaxMs) * 1'000'000;
    deadlines_.emplace(run.deadline_ns, run.id);
  }
  pump();
}

void RunTable::start(Run& run) {
  PlanRecord& plan = plans_.at(run.request.plan, run.session);
  if (plan.broken) throw *plan.broken;
  run.plan = &plan;
  ++plan.runs;
  bind_arguments(run);
  policy_->add({run.id, run.session, plan.id, plan.plan->nodes.size()});
}

// Checks what the request names, and takes the references that keep it until the run has ended.
void RunTable::bind_arguments(Run& run) {
  const Plan& plan = *run.plan->plan;
  const RunFrame& request = run.request;
  GW_REQUIRE(request.outputs.size() == plan.outputs.size(), "run of \"", plan.name, "\": expected ",
             plan.outputs.size(), " outputs, got ", request.outputs.size());
  GW_REQUIRE(request.source_positions.size() == plan.sources.size(), "run of \"", plan.name,
             "\": expected ", plan.sources.size(), " source positions, got ",
             request.source_positions.size());
  std::vector<bool> given(plan.inputs.size(), false);
  for (const ArgumentFrame& argument : request.arguments) {
    GW_REQUIRE(argument.input < plan.inputs.size() && !given[argument.input], "run of \"",
               plan.name, "\": input ", argument.input, " does not exist or is given twice");
    given[argument.input] = true;
    const PlanValue& input = plan.values[plan.inputs[argument.input]];
    if (!argument.bytes.empty()) {
      GW_REQUIRE(static_cast<int64_t>(argument.bytes.size()) == input.type.bytes(), "run of \"",
                 plan.name, "\": input \"", input.name, "\": expected ", to_string(input.type),
                 ", got ", argument.bytes.size(), " bytes");
      continue;
    }
    const ArrayRecord& array = objects_.find(argument.array, run.session);
    const Mesh& mesh = plan.slices[input.slice].mesh;
    GW_REQUIRE(array.type == input.type && array.mesh == mesh && array.sharding == input.sharding &&
                   array.devices == run.plan->devices[input.slice],
               "run of \"", plan.name, "\": input \"", input.name, "\": expected ",
               to_string(input.type), " ", to_string(mesh, input.sharding), ", got ",
               to_string(array.type), " ", to_string(array.mesh, array.sharding),
               array.devices == run.plan->devices[input.slice] ? "" : " on other devices");
    objects_.keep(argument.array);
    run.kept.push_back(argument.array);
  }
  for (size_t i = 0; i < given.size(); ++i) {
    GW_REQUIRE(given[i], "run of \"", plan.name, "\": input \"", plan.values[plan.inputs[i]].name,
               "\" is missing");
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const PlanValue& value = plan.values[plan.outputs[i]];
    objects_.add(request.outputs[i], {.owner = run.session,
                                      .hosts = run.plan->hosts,
                                      .devices = run.plan->devices[value.slice],
                                      .type = value.type,
                                      .mesh = plan.slices[value.slice].mesh,
                                      .sharding = value.sharding,
                                      .runs = 1});
    run.kept.push_back(request.outputs[i]);
  }
}

bool RunTable::may_start(const Run& run) const {
  return run.plan->in_flight < run.plan->plan->runs_in_flight_max &&
         std::none_of(
             fences_.begin(), fences_.end(),
             [&](const Fence& fence) {
               return fence.session == run.session && fence.last < run.id;
             });
}

void RunTable::in_order(SessionId session, std::function<void()> send) {
  fences_.push_back({session, RunId(last_run_), std::move(send)});
  pass_fences();
}

void RunTable::pass_fences() {
  const auto waits = [this](const Fence& fence) {
    return std::any_of(runs_.begin(), runs_.upper_bound(fence.last), [&](const auto& item) {
      return item.second->session == fence.session && !item.second->granted;
    });
  };
  for (auto at = fences_.begin(); at != fences_.end();) {
    if (waits(*at)) {
      ++at;
      continue;
    }
    at->send();
    at = fences_.erase(at);
  }
}

void RunTable::pump() {
  objects_.flush();
  while (true) {
    pass_fences();
    const auto next = policy_->next([this](RunId id) { return may_start(*runs_.at(id)); });
    if (!next) break;
    Run& run = *runs_.at(*next);
    // What does not fit yet holds the line: were others let past, it might never fit.
    if (!admit(run)) break;
    if (run.error) {
      end(run);
    } else {
      grant(run);
    }
  }
  objects_.flush();
}

// Its outputs' memory, on all its hosts or on none. The plan's own slots hold those of as many runs
// as may be in flight; what a client keeps beyond that is extra. False: not yet.
bool RunTable::admit(Run& run) {
  PlanRecord& plan = *run.plan;
  if (run.request.outputs.empty()) return true;
  std::vector<std::shared_ptr<void>> holdings;
  holdings.emplace_back(nullptr, [sets = plan.output_sets](void*) { --*sets; });
  ++*plan.output_sets;
  if (*plan.output_sets > plan.plan->runs_in_flight_max) {
    const std::string owner = callbacks_.owner_name(run.session);
    const auto short_of = hosts_.reserve(owner, plan.output_bytes);
    if (short_of && in_flight_ > 0 && objects_.any_held_by_runs_alone()) return false;
    if (short_of) {
      run.fail(
          Error(ErrorKind::kOverloaded,
                cat("run of \"", plan.plan->name, "\": no memory for its outputs: needs ",
                    format_bytes(static_cast<uint64_t>(short_of->bytes)), " on ",
                    hosts_.name_of(short_of->at), ", where ",
                    format_bytes(static_cast<uint64_t>(hosts_.free_bytes(short_of->at))),
                    " are free and no run in flight frees enough; ", hosts_.holders(short_of->at)),
                {.program = plan.plan->name}, "let arrays go that nobody needs any more"),
          true);
      return true;
    }
    holdings.push_back(std::make_shared<Holding>(hosts_, owner, plan.output_bytes));
  }
  for (ArrayId output : run.request.outputs) {
    objects_.find(output, run.session).holdings = holdings;
  }
  return true;
}

void RunTable::grant(Run& run) {
  TraceSpan span("grant", run.id.value);
  PlanRecord& plan = *run.plan;
  policy_->remove(run.id);
  run.granted = true;
  ++plan.in_flight;
  ++in_flight_;
  ++granted_;
  RunFrame frame = run.request;
  frame.run = run.id;
  frame.first_ticket = next_ticket_;
  frame.time_limit_ms = 0;
  next_ticket_ = Ticket(next_ticket_.value + plan.plan->nodes.size());
  objects_.flush();  // The hosts hear first of what was freed for it.
  const Frame bytes = encode(frame);
  for (HostId host : plan.hosts) {
    run.pending.insert(host);
    hosts_.send(host, bytes);
  }
}

void RunTable::host_done(HostId host, RunDoneFrame done) {
  TraceSpan span("host done", done.run.value);
  const auto found = runs_.find(done.run);
  if (found == runs_.end() || !found->second->pending.contains(host)) return;
  Run& run = *found->second;
  if (done.error) {
    Error error = *done.error;
    error.add_where({.program = run.plan->plan->name, .host = hosts_.at(host).info.name});
    run.fail(error, done.culprit);
  }
  for (SmallOutput& output : done.outputs) {
    const bool known = std::any_of(run.outputs.begin(), run.outputs.end(), [&](const auto& other) {
      return other.output == output.output;
    });
    if (!known) run.outputs.push_back(std::move(output));
  }
  host_finished(run, host);
}

void RunTable::host_finished(Run& run, HostId host) {
  run.pending.erase(host);
  if (!run.pending.empty()) return;
  end(run);
  pump();
}

void RunTable::end(Run& run) {
  policy_->remove(run.id);
  if (run.granted) {
    --run.plan->in_flight;
    --in_flight_;
  }
  for (ArrayId array : run.kept) objects_.drop(array);
  if (run.deadline_ns != 0) deadlines_.erase({run.deadline_ns, run.id});
  by_client_.erase({run.session, run.request.run});
  const std::unique_ptr<Run> ended = std::move(runs_.at(run.id));
  runs_.erase(ended->id);
  if (ended->plan != nullptr) plans_.run_ended(*ended->plan);
  callbacks_.ended(ended->session, {.run = ended->request.run,
                                    .error = ended->error,
                                    .culprit = ended->culprit,
                                    .outputs = std::move(ended->outputs)});
}

RunTable::Run* RunTable::find(SessionId session, RunId client_run) {
  const auto at = by_client_.find({session, client_run});
  return at == by_client_.end() ? nullptr : runs_.at(at->second).get();
}

void RunTable::cancel(SessionId session, RunId client_run, const Error& why) {
  if (Run* run = find(session, client_run)) ask_to_stop(*run, why);
}

// A run without tickets ends here; the hosts end one that has them, and they alone know whether the
// request came before its commit.
void RunTable::ask_to_stop(Run& run, const Error& why) {
  if (run.stopping) return;
  run.stopping = true;
  if (!run.granted) {
    run.fail(why, false);
    end(run);
    return pump();
  }
  const Frame frame = encode(CancelFrame{run.id, why});
  for (HostId host : run.pending) hosts_.send(host, frame);
}

void RunTable::host_lost(HostId host, const Error& why) {
  std::vector<RunId> hit;
  for (const auto& [id, run] : runs_) {
    const auto& hosts = run->plan->hosts;
    if (std::find(hosts.begin(), hosts.end(), host) != hosts.end()) hit.push_back(id);
  }
  for (RunId id : hit) {
    const auto at = runs_.find(id);
    if (at == runs_.end()) continue;
    Run& run = *at->second;
    if (run.granted && !run.pending.contains(host)) continue;  // Its part had ended.
    Error error = why;
    error.add_where({.program = run.plan->plan->name});
    run.fail(error, true);
    run.pending.erase(host);
    ask_to_stop(run, error);
    // The others may wait for the lost one's part for as long as they live: nobody waits for them.
    if (runs_.contains(id)) end(*runs_.at(id));
  }
  pump();
}

void RunTable::session_closed(SessionId session) {
  std::erase_if(fences_, [&](const Fence& fence) { return fence.session == session; });
  std::vector<RunId> owned;
  for (const auto& [id, run] : runs_) {
    if (run->session == session) owned.push_back(id);
  }
  for (RunId id : owned) {
    const auto at = runs_.find(id);
    if (at == runs_.end()) continue;
    ask_to_stop(*at->second, Error(ErrorKind::kCancelled, "run: its client is gone"));
  }
}

std::optional<int64_t> RunTable::next_deadline_ns() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.begin()->first;
}

void RunTable::expire(int64_t now_ns) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now_ns) {
    const RunId id = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    Run& run = *runs_.at(id);
    run.deadline_ns = 0;
    ask_to_stop(run, Error(ErrorKind::kCancelled,
                           cat("run of \"", run.plan->plan->name,
                               "\": not done within its limit of ", run.request.time_limit_ms,
                               " ms", run.granted ? "" : ": it still waited for earlier runs"),
                           {.program = run.plan->plan->name}));
  }
}

}  // namespace gangway
