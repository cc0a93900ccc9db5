// Core: the state of an emulated machine: lanes of operations, clocks, memory and reports.
//
// Threads: `mutex` guards all members, and a running operation keeps it. It is recursive so that a
// notify() function that calls the driver is reported instead of hanging.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/os/thread.h"
#include "tests/emulated/block.h"
#include "tests/emulated/machine.h"
#include "tests/emulated/memory.h"

namespace gangway::emulated {

using cuda::Access;
using cuda::AccessKind;
using cuda::Status;
using cuda::StatusKind;

struct Capture;
struct Group;

// A place in a lane that the host or other lanes wait for.
struct Point {
  bool done = false;
  Status status;
  VectorClock clock;
  uint64_t time = 0;
  std::shared_ptr<Capture> capture;  // Null, or the capture of a point that is never done itself.
  uint32_t index = 0;
};
using PointPtr = std::shared_ptr<Point>;

struct Operation {
  std::function<bool()> ready;  // Empty: the operation is ready at once.
  std::function<Status()> run;  // Empty: the operation does nothing.
  bool even_when_lost = false;
  bool faulty = false;
  bool calls_back = false;
  std::vector<Access> writes = {};
  uint32_t label = 0;
};

// A call's work. It is enqueued once, or at each launch of the graph that captured it.
struct Work {
  std::string label;
  std::vector<Access> accesses;
  std::function<Operation()> make;
};

struct Lane {
  uint32_t id = 0;
  uint32_t device = 0;
  std::string name;
  std::deque<Operation> queue;
  VectorClock clock;
  std::shared_ptr<Capture> capture;
  uint32_t capture_index = 0;
};

struct Command {
  enum Kind : uint8_t { kWork, kRecord, kWait };
  Kind kind = kWork;
  uint32_t lane = 0;   // An index into the capture's lanes.
  uint32_t point = 0;  // The point that the command records or waits for.
  Work work;
};

struct Capture {
  std::vector<Lane*> lanes;  // The capture began in the first.
  std::vector<Command> commands;
  std::vector<VectorClock> clocks, points;
  bool active = true;
};

struct Graph {
  std::vector<Command> commands;
  std::vector<Lane*> lanes;
  uint32_t points = 0;
  Stamp last;  // The end of its last launch.
};

struct DeviceState {
  Status lost;
  // Threads of the host that got the error of the lost device. Only their later calls are mistakes.
  std::set<const void*> told;
  int64_t in_use = 0, peak = 0;
  Lane* comm_lane = nullptr;
};

// An address that differs for each thread.
const void* this_thread();

struct Core {
  explicit Core(EmulatedOptions chosen);
  ~Core();

  // Lanes and operations.
  Lane& add_lane(uint32_t device, std::string name);
  Lane* lane(cuda::StreamHandle stream);
  void submit(Lane& lane, const Work& work, bool faulty = false);
  PointPtr record(Lane& lane, std::string label);
  void wait(Lane& lane, PointPtr point, std::string label);
  void launch(Lane& lane, Graph& graph, const std::string& label);
  bool step(bool may_call_back = true);
  void advance_some();
  // Runs operations until `done` holds. False: none is left to run, and it does not hold.
  bool run_until(const std::function<bool()>& done, std::unique_lock<std::recursive_mutex>& lock);
  void lose(uint32_t device, Status status);

  // Checks and reports.
  uint32_t label_of(std::string text);
  void report(Fault fault, std::string label, std::string text, std::string first = {});
  // False: the operation must not run.
  bool check(const Access& access, const VectorClock& clock, Stamp stamp);
  bool check_initialised(const void* data, int64_t bytes, const std::string& label);
  // The bytes behind an address that programs know. Null if they were freed.
  std::byte* bytes_at(const void* address) const;
  void mark_initialised(const void* address, int64_t bytes);
  // Overwrites the range of an operation that ended half-way: its contents are undefined.
  void spoil(const Access& access);
  bool is_held(const Operation& operation) const;
  uint64_t ran_with(const std::string& label) const;
  bool take_injection(StatusKind kind, std::string_view label);

  const EmulatedOptions options;
  mutable std::recursive_mutex mutex;
  std::condition_variable_any changed;
  Rng rng;
  Memory memory;
  Reports reports;
  std::vector<std::string> labels;
  std::map<std::string, uint32_t> label_index;
  std::vector<std::unique_ptr<Lane>> lanes;  // Index: lane id; 0 is the host.
  VectorClock host_clock;
  std::vector<DeviceState> devices;
  std::vector<Injection> injections;
  std::string held, lost_waits;      // Labels of operations; empty: none.
  std::map<uint32_t, uint64_t> ran;  // Number of operations that have run, by label.
  uint64_t operations_run = 0;
  uint64_t communicators_made = 0, communicators_aborted = 0;
  bool in_callback = false;

  std::vector<PointPtr> events;  // Index: handle - 1. Null: never recorded.
  std::vector<std::unique_ptr<Graph>> graphs;
  std::vector<const cuda::HostKernel*> kernels;
  std::map<uint64_t, std::shared_ptr<Group>> groups;
  BlockRunner blocks;

  std::vector<std::unique_ptr<cuda::Driver>> drivers;
  bool stopping = false;
  Thread background;  // Last: it uses everything above.
};

std::unique_ptr<cuda::Driver> make_driver(Core& core, uint32_t device);

}  // namespace gangway::emulated
