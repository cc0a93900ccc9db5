#include "executor/host/host_runs.h"

#include <algorithm>
#include <cstring>

#include "runtime/fibers/mailbox.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

// Largest number of ranges that are granted before the devices are rung for the first.
constexpr size_t kGrantsUnrungMax = 8;

bool is_gate(const InstalledPlan& installed, const GrantRange& range) {
  return range.count == 1 && range.slice < installed.plan->slices.size() &&
         installed.positions.gate(range.slice) == range.first;
}

std::vector<std::byte> part_of(const TensorShards& like, const Shard& shard,
                               const std::vector<std::byte>& whole) {
  std::vector<std::byte> part(static_cast<size_t>(like.local.bytes()));
  ShardRuns(like, shard.mesh_device).for_each([&](int64_t global, int64_t local, int64_t bytes) {
    std::memcpy(part.data() + local, whole.data() + global, static_cast<size_t>(bytes));
  });
  return part;
}

// Throws if the client gave an output the name of another output or of an argument of the same run:
// the host finds arrays by their names, so the run would read or fill the wrong one.
void require_new_outputs(const RunFrame& request) {
  std::vector<ArrayId> names = request.outputs;
  std::sort(names.begin(), names.end());
  auto taken = std::adjacent_find(names.begin(), names.end());
  for (const ArgumentFrame& argument : request.arguments) {
    const auto at = std::lower_bound(names.begin(), names.end(), argument.array);
    if (argument.bytes.empty() && at != names.end() && *at == argument.array) taken = at;
  }
  GW_REQUIRE(taken == names.end(), "run ", request.run, ": output array ", *taken,
             ": its name is taken by another of the run's arrays");
}

void require_in_order(const InstalledPlan& installed, const RunSlot& run, const GrantRange& range) {
  const bool whole = range.slice == kEverySlice;
  GW_REQUIRE(whole || range.slice < run.granted.size(), "grant of run ", range.run, ": slice ",
             range.slice, " does not exist");
  const uint32_t all = whole ? installed.positions.total() : installed.positions.count(range.slice);
  const uint32_t next = whole ? run.granted_in_order : run.granted[range.slice];
  GW_REQUIRE(range.first == next && range.count <= all - next, "grant of run ", range.run, " of \"",
             installed.plan->name, "\": expected positions from ", next, " on, of ", all, ", got ",
             range.first, " to ", range.first + range.count - 1);
  const uint32_t gate = whole ? kNone : installed.positions.gate(range.slice);
  GW_REQUIRE(range.count == 1 || gate < range.first || gate - range.first >= range.count,
             "grant of run ", range.run,
             ": expected the gate in a range of its own, got positions ", range.first, " to ",
             range.first + range.count - 1);
  const bool by_slice = std::any_of(run.granted.begin(), run.granted.end(),
                                    [](uint32_t granted) { return granted > 0; });
  GW_REQUIRE(whole ? !by_slice : run.granted_in_order == 0, "grant of run ", range.run,
             ": expected ranges ", by_slice ? "of single slices" : "of all slices at once",
             ", as before");
}

std::shared_ptr<const Error> check_shape(const Plan& facts, const RunFrame& request) {
  if (request.outputs.size() == facts.outputs.size() &&
      request.source_positions.size() == facts.sources.size())
    return nullptr;
  return std::make_shared<const Error>(
      ErrorKind::kInvalid,
      cat("run ", request.run, ": does not fit plan \"", facts.name, "\": expected ",
          facts.outputs.size(), " outputs and ", facts.sources.size(), " source positions, got ",
          request.outputs.size(), " and ", request.source_positions.size()));
}

}  // namespace

HostRuns::HostRuns(Reactor& reactor, HostDevices& devices, HostArrays& arrays, Compiler& compiler,
                   HostEvents& events)
    : reactor_(reactor),
      devices_(devices),
      arrays_(arrays),
      compiler_(compiler),
      events_(events),
      feeder_(std::make_unique<SourceFeeder>(devices.options.name + "/data", reactor.simulated())) {
}

void HostRuns::add(InstalledPlan& installed) {
  for (int64_t slot = 0; slot < installed.plan->runs_in_flight_max; ++slot) {
    auto run = std::make_unique<RunSlot>();
    for (const auto& device : installed.devices) {
      run->devices.push_back(std::make_unique<DeviceRun>(*device, static_cast<uint32_t>(slot),
                                                         reactor_.mailbox(), *this));
    }
    RunSlot& added = *installed.runs.emplace_back(std::move(run));
    for (const auto& device : added.devices) run_of_[device.get()] = {&installed, &added};
  }
}

