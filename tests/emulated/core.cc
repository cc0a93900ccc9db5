#include "tests/emulated/core.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/emulated/kernels.h"

namespace gangway::emulated {

const void* this_thread() {
  static thread_local char here;
  return &here;
}

Core::Core(EmulatedOptions chosen)
    : options(std::move(chosen)),
      rng(options.seed),
      devices(options.devices),
      blocks(rng, reports) {
  add_lane(0, "host");
  for (const auto* table : own_kernels()) {
    for (size_t i = 0; i < table->count; ++i) kernels.push_back(&table->kernels[i]);
  }
  for (const auto* table : options.kernels) {
    for (size_t i = 0; i < table->count; ++i) kernels.push_back(&table->kernels[i]);
  }
  for (uint32_t d = 0; d < options.devices; ++d) drivers.push_back(make_driver(*this, d));
  if (!options.background) return;
  background = Thread("emulated-gpu", [this] {
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (!step()) changed.wait(lock);
    }
  });
}

Core::~Core() {
  {
    const std::lock_guard lock(mutex);
    stopping = true;
    changed.notify_all();
  }
  if (background.joinable()) background.join();
}

Lane& Core::add_lane(uint32_t device, std::string name) {
  lanes.push_back(std::make_unique<Lane>());
  Lane& made = *lanes.back();
  made.id = static_cast<uint32_t>(lanes.size() - 1);
  made.device = device;
  made.name = std::move(name);
  return made;
}

Lane* Core::lane(cuda::StreamHandle stream) {
  return stream.bits == 0 || stream.bits >= lanes.size() ? nullptr : lanes[stream.bits].get();
}

uint32_t Core::label_of(std::string text) {
  const auto [at, made] = label_index.emplace(text, static_cast<uint32_t>(labels.size()));
  if (made) labels.push_back(std::move(text));
  return at->second;
}

void Core::report(Fault fault, std::string label, std::string text, std::string first) {
  reports.add(fault, std::move(first), std::move(label), std::move(text));
}

void Core::submit(Lane& to, const Work& work, bool faulty) {
  to.clock.join(host_clock);
  const Stamp stamp{to.id, to.clock.advance(to.id), label_of(work.label)};
  bool sound = true;
  for (const Access& access : work.accesses) sound = check(access, to.clock, stamp) && sound;
  Operation operation = work.make();
  operation.label = stamp.label;
  operation.faulty = faulty;
  for (const Access& access : work.accesses) {
    if (access.kind != AccessKind::kRead) operation.writes.push_back(access);
  }
  if (!sound) operation.run = nullptr;
  to.queue.push_back(std::move(operation));
  changed.notify_all();
}

PointPtr Core::record(Lane& in, std::string label) {
  auto point = std::make_shared<Point>();
  submit(in, {std::move(label), {}, [&] {
                return Operation{.run =
                                     [this, point, device = in.device] {
                                       point->done = true;
                                       point->time = operations_run;
                                       point->status = devices[device].lost;
                                       changed.notify_all();
                                       return Status{};
                                     },
                                 .even_when_lost = true};
              }});
  point->clock = in.clock;
  return point;
}

void Core::wait(Lane& in, PointPtr point, std::string label) {
  if (!lost_waits.empty() && label.find(lost_waits) != label.npos) return;
  in.clock.join(point->clock);
  submit(in, {std::move(label), {}, [&] {
                return Operation{.ready = [point] { return point->done; }};
              }});
}

// Each lane of the graph begins after the launching one and ends before it goes on.
void Core::launch(Lane& from, Graph& graph, const std::string& label) {
  const PointPtr begin = record(from, label);
  for (Lane* each : graph.lanes) wait(*each, begin, label);
  std::vector<PointPtr> points(graph.points);
  for (const Command& command : graph.commands) {
    Lane& to = *graph.lanes[command.lane];
    switch (command.kind) {
      case Command::kWork: submit(to, command.work); break;
      case Command::kRecord: points[command.point] = record(to, label); break;
      case Command::kWait: wait(to, points[command.point], label); break;
    }
  }
  for (Lane* each : graph.lanes) wait(from, record(*each, label), label);
  graph.last = {from.id, from.clock.at(from.id), label_of(label)};
}

