#include <algorithm>
#include <utility>

#include "executor/devices/task.h"
#include "executor/host/host_impl.h"
#include "executor/host/host_install.h"
#include "executor/host/plan_links.h"
#include "ir/boxes/boxes.h"
#include "ir/plan/plan_check.h"
#include "ir/plan/sequential.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/os/landing_log.h"

namespace gangway {
namespace {

const LinkOffer& offer_of(const std::vector<LinkOffer>& offers, uint32_t host) {
  for (const LinkOffer& offer : offers) {
    if (offer.host == host) return offer;
  }
  throw Error(ErrorKind::kInvalid, cat("link: the offer of host ", host, " is missing"));
}

// A user's kernel, or a library below one, may throw; the device's thread may not.
Progress advance_initialiser(const CompiledFunction& function, CallFrame& frame, Turn& turn) {
  try {
    return function.advance(frame, turn);
  } catch (...) {
    Error error = current_error();
    error.add_where({.at = function.describe_step(frame.step).at});
    frame.error = std::make_shared<const Error>(std::move(error));
    return Progress::kDone;
  }
}

// The rows of a value that a device has; empty if it does not take part.
Box part_of(const HostPlan& made, const DevicePlan& device, uint32_t value) {
  const TensorShards& tensor = made.shards[value];
  const Shard* shard = tensor.on(device.member.device, device.member.rank);
  if (shard == nullptr) return {};
  return box_of(tensor.type, {tensor.mesh, tensor.sharding}, shard->mesh_device);
}

// The ranks of one device need its memory at the same time.
void add(DeviceNeed& to, const DeviceNeed& more) {
  to.arena += more.arena;
  to.state += more.state;
  to.slots += more.slots;
  to.overlaid += more.overlaid;
}

// The controller installs plans of one scope one after another, but it may uninstall a plan that it
// refused only after it has installed the next one.
Error state_not_usable(const std::string& name, const char* why) {
  return {ErrorKind::kUnavailable, cat("state \"", name, "\": ", why), {}, "compile again"};
}

}  // namespace

HostPlan& Host::Impl::plan(PlanId id) {
  auto found = plans.find(id);
  GW_REQUIRE(found != plans.end(), "plan ", id, ": is not installed on host \"",
             devices.options.name, "\"");
  return *found->second;
}

Future<Installed> Host::Impl::install(PlanId id, std::shared_ptr<const Plan> given, uint32_t self,
                                      StateScope scope, const PlanOwner& owner,
                                      const std::vector<SourceText>& fixed) {
  GW_REQUIRE(!plans.contains(id), "plan ", id, ": is installed already");
  require_valid_on(*given, self, static_cast<uint32_t>(devices.all.size()));
  auto made = std::make_unique<HostPlan>();
  made->id = id;
  made->plan = std::move(given);
  made->positions.emplace(*made->plan);
  made->sequential = any_sequential(*made->plan);
  made->self = self;
  made->scope = scope;
  made->owner = owner;
  made->planted = devices.options.planted_in_transfers;
  add_devices(*made, devices.all);
  for (const auto& device : made->devices) {
    device->id = id;
    device->order_log = devices.options.order_log;
  }
  made->compiling = std::make_shared<CompileJob>();
  CompileJob& job = *made->compiling;
  add_functions(*made, job);
  add_initialisers(*made, job);
  add_sources(*made);
  job.done = [this, id](const CompileJob& done) {
    if (!done.dropped.load(std::memory_order_relaxed)) part_came(id, done.error.has_value());
  };
  Future<Installed> installed = made->installed.future();
  const std::shared_ptr<CompileJob> shared = made->compiling;
  made->to_come = 1 + made->texts.size();
  std::vector<TextRequest> wanted = texts_wanted(*made, fixed);
  plans[id] = std::move(made);
  for (TextRequest& text : wanted) load_text(id, std::move(text));
  compiler.compile(shared);
  return installed;
}

void Host::Impl::add_sources(HostPlan& made) {
  for (uint32_t source : made.plan->sources) {
    const PlanNode& node = made.plan->nodes[source];
    std::optional<DataSourceSpec>& spec = made.source_specs.emplace_back();
    if (made.shards[node.results[0]].shards.empty() || !has_values(made)) continue;
    spec = read_source(node.attrs, made.plan->values[node.results[0]].type);
    if (!spec->path.empty()) made.texts.emplace(spec->path, nullptr);
  }
}

std::vector<TextRequest> Host::Impl::texts_wanted(const HostPlan& made,
                                                  const std::vector<SourceText>& fixed) const {
  std::vector<TextRequest> wanted;
  for (const auto& [path, none] : made.texts) {
    TextRequest& text = wanted.emplace_back();
    text.path = path;
    if (!made.owner.is_operator) {
      text.readable = devices.options.trusted;
      text.owner = made.owner.name;
    }
    text.dropped = {made.compiling, &made.compiling->dropped};
    const auto before = std::ranges::find(fixed, path, &SourceText::path);
    if (before != fixed.end()) text.bytes_max = before->bytes;
  }
  return wanted;
}

// Runs off the reactor's thread, like compiling.
void Host::Impl::load_text(PlanId id, TextRequest request) {
  if (request.dropped->load(std::memory_order_relaxed)) return;
  const auto came = [this, guard = alive, id, dropped = request.dropped,
                     path = request.path](const Result<TextPtr>& text) {
    if (*guard && !dropped->load(std::memory_order_relaxed)) text_came(id, path, text);
  };
  texts.load(std::move(request)).on_ready(came);
}

void Host::Impl::text_came(PlanId id, const std::string& path, const Result<TextPtr>& text) {
  HostPlan& made = plan(id);
  if (text.ok()) {
    made.texts[path] = text.value();
  } else if (!made.text_error) {
    made.text_error = text.error();
  }
  part_came(id, !text.ok());
}

// A failure is reported at once, even if other parts are still to come.
void Host::Impl::part_came(PlanId id, bool has_failed) {
  if (--plan(id).to_come == 0 || has_failed) finish_install(id);
}

// Initialisers have the numbers behind the plan's functions.
uint32_t Host::Impl::initialiser_number(const HostPlan& made, size_t state) {
  return static_cast<uint32_t>(made.plan->functions.size() + state);
}

void Host::Impl::add_initialisers(const HostPlan& made, CompileJob& job) {
  for (size_t s = 0; s < made.plan->states.size(); ++s) {
    const PlanState& state = made.plan->states[s];
    const TensorShards& like = made.shards[state.value];
    if (like.shards.empty() ||
        states.find_like(made.scope, made.plan->values[state.value].name, like))
      continue;
    const LocalFunction local{state.init, static_cast<NodeId>(state.init->nodes.size()), {}, kNone};
    for (const Shard& shard : like.shards)
      job.add(initialiser_number(made, s), *devices.all[shard.device], local);
  }
}

void Host::Impl::finish_install(PlanId id) {
  HostPlan& made = plan(id);
  const std::shared_ptr<CompileJob> job = std::move(made.compiling);
  Promise<Installed> promise = std::move(made.installed);
  Result<Installed> result = result_of([&] {
    if (made.text_error)
      throw Error(*made.text_error);  // The compiler may still be working on the job.
    if (job->error) throw Error(*job->error);
    take_functions(made, *job);
    return offer(made, *job);
  });
  if (!result.ok()) {
    job->dropped.store(true, std::memory_order_release);
    drop_texts(made);
    plans.erase(id);
  }
  promise.finish(std::move(result));
}

Installed Host::Impl::offer(HostPlan& made, const CompileJob& job) {
  made.inits.resize(made.plan->states.size());
  for (size_t s = 0; s < made.inits.size(); ++s) {
    for (const auto& device : made.devices) {
      const auto init = job.made(initialiser_number(made, s), *device->device);
      if (init == nullptr) continue;
      made.inits[s][device->device->family()] = init;
      made.init_arena = std::max(made.init_arena, init->arena_bytes());
    }
  }
  Installed installed;
  find_groups(made);
  for (const auto& device : made.devices) {
    device->region = region_of(made, *device);
    device->layout =
        lay_out(*made.plan, device->member, device->functions,
                device->region == nullptr ? made.init_arena : 0, device->device->discrete());
    add_entries(made, *device);
    const DeviceNeed need = need_of(made, *device);
    const bool is_first = installed.needs.empty() || installed.needs.back().device != need.device;
    is_first ? installed.needs.push_back(need) : add(installed.needs.back(), need);
    const DeviceMemory& memory = device->device->memory();
    if (const int64_t bytes = installed.needs.back().total(); bytes > memory.budget())
      made.too_large = memory.would_fit(bytes, cat("program \"", made.plan->name, "\"")).error();
  }
  made.stage = PlanStage::kInstalled;
  if (made.too_large) return installed;  // The controller refuses it, and says what would fit.
  for (size_t i = 0; i < made.source_specs.size(); ++i) {
    const std::optional<DataSourceSpec>& spec = made.source_specs[i];
    made.sources.push_back(
        !spec ? nullptr
              : make_source(*spec, spec->path.empty() ? nullptr : made.texts.at(spec->path)));
    const uint32_t value = made.plan->nodes[made.plan->sources[i]].results[0];
    for (const auto& device : made.devices)
      device->source_parts.push_back(part_of(made, *device, value));
  }
  for (const auto& [path, text] : made.texts)
    installed.texts.push_back({path, text->bytes.size(), to_string(text->hash)});
  // New memory for each plan: hosts of earlier plans that were lost may have stopped only, and they
  // write into those plans' memory when they go on.
  made.memory = devices.link().offer(areas_of(made));
  installed.offers = {{made.self, made.memory->offer()}};
  if (const auto& landings = devices.options.landings)
    landings->offers(cat("plan ", made.id, " on ", devices.options.name),
                     installed.offers[0].bytes);
  return installed;
}

DeviceNeed Host::Impl::need_of(HostPlan& made, DevicePlan& device) {
  const Plan& facts = *made.plan;
  DeviceNeed need{.device = device.member.device, .arena = device.layout.arena_bytes};
  if (device.region != nullptr) {
    need.arena = made.init_arena;
    need.overlaid = device.layout.arena_bytes;
  }
  for (size_t s = 0; s < facts.states.size(); ++s) {
    if (made.inits[s].empty()) continue;
    const PlanValue& value = facts.values[facts.states[s].value];
    if (mesh_device_of(facts.slices[value.slice], device.member) != kNone) {
      need.state += block_bytes(value.local_type.bytes());
    }
  }
  need.slots = (device.layout.slot_bytes + device.layout.bound_bytes + own_inbox_bytes(device)) *
               facts.runs_in_flight_max;
  // Memory that peers write is the host's.
  need.slots += device.device->discrete() ? block_bytes(staging_bytes(made, device))
                                          : shared_bytes(made, device);
  return need;
}

void Host::Impl::link(PlanId id, const std::vector<LinkOffer>& offers) {
  HostPlan& made = plan(id);
  GW_REQUIRE(made.stage == PlanStage::kInstalled, "plan ", id,
             ": is compiled still, or linked already");
  if (made.too_large) throw Error(*made.too_large);
  made.peers.resize(made.plan->hosts.size());
  const auto memory_of = [&](const Member& member) -> PeerMemory& {
    std::shared_ptr<PeerMemory>& peer = made.peers[member.host];
    if (peer == nullptr && member.host == made.self) peer = made.memory;
    if (peer == nullptr) peer = devices.link().open(offer_of(offers, member.host).bytes);
    GW_REQUIRE(member.device < peer->devices(), "link: host ", member.host, " offers ",
               peer->devices(), " devices, the plan uses its device ", member.device);
    return *peer;
  };
  link_devices(made, memory_of, [&](uint32_t device) { return devices.bell(device); });
  // All hosts are on one machine: their device threads share its cores.
  const std::vector<Member> members = plan_members(*made.plan);
  const auto threads = static_cast<int>(
      std::ranges::count_if(members, [](const Member& member) { return member.rank == 0; }));
  for (const auto& device : made.devices) device->device->expect_peers(threads);
  made.stage = PlanStage::kLinked;
}

Future<void> Host::Impl::commit_install(PlanId id) {
  HostPlan& made = plan(id);
  GW_REQUIRE(made.stage == PlanStage::kLinked, "plan ", id, ": must be linked first");
  place_arenas(made);
  for (const auto& device : made.devices) allocate(made, *device);
  place_links(made);
  made.stage = PlanStage::kInitialising;
  try {
    add_states(made);
    add_runs(made);
  } catch (...) {  // Initialisers that were enqueued before still end.
    made.init_failed = current_error();
    drop_states(made);
    throw;
  }
  Future<void> committed = made.committed.future();
  if (made.initialising == 0) end_commit(made);
  return committed;
}

void Host::Impl::add_runs(HostPlan& made) {
  for (int64_t slot = 0; slot < made.plan->runs_in_flight_max; ++slot) {
    auto run = std::make_unique<PlanRun>();
    for (const auto& device : made.devices) {
      run->devices.push_back(std::make_unique<DeviceRun>(*device, static_cast<uint32_t>(slot),
                                                         reactor.mailbox(), *this));
    }
    PlanRun& added = *made.runs.emplace_back(std::move(run));
    for (const auto& device : added.devices) run_of[device.get()] = {&made, &added};
  }
}

void Host::Impl::end_commit(HostPlan& made) {
  if (made.init_failed) {
    drop_states(made);
    return made.committed.fail(*made.init_failed);
  }
  made.stage = PlanStage::kReady;
  for (const auto& device : made.devices) {
    if (device->region != nullptr) device->arena = nullptr;
  }
  made.committed.set();
}

void Host::Impl::drop_states(HostPlan& made) {
  for (const auto& state : made.added) states.remove(made.scope, state);
  made.added.clear();
}

// Another plan uses the state from now on.
void Host::Impl::share_state(const std::shared_ptr<State>& state) {
  for (const auto& [id, creator] : plans) {
    const auto found = std::find(creator->added.begin(), creator->added.end(), state);
    if (found == creator->added.end()) continue;
    if (creator->stage == PlanStage::kInitialising)
      throw state_not_usable(state->name, "another program still initialises it");
    creator->added.erase(found);
  }
}

// The region for the device's temporaries of an overlaid plan; null: they are in an arena of the
// plan's own.
std::shared_ptr<OverlayRegion> Host::Impl::region_of(const HostPlan& made,
                                                     const DevicePlan& device) {
  if (!made.plan->overlaid || device.device->discrete()) return nullptr;
  std::shared_ptr<OverlayRegion>& region = regions[device.member.device];
  if (region == nullptr) region = std::make_shared<OverlayRegion>(device.device->memory());
  return region;
}

// Ranks of a device have separate ranges of its region.
void Host::Impl::place_arenas(HostPlan& made) {
  std::map<uint32_t, int64_t> bytes;
  for (const auto& device : made.devices)
    bytes[device->member.device] += device->layout.arena_bytes;
  struct Place {
    std::shared_ptr<std::byte> first;
    int64_t used = 0;
  };
  std::map<uint32_t, Place> places;
  for (const auto& device : made.devices) {
    if (device->region == nullptr) continue;
    Place& place = places[device->member.device];
    if (place.first == nullptr)
      place.first = device->region->place(bytes[device->member.device],
                                          cat("program \"", made.plan->name, "\""));
    device->overlaid = {place.first, place.first.get() + place.used};
    place.used += device->layout.arena_bytes;
  }
}

void Host::Impl::allocate(HostPlan& made, DevicePlan& device) {
  const Plan& facts = *made.plan;
  const std::string what = cat("program \"", facts.name, "\"");
  DeviceMemory& memory = device.device->memory();
  const bool initialises = made.stage != PlanStage::kReady;  // States are initialised once.
  if (device.region == nullptr || initialises)
    device.arena = allocate_buffer(
        memory, device.region == nullptr ? device.layout.arena_bytes : made.init_arena, what);
  device.slots = allocate_buffer(memory, device.layout.slot_bytes * facts.runs_in_flight_max, what);
  if (device.device->discrete()) {
    device.staging =
        device.device->host_memory(device.layout.slot_bytes * facts.runs_in_flight_max);
    device.meeting_place = allocate_buffer(memory, block_bytes(staging_bytes(made, device)), what);
    if (const int64_t bytes = own_inbox_bytes(device); bytes > 0)
      device.inboxes = allocate_buffer(memory, bytes * facts.runs_in_flight_max, what);
    std::byte* place = device.meeting_place->data();
    for (const auto& collective : device.collectives) {
      collective->use_staging(place);
      place += collective->staging_bytes();
    }
  }
  const int64_t shared = device.device->discrete() ? 0 : shared_bytes(made, device);
  if (Result<void> reserved = memory.reserve(shared, what); !reserved.ok()) throw reserved.error();
  device.reserved_bytes = shared;
  const auto pool = [&](uint32_t value) {
    return std::make_shared<BufferPool>(memory, block_bytes(facts.values[value].local_type.bytes()),
                                        what, facts.runs_in_flight_max);
  };
  device.states.resize(facts.values.size());
  device.input_pools.resize(facts.inputs.size());
  device.output_pools.resize(facts.outputs.size());
  for (size_t i = 0; i < facts.inputs.size(); ++i) {
    const uint32_t value = facts.inputs[i];
    if (device.layout.values[value].kind == ValuePlace::Kind::kAbsent) continue;
    if (facts.values[value].local_type.bytes() <= static_cast<int64_t>(kSmallBytesMax)) continue;
    device.input_pools[i] = pool(value);
  }
  for (const DeviceOutput& output : device.outputs)
    device.output_pools[output.output] = pool(output.value);
}

void Host::Impl::add_states(HostPlan& made) {
  for (uint32_t s = 0; s < made.plan->states.size(); ++s) {
    const uint32_t value = made.plan->states[s].value;
    const std::string& name = made.plan->values[value].name;
    TensorShards shards = made.shards[value];
    if (shards.shards.empty()) continue;
    std::shared_ptr<State> state = states.find_like(made.scope, name, shards);
    if (state == nullptr) {
      if (made.inits[s].empty())
        throw state_not_usable(name, "went away while its program was installed");
      state = std::make_shared<State>(State{name, std::move(shards)});
      for (Shard& shard : state->shards.shards) {
        shard.buffer =
            allocate_buffer(devices.all[shard.device]->memory(),
                            block_bytes(state->shards.local.bytes()), cat("state \"", name, "\""));
      }
      states.add(made.scope, state);
      made.added.push_back(state);
      initialise(made, s, state);
    } else {
      if (state->on_host != nullptr) throw state_not_usable(name, "its program is suspended");
      share_state(state);
    }
    use_state(made, value, *state);
  }
  sort_states(made);
}

void Host::Impl::use_state(HostPlan& made, uint32_t value, const State& state) {
  for (const auto& device : made.devices) {
    const Shard* shard = state.shards.on(device->member.device, device->member.rank);
    if (shard == nullptr) continue;
    device->states[value] = shard->buffer;
    device->shared_states.push_back(shard->buffer.get());
  }
}

void Host::Impl::sort_states(HostPlan& made) {
  for (const auto& device : made.devices)
    std::sort(device->shared_states.begin(), device->shared_states.end(), std::less<>());
}

// Enqueues initialisers in stream order; they use the plan's arena, since no run of the plan has
// begun.
void Host::Impl::initialise(HostPlan& made, uint32_t s, const std::shared_ptr<State>& state) {
  for (const auto& device : made.devices) {
    const Shard* shard = state->shards.on(device->member.device, device->member.rank);
    if (shard == nullptr) continue;
    auto frame = std::make_shared<CallFrame>();
    frame->bases = {shard->buffer->data(), device->arena->data()};
    frame->mesh_device = shard->mesh_device;
    const auto& init = made.inits[s].at(device->device->family());
    frame->end = init->step_count();
    const auto arena = std::make_shared<BufferPtr>(device->arena);
    const auto start = [frame, function = init, arena](Turn& turn) {
      return advance_initialiser(*function, *frame, turn);
    };
    const auto end = [this, guard = alive, &made, frame, state, arena,
                      buffer = shard->buffer](const std::shared_ptr<const Error>& failure) {
      arena->reset();  // Its last use, if the plan is overlaid.
      buffer->error = frame->error != nullptr ? frame->error : failure;
      reactor.mailbox().post([this, guard, &made, state, error = buffer->error] {
        if (*guard) initialised(made, *state, error.get());
      });
    };
    ++made.initialising;
    // One after another: they share the plan's arena.
    enqueue_task(*device->device, start, end, {.lane = &device->lane});
  }
}

// A plan that was uninstalled meanwhile stays until its last initialiser has left its lane.
void Host::Impl::initialised(HostPlan& made, const State& state, const Error* error) {
  if (error != nullptr && !made.init_failed) {
    made.init_failed =
        Error(error->kind(),
              cat("state \"", state.name, "\": its initialiser failed: ", error->message()),
              error->where(), error->hint());
    made.init_failed->add_where(
        {.program = made.plan->name, .node = state.name, .host = devices.options.name});
  }
  if (--made.initialising > 0) return;
  if (made.stage == PlanStage::kClosing) return erase_closed();
  end_commit(made);
}

void Host::Impl::uninstall(PlanId id, bool refused) {
  auto found = plans.find(id);
  if (found == plans.end()) return;  // Idempotent: a repeated message means nothing new.
  std::unique_ptr<HostPlan> made = std::move(found->second);
  plans.erase(found);
  if (made->stage == PlanStage::kCompiling) return drop_install(*made);
  if (refused || made->stage != PlanStage::kReady) drop_states(*made);
  if (made->initialising > 0) made->committed.fail(install_dropped(*made));
  made->stage = PlanStage::kClosing;
  give_up(*made, nullptr);
  closing.push_back(std::move(made));
  erase_closed();
}

void Host::Impl::drop_texts(HostPlan& made) {
  made.sources.clear();
  texts.release(std::move(made.texts));
}

// Functions that are being compiled are dropped when the compiler's thread has finished them.
void Host::Impl::drop_install(HostPlan& made) {
  made.compiling->dropped.store(true, std::memory_order_release);
  drop_texts(made);
  made.installed.fail(install_dropped(made));
}

Error Host::Impl::install_dropped(const HostPlan& made) const {
  return Error(ErrorKind::kCancelled,
               cat("plan \"", made.plan->name,
                   "\": was uninstalled, or its host ended, while it was installed"),
               {.host = devices.options.name});
}

// A plan is destroyed when its last run has left the devices, and with it all work that was
// enqueued before.
void Host::Impl::erase_closed() {
  const size_t gone = std::erase_if(closing, [&](const std::unique_ptr<HostPlan>& made) {
    if (made->active > 0 || made->initialising > 0) return false;
    drop_runs(*made);
    free_memory(*made);
    drop_texts(*made);
    return true;
  });
  if (gone == 0) return;
  for (const auto& device : devices.all) device->trim();
}

void Host::Impl::drop_runs(HostPlan& made) {
  for (const auto& run : made.runs) {
    for (const auto& device : run->devices) run_of.erase(device.get());
  }
  made.runs.clear();
}

// Frees all that it has on devices except states, which other plans may share.
void Host::Impl::free_memory(HostPlan& made) {
  for (const auto& device : made.devices) {
    for (auto* pools : {&device->input_pools, &device->output_pools}) {
      for (std::shared_ptr<BufferPool>& pool : *pools) {
        if (pool != nullptr) std::exchange(pool, nullptr)->close();
      }
    }
    device->arena = device->slots = device->meeting_place = device->inboxes = nullptr;
    device->staging = nullptr;
    device->overlaid = nullptr;
    device->device->memory().unreserve(std::exchange(device->reserved_bytes, 0));
  }
}

}  // namespace gangway