void HostRuns::drop(InstalledPlan& installed) {
  for (const auto& run : installed.runs) {
    for (const auto& device : run->devices) run_of_.erase(device.get());
  }
  installed.runs.clear();
}

void HostRuns::prepare(InstalledPlan& installed, const PrepareFrame& frame) {
  const RunFrame& request = frame.run;
  GW_REQUIRE(frame.ordinal == installed.prepared, "run ", request.run, " of \"",
             installed.plan->name, "\": expected run number ", installed.prepared,
             " of its plan, got number ", frame.ordinal);
  GW_REQUIRE(!runs_.contains(request.run), "run ", request.run, ": was prepared already");
  if (installed.is_suspended()) return refuse_suspended(installed, request);
  require_new_outputs(request);
  RunSlot& run = *installed.runs[frame.ordinal % installed.runs.size()];
  GW_REQUIRE(run.running == 0, "run ", request.run, " of \"", installed.plan->name,
             "\": expected at most ", installed.runs.size(), " runs in flight");
  run.run = request.run;
  run.running = installed.devices.size();
  run.granted.assign(installed.plan->slices.size(), 0);
  run.granted_in_order = 0;
  run.reported.assign(installed.plan->slices.size(), {});
  std::shared_ptr<const Error> error = check_shape(*installed.plan, request);
  if (error == nullptr) error = check_arguments(installed, request);
  try {
    make_outputs(installed, request);
  } catch (const Error& failure) {
    if (error == nullptr) error = std::make_shared<const Error>(failure);
  }
  run.refused = error != nullptr;
  if (installed.sequential) run.source_positions = request.source_positions;
  for (size_t d = 0; d < installed.devices.size(); ++d) bind(installed, request, d, run, error);
  prepare_nodes(installed, run);
  ++installed.prepared;
  ++installed.active;
  runs_[request.run] = {&installed, &run};
  for (size_t d = 0; d < installed.devices.size(); ++d) {
    DeviceStream& stream = installed.ranks[d].device->stream();
    stream.trace.runs_queued.fetch_add(1, std::memory_order_relaxed);
    stream.enqueue_unrung(*run.devices[d], installed.devices[d]->rank_stream);
    ring_soon(stream);
  }
}

// The plan's memory is not on the devices, so it takes no part in the run. Only this program's run
// fails; other programs are not affected.
void HostRuns::refuse_suspended(InstalledPlan& installed, const RunFrame& request) {
  ++installed.prepared;
  const std::string& name = installed.plan->name;
  events_.run_done({.run = request.run,
                    .error = Error(ErrorKind::kUnavailable,
                                   cat("run of \"", name, "\": its program is suspended"),
                                   {.program = name}, "resume the program, then run again"),
                    .is_origin = true,
                    .refused = true});
}

void HostRuns::grant(const GrantFrame& frame) {
  for (const GrantRange& range : frame.ranges) {
    const auto found = runs_.find(range.run);
    // The gate's ranges, one for each slice, share their ticket. Ranges of a run that has ended
    // here may be its gate's.
    const bool gate = found == runs_.end() ? range.count == 1 : is_gate(*found->second.plan, range);
    const bool same = gate && last_gate_.run == range.run && last_gate_.slice < range.slice;
    take_ticket(range.ticket, "a grant", same);
    if (gate) last_gate_ = {range.run, range.slice};
    last_ticket_ += range.count - 1;
    if (found == runs_.end()) continue;
    auto [installed, run] = found->second;
    require_in_order(*installed, *run, range);
    if (installed->sequential) prepare_granted(*installed, *run, range);
    (range.slice == kEverySlice ? run->granted_in_order : run->granted[range.slice]) += range.count;
    for (size_t d = 0; d < run->devices.size(); ++d) {
      if (run->devices[d]->grant(range)) ring_soon(installed->ranks[d].device->stream());
    }
    if (++grants_unrung_ >= kGrantsUnrungMax) ring_now();
  }
}

// Rings once all frames that came together are handled. Waking a parked device takes longer than
// preparing and granting a run, so a device is woken once for all of them, and not at all if their
// work is brief.
void HostRuns::ring_soon(DeviceStream& stream) {
  if (to_ring_.empty()) {
    reactor_.mailbox().post([this, guard = alive] {
      if (*guard) serve_or_ring_now();
    });
  }
  if (std::find(to_ring_.begin(), to_ring_.end(), &stream) == to_ring_.end())
    to_ring_.push_back(&stream);
}

