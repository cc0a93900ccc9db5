#include "tests/sim/chaos_client.h"

#include <algorithm>

namespace gangway {
namespace {

constexpr int kActions = 25;  // Number of actions of each client.
constexpr int64_t kTimeLimitMs = 1;

// One call adds x, whose sum over all devices is 1, to the state "count", and outputs the state.
// The output of the call before is the same number, and is mixed in.
std::shared_ptr<const Function> counting(const std::string& name, const Mesh& mesh,
                                         int64_t microseconds, bool first) {
  Builder b(name, mesh);
  Value count = b.parameter("count", f32({8}));
  Value x = b.parameter("x", f32({mesh.devices(), 8}), {{"data", shard(0)}});
  Value next = count + timed(sum(x, {0}), microseconds);
  Value told = mean(next);
  if (!first) told = (told + b.parameter("before", f32())) * 0.5;
  b.result("next", next);
  b.result("told", told);
  return std::make_shared<Function>(b.build());
}

// One call outputs its input, times the sum of x.
std::shared_ptr<const Function> passing(const std::string& name, const Mesh& mesh,
                                        int64_t microseconds) {
  Builder b(name, mesh);
  Value x = b.parameter("x", f32({mesh.devices(), 8}), {{"data", shard(0)}});
  Value before = b.parameter("before", f32());
  b.result("told", mean(timed(sum(x, {0}), microseconds)) * before);
  return std::make_shared<Function>(b.build());
}

// A program on one slice, or on two with a transfer from the first to the second.
Program chaos_program(int64_t devices, const std::vector<int64_t>& microseconds, bool counts) {
  const Mesh mesh{{{"data", devices}}};
  ProgramBuilder b(counts ? "count" : "pass", mesh);
  std::vector<ProgramValue> told;
  for (size_t s = 0; s < microseconds.size(); ++s) {
    const uint32_t slice = s == 0 ? 0 : b.slice("second", mesh);
    const std::string step = cat("step", s);
    const ProgramValue x = b.input_on(slice, cat("x", s), f32({devices, 8}), {{"data", shard(0)}});
    if (!counts) {
      const ProgramValue before =
          s == 0 ? b.input_on(slice, "number", f32()) : b.transfer(told.back(), slice);
      told.push_back(b.call(slice, step, passing(step, mesh, microseconds[s]), {x, before})[0]);
      continue;
    }
    const ProgramValue count = b.state_on(slice, cat("count", s), zeros(f32({8})));
    std::vector<ProgramValue> arguments = {count, x};
    if (s > 0) arguments.push_back(b.transfer(told.back(), slice));
    told.push_back(b.call(slice, step, counting(step, mesh, microseconds[s], s == 0), arguments,
                          {{0, count.edge.node}})[1]);
  }
  for (size_t s = 0; s < told.size(); ++s) b.output_of(cat("told", s), told[s]);
  return b.build();
}

HostTensor parts_of_one(int64_t devices) {
  const auto part = 1.0f / static_cast<float>(devices);
  return HostTensor::of<float>({devices, 8},
                               std::vector<float>(static_cast<size_t>(devices) * 8, part));
}

}  // namespace

bool ChaosClient::is_hit_by(const Fault& fault) const {
  if (fault.client) return *fault.client == number_;
  if (fault.kind == FaultKind::kStopController || hosts_.empty()) return true;
  return hosts_.contains(SimCluster::host_name(fault.host));
}

void ChaosClient::live() {
  std::optional<Client> client;
  try {
    client.emplace(cluster_.connect(name()));
    work(*client);
  } catch (const Error& why) {
    met(why);
  }
  last_.clear();
  if (client) client->close();
}

void ChaosClient::work(const Client& client) {
  const auto all = static_cast<uint64_t>(cluster_.options().hosts) *
                   static_cast<uint64_t>(cluster_.options().devices_per_host);
  counts_ = rng_.chance(0.7);
  if (rng_.chance(0.3)) waits_for_each_ = true;
  slices_ = counts_ ? 1 + static_cast<int>(rng_.below(2)) : 2;
  const auto devices = static_cast<int64_t>(std::max<uint64_t>(all >> rng_.below(3), 1));
  std::vector<Slice> slices;
  for (int s = 0; s < slices_; ++s) slices.push_back(client.allocate({.devices = devices}));
  std::vector<int64_t> microseconds;
  for (int s = 0; s < slices_; ++s)
    microseconds.push_back(static_cast<int64_t>(50 + rng_.below(1000)));
  const Executable program =
      slices[0].compile(chaos_program(devices, microseconds, counts_),
                        std::vector<Slice>(slices.begin() + 1, slices.end()),
                        {.runs_in_flight_max = 1 + static_cast<int64_t>(rng_.below(4))});
  for (const MemoryReport::Device& device : program.memory().devices) hosts_.insert(device.host);
  x_ = parts_of_one(devices);
  array_ = slices[0].from_host(x_);
  for (int i = 0; i < kActions && !error && !died_; ++i) act(program, slices[0]);
  while (!last_.empty()) wait_for_oldest();
  expect_no_runs_left();
  array_ = {};
}

void ChaosClient::act(const Executable& program, const Slice& slice) {
  const uint64_t draw = rng_.below(100);
  if (draw < 10 && !last_.empty()) return wait_for_oldest();
  if (draw < 18 && !last_.empty()) return cancel_last();
  if (draw < 24 && counts_) return read_state(slice);
  if (draw == 99) return die();
  submit(program, slice);
  while (waits_for_each_ && !last_.empty()) wait_for_oldest();
}

// Submits a run, with or without a time limit. Its input is a tensor, an array that stays, or an
// array that nobody else holds.
void ChaosClient::submit(const Executable& program, const Slice& slice) {
  const uint64_t draw = rng_.below(100);
  const Array given = draw < 25 ? slice.from_host(x_) : array_;
  std::vector<Argument> arguments;
  for (int s = 0; s < slices_; ++s)
    arguments.push_back(draw < 50 && draw >= 25 ? Argument{cat("x", s), x_}
                                                : Argument{cat("x", s), given});
  ++runs;
  if (!counts_) arguments.push_back({"number", HostTensor::of<float>({}, {float(runs)})});
  const bool is_limited = rng_.chance(0.1);
  try {
    last_.push_back(
        {program.run(arguments, {.time_limit_ms = is_limited ? kTimeLimitMs : 0}), runs});
  } catch (const Error& why) {
    // The client learns here of a cancelled run, since it has not waited for any run of its chain.
    if (why.kind() != ErrorKind::kCancelled) throw;
    --runs;
    return;
  }
  if (is_limited) await_end(last_.back().run);
}

void ChaosClient::cancel_last() {
  last_.back().run.cancel();
  await_end(last_.back().run);
}

// Mostly the client waits for the end of a run that it stopped before it goes on. It checks the
// outcome in the run's turn.
void ChaosClient::await_end(const Run& run) {
  if (rng_.chance(0.2)) return;
  try {
    run.wait();
  } catch (const Error&) {
    return;
  }
}

// Dies as if its process were killed: the client does not come back within its lease.
void ChaosClient::die() {
  died_ = true;
  cluster_.cut_off_client(name());
}

void ChaosClient::wait_for_oldest() {
  const Open open = last_.front();
  last_.pop_front();
  try {
    open.run.wait();
    ++done;
    for (int s = 0; s < slices_; ++s)
      expect_value(open.run[cat("told", s)].item<float>(), counts_ ? done : open.number,
                   cat("output told", s));
  } catch (const Error& why) {
    if (why.kind() != ErrorKind::kCancelled) met(why);
  }
}

// Reads the state after all runs so far.
void ChaosClient::read_state(const Slice& slice) {
  while (!last_.empty()) wait_for_oldest();
  if (error) return;
  try {
    expect_value(slice.read_state("count0").as<float>()[7], done, "state count0");
  } catch (const Error& why) {
    met(why);
  }
}

void ChaosClient::expect_value(float got, int expected, const std::string& what) {
  if (error || died_ || got == static_cast<float>(expected)) return;
  problems.push_back(cat(name(), ": ", what, ": expected ", expected, ", got ", got));
}

// All runs of the client have ended, so none may count against its credits.
void ChaosClient::expect_no_runs_left() {
  if (error || died_) return;
  for (const ProgramCounts& program : cluster_.controller.controller().program_counts()) {
    if (program.name != name() || program.credits_used == 0) continue;
    problems.push_back(
        cat(name(), ": ", program.credits_used, " of its credits are used for ever"));
  }
}

void ChaosClient::met(const Error& why) {
  if (error || died_) return;
  error = why;
  error_at_ns = reactor_.clock().now_ns();
}

}  // namespace gangway