bool Core::step(bool may_call_back) {
  std::vector<Lane*> able;
  for (const auto& each : lanes) {
    if (each->queue.empty() || is_held(each->queue.front())) continue;
    const Operation& next = each->queue.front();
    if (next.calls_back && !may_call_back) continue;
    const bool lost = !devices[each->device].lost.ok();
    if (lost || !next.ready || next.ready()) able.push_back(each.get());
  }
  if (able.empty()) return false;
  Lane& chosen = *able[rng.below(able.size())];
  Operation next = std::move(chosen.queue.front());
  chosen.queue.pop_front();
  ++operations_run;
  ++ran[next.label];
  const bool lost = !devices[chosen.device].lost.ok();
  if (next.run && !next.faulty && (!lost || next.even_when_lost)) {
    const Status status = next.run();
    if (status.sticky) lose(chosen.device, status);
  } else if (next.run) {
    for (const Access& access : next.writes) spoil(access);
    if (!lost) lose(chosen.device, {StatusKind::kFault, true, labels[next.label]});
  }
  changed.notify_all();
  return true;
}

void Core::lose(uint32_t device, Status status) {
  if (devices[device].lost.ok()) devices[device].lost = std::move(status);
}

// Runs a random number of operations, as a device may go on while the host does something else.
void Core::advance_some() {
  if (options.background || in_callback) return;
  if (rng.below(2) == 0) return;
  for (uint64_t steps = rng.below(6); steps > 0 && step(!options.late_callbacks); --steps) {
  }
}

bool Core::run_until(const std::function<bool()>& done,
                     std::unique_lock<std::recursive_mutex>& lock) {
  while (!done()) {
    if (options.background) {
      changed.wait(lock);
    } else if (!step(!options.late_callbacks) && !step()) {
      return false;
    }
  }
  return true;
}

bool Core::check(const Access& access, const VectorClock& clock, Stamp stamp) {
  if (access.bytes <= 0) return true;
  const std::string& label = labels[stamp.label];
  Allocation* in = memory.find(access.data);
  if (in == nullptr) {
    if (memory.is_device(access.data)) {
      report(Fault::kBounds, label, "touches device memory that was never allocated");
    } else {
      report(Fault::kPageable, label, "touches host memory that is not pinned");
    }
    return false;
  }
  if (in->freed) {
    report(Fault::kAfterFree, label, cat("touches \"", in->label, "\" after it was freed"),
           in->freed_by);
    return false;
  }
  const int64_t begin = static_cast<const std::byte*>(access.data) - in->base;
  const int64_t end = begin + access.bytes;
  if (end > in->bytes) {
    report(Fault::kBounds, label,
           cat("touches bytes [", begin, ", ", end, ") of \"", in->label, "\", which has ",
               in->bytes));
    return false;
  }
  const bool writes = access.kind != AccessKind::kRead;
  const auto conflict = in->shadow.access(begin, end, writes, stamp, clock);
  if (conflict) {
    report(Fault::kUnordered, label,
           cat(writes ? "writes" : "reads", " \"", in->label, "\" at byte ", conflict->begin,
               " while another operation may ", conflict->earlier_wrote ? "write" : "read", " it"),
           labels[conflict->earlier.label]);
  }
  return true;
}

std::byte* Core::bytes_at(const void* address) const {
  const Allocation* in = memory.find(address);
  if (in == nullptr || in->data == nullptr) return nullptr;
  return in->data + (static_cast<const std::byte*>(address) - in->base);
}