void HostRuns::ring_now() {
  for (DeviceStream* stream : to_ring_) stream->ring();
  to_ring_.clear();
  grants_unrung_ = 0;
}

// Work that is brief on all of these devices together is done here, outside fibers, whose stacks
// are small.
void HostRuns::serve_or_ring_now() {
  int64_t left_ns = kBriefNs;
  for (DeviceStream* stream : to_ring_) left_ns -= stream->serve_or_ring(left_ns);
  to_ring_.clear();
  grants_unrung_ = 0;
}

void HostRuns::take_ticket(Ticket ticket, const char* what, bool same) {
  GW_REQUIRE(ticket.value > last_ticket_ || (same && ticket.value == last_ticket_), what,
             ": expected a ticket above ", last_ticket_, ", got ", ticket);
  last_ticket_ = ticket.value;
  last_gate_ = {};
}

// Does all host-side work of the run, for all its nodes at once. For a plan that is dispatched
// sequentially it is done node by node, when they are granted.
void HostRuns::prepare_nodes(InstalledPlan& installed, RunSlot& run) {
  if (installed.sequential) return;
  // Most entries are the same in every run; a trace shows all nodes.
  if (internal::trace_buffer() == nullptr) {
    for (size_t d = 0; d < installed.devices.size(); ++d) {
      const LaidOutShare& share = installed.shares[d];
      for (uint32_t e : share.patched) run.devices[d]->fill_frame(share.entries[e]);
    }
    return;
  }
  for (uint32_t n = 0; n < installed.plan->nodes.size(); ++n) fill_frames(installed, run, n);
}

void HostRuns::fill_frames(const InstalledPlan& installed, RunSlot& run, uint32_t node) {
  // The trace does not begin an arrow that no span ends (DeviceRun::record_span).
  const auto has_entries = [node](const LaidOutShare& share) {
    return share.entries_end[node] > (node == 0 ? 0 : share.entries_end[node - 1]);
  };
  const bool begins = internal::trace_buffer() != nullptr && !installed.sequential &&
                      std::ranges::any_of(installed.shares, has_entries);
  TraceSpan span("enqueue", run.run.value, node,
                 begins ? TraceMark::kNodeEnqueued : TraceMark::kSpan,
                 begins ? installed.ranks[0].device->stream().trace.host : 0);
  for (size_t d = 0; d < installed.devices.size(); ++d) {
    const LaidOutShare& share = installed.shares[d];
    for (uint32_t e = node == 0 ? 0 : share.entries_end[node - 1]; e < share.entries_end[node]; ++e)
      run.devices[d]->fill_frame(share.entries[e]);
  }
}

std::shared_ptr<const Error> HostRuns::check_arguments(const InstalledPlan& installed,
                                                       const RunFrame& request) const {
  const Plan& facts = *installed.plan;
  std::vector<bool> given(facts.inputs.size(), false);
  const auto fail = [&](uint32_t input, const std::string& text) {
    return std::make_shared<const Error>(ErrorKind::kInvalid,
                                         cat("run of \"", facts.name, "\": input \"",
                                             facts.values[facts.inputs[input]].name, "\": ", text));
  };
  for (const ArgumentFrame& argument : request.arguments) {
    if (argument.input >= facts.inputs.size())
      return std::make_shared<const Error>(
          ErrorKind::kInvalid, cat("run of \"", facts.name, "\": has no input ", argument.input));
    if (given[argument.input]) return fail(argument.input, "is given twice");
    given[argument.input] = true;
    const TensorShards& like = installed.shards[facts.inputs[argument.input]];
    if (!argument.bytes.empty()) {
      const auto bytes = static_cast<int64_t>(argument.bytes.size());
      if (bytes != like.type.bytes() || argument.bytes.size() > kInlineBytesMax)
        return fail(argument.input, cat("expected ", to_string(like.type), ", got ",
                                        argument.bytes.size(), " bytes"));
      continue;
    }
    const TensorShards* found = arrays_.find(argument.array);
    if (like.shards.empty()) continue;
    if (found == nullptr)
      return fail(argument.input, cat("array ", argument.array, " is not here"));
    if (found->type != like.type || !found->same_placement(like))
      return fail(argument.input,
                  cat("expected ", to_string(like.type), " placed ",
                      to_string(like.mesh, like.sharding), ", got ", to_string(found->type),
                      " placed ", to_string(found->mesh, found->sharding)));
  }
  for (uint32_t i = 0; i < given.size(); ++i) {
    if (!given[i]) return fail(i, "no argument was given");
  }
  return nullptr;
}

// Creates the arrays that the run will fill; they can be asked for, or given to other runs, before
// it has begun.
void HostRuns::make_outputs(InstalledPlan& installed, const RunFrame& request) {
  const size_t outputs = std::min(request.outputs.size(), installed.plan->outputs.size());
  for (uint32_t o = 0; o < outputs; ++o) {
    TensorShards tensor = installed.shards[installed.plan->outputs[o]];
    for (const auto& device : installed.devices) {
      const auto& pool = device->memory->output_pools[o];
      if (pool == nullptr) continue;
      for (Shard& shard : tensor.shards) {
        if (!device->laid.holds(shard)) continue;
        shard.buffer = pool->take();
        shard.buffer->pending = true;
      }
    }
    arrays_.add(request.outputs[o], std::move(tensor));
  }
}

void HostRuns::bind(InstalledPlan& installed, const RunFrame& request, size_t d, RunSlot& run,
                    const std::shared_ptr<const Error>& error) {
  const Member& member = installed.ranks[d].member;
  const Plan& facts = *installed.plan;
  DeviceRun::Inputs inputs;
  inputs.run = request.run;
  inputs.after = request.after;
  inputs.number = installed.prepared;
  inputs.error = error;
  inputs.arguments.resize(facts.inputs.size());
  inputs.inline_bytes.resize(facts.inputs.size(), nullptr);
  inputs.outputs.resize(facts.outputs.size());
  inputs.sources.resize(facts.sources.size());
  if (error == nullptr) bind_arguments(installed, request, member, run, inputs);
  for (const DeviceOutput& output : installed.shares[d].outputs) {
    if (output.output >= request.outputs.size()) continue;
    const TensorShards* found = arrays_.find(request.outputs[output.output]);
    const Shard* shard = found == nullptr ? nullptr : found->on(member.device, member.rank);
    if (shard != nullptr) inputs.outputs[output.output] = shard->buffer;
  }
  for (uint32_t s = 0; s < facts.sources.size() && error == nullptr && !installed.sequential; ++s)
    inputs.sources[s] = fill_source(installed, d, *run.devices[d], s, request.source_positions[s]);
  run.devices[d]->bind(std::move(inputs));
}

void HostRuns::bind_arguments(const InstalledPlan& installed, const RunFrame& request,
                              const Member& member, RunSlot& run, DeviceRun::Inputs& inputs) const {
  for (const ArgumentFrame& argument : request.arguments) {
    if (!argument.bytes.empty()) {
      const TensorShards& like = installed.shards[installed.plan->inputs[argument.input]];
      const Shard* here = like.on(member.device, member.rank);
      if (here == nullptr) continue;
      const bool whole = like.local == like.type;
      if (!whole) run.parts.push_back(part_of(like, *here, argument.bytes));
      inputs.inline_bytes[argument.input] = whole ? &argument.bytes : &run.parts.back();
    } else if (const TensorShards* found = arrays_.find(argument.array)) {
      const Shard* shard = found->on(member.device, member.rank);
      if (shard != nullptr) inputs.arguments[argument.input] = shard->buffer;
    }
  }
}

EventPtr HostRuns::fill_source(InstalledPlan& installed, size_t d, DeviceRun& run, uint32_t source,
                               uint64_t position) {
  const LaidOutShare& share = installed.shares[d];
  const uint32_t value = installed.plan->nodes[installed.plan->sources[source]].results[0];
  if (installed.sources[source] == nullptr) return nullptr;  // No device here reads it.
  if (share.layout.values[value].kind == ValuePlace::Kind::kAbsent) return nullptr;
  auto filled = std::make_shared<Event>();
  filled->on_ready([&stream = share.device->stream()] { stream.ring(); });
  share.device->memory().host_access(HostAccess::kWrite, run.staging_data(value),
                                     installed.shards[value].local.bytes());
  feeder_->fill({installed.sources[source].get(), position, &share.source_parts[source],
                 run.staging_data(value), filled});
  return filled;
}

// Ends all runs of the plan where they are; later ones end at once too. A run would wait for the
// lost peer for ever, and a later one could not use the counters that the peer left halfway through
// a collective. The newest run is ended first, so that no device goes from an ended run to one that
// is not ended yet.
void HostRuns::give_up(InstalledPlan& installed, const std::shared_ptr<const Error>& error) {
  const size_t slots = installed.runs.size();
  for (size_t back = 1; back <= slots; ++back) {
    for (const auto& device :
         installed.runs[(installed.prepared + slots - back) % slots]->devices) {
      if (device->active() && error != nullptr) device->cancel(error);
      device->abandon();
    }
  }
  if (installed.active > 0) raise_aborts(installed);
  for (const PlanRank& rank : installed.ranks) rank.device->stream().ring();
}