bool Core::check_initialised(const void* data, int64_t bytes, const std::string& label) {
  if (bytes <= 0) return true;
  const Allocation* in = memory.find(data);
  if (in == nullptr || in->data == nullptr) return false;
  const auto begin = in->initialised.begin() + (static_cast<const std::byte*>(data) - in->base);
  const auto hole = std::find(begin, begin + bytes, 0);
  if (hole == begin + bytes) return true;
  report(Fault::kUninitialised, label,
         cat("reads \"", in->label, "\" at byte ", hole - in->initialised.begin(),
             ", which nothing has written"));
  return false;
}

void Core::mark_initialised(const void* address, int64_t bytes) {
  Allocation* in = memory.find(address);
  if (in == nullptr || in->data == nullptr || bytes <= 0) return;
  const auto begin = in->initialised.begin() + (static_cast<const std::byte*>(address) - in->base);
  std::fill_n(begin, bytes, uint8_t{1});
}

void Core::spoil(const Access& access) {
  std::byte* const data = access.kind == AccessKind::kRead ? nullptr : bytes_at(access.data);
  if (data == nullptr || access.bytes <= 0) return;
  std::memset(data, 0xFF, static_cast<size_t>(access.bytes));
  mark_initialised(access.data, access.bytes);
}

uint64_t Core::ran_with(const std::string& label) const {
  uint64_t count = 0;
  for (const auto& [index, times] : ran) {
    if (labels[index].find(label) != std::string::npos) count += times;
  }
  return count;
}

bool Core::is_held(const Operation& operation) const {
  return !held.empty() && labels[operation.label].find(held) != std::string::npos;
}

bool Core::take_injection(StatusKind kind, std::string_view label) {
  for (auto it = injections.begin(); it != injections.end(); ++it) {
    if (it->kind != kind || label.find(it->label) == label.npos) continue;
    if (it->skip > 0) {
      --it->skip;
      continue;
    }
    injections.erase(it);
    return true;
  }
  return false;
}

EmulatedMachine::EmulatedMachine(EmulatedOptions options)
    : core_(std::make_unique<Core>(std::move(options))) {}
EmulatedMachine::~EmulatedMachine() = default;

cuda::Driver& EmulatedMachine::driver(uint32_t device) { return *core_->drivers.at(device); }

bool EmulatedMachine::step() {
  const std::lock_guard lock(core_->mutex);
  return core_->step();
}

void EmulatedMachine::run_all() {
  while (step()) {
  }
}

void EmulatedMachine::inject(Injection injection) {
  const std::lock_guard lock(core_->mutex);
  core_->injections.push_back(std::move(injection));
}

void EmulatedMachine::hold(std::string label) {
  const std::lock_guard lock(core_->mutex);
  core_->held = std::move(label);
}

void EmulatedMachine::release() {
  const std::lock_guard lock(core_->mutex);
  core_->held.clear();
  core_->changed.notify_all();
}

uint64_t EmulatedMachine::ran(const std::string& label) const {
  const std::lock_guard lock(core_->mutex);
  return core_->ran_with(label);
}

bool EmulatedMachine::wait_until_ran(const std::string& label) const {
  constexpr std::chrono::seconds kLimit{30};
  std::unique_lock lock(core_->mutex);
  return core_->changed.wait_for(lock, kLimit, [&] { return core_->ran_with(label) > 0; });
}

void EmulatedMachine::lose_waits(std::string label) {
  const std::lock_guard lock(core_->mutex);
  core_->lost_waits = std::move(label);
}

std::vector<Report> EmulatedMachine::reports() const {
  const std::lock_guard lock(core_->mutex);
  return core_->reports.list();
}

std::string EmulatedMachine::report_text() const {
  std::string text;
  for (const Report& report : reports()) text += report.text + "\n";
  return text;
}

uint64_t EmulatedMachine::communicators_made() const {
  const std::lock_guard lock(core_->mutex);
  return core_->communicators_made;
}

uint64_t EmulatedMachine::communicators_aborted() const {
  const std::lock_guard lock(core_->mutex);
  return core_->communicators_aborted;
}

uint64_t EmulatedMachine::operations_run() const {
  const std::lock_guard lock(core_->mutex);
  return core_->operations_run;
}

}  // namespace gangway::emulated