// A device may already be past the point where it checks whether its run has ended, and wait for
// its card, which waits for another card inside a communicator.
void HostRuns::raise_aborts(const InstalledPlan& installed) {
  for (const LinkedShare& share : installed.links.shares) {
    for (const auto& collective : share.collectives)
      collective->raise_abort(Collective::kEverything);
  }
}

void HostRuns::cancel(RunId id, ErrorKind kind, const std::string& why) {
  const auto found = runs_.find(id);
  if (found == runs_.end()) return;
  const auto error = std::make_shared<const Error>(kind, why);
  const auto [installed, run] = found->second;
  if (kind == ErrorKind::kUnavailable) return give_up(*installed, error);
  for (const auto& device : run->devices) device->cancel(error);
}

void HostRuns::device_done(DeviceRun& device) {
  auto found = run_of_.find(&device);
  GW_ASSERT(found != run_of_.end(), "a run that nobody knows has finished");
  auto [installed, run] = found->second;
  if (--run->running > 0) return;
  run_done(*installed, *run);
}

void HostRuns::sections_ended(DeviceRun& device) {
  device.news_reported();
  RunSlot& run = *run_of_.at(&device).run;
  ProgressFrame news{news_of(run)};
  if (!news.times.empty()) events_.progress(std::move(news));
}

// A section has ended when it has ended on all devices of this host. They are mostly in step, so
// the device that was busy longest shows how long the section took; its time sums up those of its
// ranks, which take turns. A run that was given up behind its gate commits without tickets. Nothing
// is reported for it, since the controller has not granted it.
std::vector<SectionTime> HostRuns::news_of(RunSlot& run) {
  std::vector<SectionTime> now(run.reported.size());
  std::vector<int64_t> device_busy_ns(now.size(), 0);  // Sum over the ranks so far.
  for (const auto& device : run.devices) {
    if (device->abandoned()) return {};
    const std::vector<ReportedSlice>& slices = device->share().reported_slices;
    for (size_t i = 0; i < slices.size(); ++i) {
      SectionTime& time = now[slices[i].slice];
      const uint32_t ended = device->positions_ended(i);
      time.position_end = time.run == RunId() ? ended : std::min(time.position_end, ended);
      int64_t& busy_ns = device_busy_ns[slices[i].slice];
      busy_ns = device->busy_ns(i) + (device->share().member.rank == 0 ? 0 : busy_ns);
      time.busy_ns = std::max(time.busy_ns, busy_ns);
      time.run = run.run;
    }
  }
  std::vector<SectionTime> news;
  for (uint32_t s = 0; s < now.size(); ++s) {
    SectionTime& reported = run.reported[s];
    if (now[s].position_end <= reported.position_end) continue;
    news.push_back({.run = run.run,
                    .slice = s,
                    .position_end = now[s].position_end,
                    .busy_ns = std::max<int64_t>(0, now[s].busy_ns - reported.busy_ns)});
    reported = now[s];
  }
  return news;
}

void HostRuns::compile_unfused(const LaidOutShare& share, const std::shared_ptr<CompileJob>& job) {
  add_unfused(share, *job);
  compiler_.compile(job);
}

void HostRuns::run_done(InstalledPlan& installed, RunSlot& run) {
  RunDoneFrame done{.run = run.run};
  done.times = news_of(run);
  // The device that raised the error, if it is one of this host's.
  const DeviceRun* failed = nullptr;
  for (const auto& device : run.devices) {
    if (device->error() == nullptr) continue;
    if (failed == nullptr || (device->is_origin() && !failed->is_origin())) failed = device.get();
  }
  if (failed != nullptr) {
    done.error = *failed->error();
    done.error->add_where({.program = installed.plan->name, .host = devices_.options.name});
    done.is_origin = failed->is_origin();
  } else {
    for (const auto& device : run.devices) {
      for (const DeviceOutput& output : device->share().outputs) {
        if (!output.small) continue;
        const auto bytes = device->small_output(output.output);
        done.outputs.push_back({output.output, {bytes.begin(), bytes.end()}});
      }
    }
  }
  runs_.erase(run.run);
  --installed.active;
  run.parts.clear();
  run.source_positions.clear();
  for (const auto& device : run.devices) device->release();
  events_.run_done(std::move(done));
  run_ended();
}

}  // namespace gangway
