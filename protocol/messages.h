// The one-way messages of the hot path as values, the same ones for client, controller and
// executors.
//
// frames.capnp is the specification: who sends what, when, in which order. A run costs two frames
// to each host and one back, whatever the number of its nodes and shards. frames.h turns the values
// into bytes and back.
//
// Threads: values.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/plan/islands.h"
#include "ir/types/box.h"
#include "runtime/base/error.h"
#include "runtime/base/ids.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

// A result of at most this many bytes travels with the end of its run.
inline constexpr size_t kSmallBytesMax = 64;
// The arguments of a run travel with its request if together they have at most this many bytes.
inline constexpr size_t kInlineBytesMax = 16 << 10;
// Positions of sources are below this limit.
inline constexpr uint64_t kSourcePositionMax = uint64_t{1} << 62;

// Namespace of state names: two plans of one scope share the states of equal name.
struct StateScope {
  uint64_t id = 0;
  friend auto operator<=>(const StateScope&, const StateScope&) = default;
};

// The place of a client's bytes: an offset in its segment.
struct ClientBytes {
  SegmentDescriptor segment;
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct UninstallFrame {
  PlanId plan;
  bool refused = false;  // Not all hosts could install it: frees states that it created too.
  bool operator==(const UninstallFrame&) const = default;
};

// One argument of a run: an array, or the whole tensor itself in row-major order (then `bytes` is
// not empty), of which each device takes its part.
struct ArgumentFrame {
  uint32_t input = 0;  // Index into Plan::inputs.
  ArrayId array;
  std::vector<std::byte> bytes;
  bool operator==(const ArgumentFrame&) const = default;
};

// A client's request for a run.
struct RunFrame {
  PlanId plan;
  RunId run;
  // A run of the same plan. This run commits only if that one did; 0: it depends on none.
  RunId after;
  std::vector<ArgumentFrame> arguments;
  std::vector<ArrayId> outputs;            // Names for the results, one for each of Plan::outputs.
  std::vector<uint64_t> source_positions;  // One for each of Plan::sources.
  int64_t time_limit_ms = 0;               // 0: none.
  bool operator==(const RunFrame&) const = default;
};

// All that a host needs to do its work for a run at once.
struct PrepareFrame {
  uint64_t ordinal = 0;  // Number of the plan's runs that were prepared before.
  RunFrame run;          // Runs and arrays have the controller's names here.
  bool operator==(const PrepareFrame&) const = default;
};

// Stands for all slices of a plan: positions are counted in the order of its nodes.
inline constexpr uint32_t kEverySlice = ~uint32_t{0};

// Positions first .. first + count - 1 of a run in a slice of its plan (ir/plan/positions.h) take
// the tickets from `ticket` on.
struct GrantRange {
  RunId run;
  uint32_t slice = 0;  // Or kEverySlice.
  uint32_t first = 0, count = 0;
  Ticket ticket;
  bool operator==(const GrantRange&) const = default;
};
struct GrantFrame {
  std::vector<GrantRange> ranges;
  bool operator==(const GrantFrame&) const = default;
};

// Progress of a host's devices in a run, and how long they were busy with it.
struct SectionTime {
  RunId run;
  uint32_t slice = 0;
  uint32_t position_end = 0;  // All before this one have ended on all devices of the host.
  int64_t busy_ns = 0;        // Time of the busiest device, since the last report of the run.
  bool operator==(const SectionTime&) const = default;
};
struct ProgressFrame {
  std::vector<SectionTime> times;
  bool operator==(const ProgressFrame&) const = default;
};

struct CancelFrame {
  RunId run;
  Error error;
};

struct FreeFrame {
  std::vector<ArrayId> arrays;
  bool operator==(const FreeFrame&) const = default;
};

// Kinds of host transfer: bytes between a client's segment and an array or a state. (A
// device-to-device transfer goes from slice to slice, inside a run.)
enum class HostTransferKind : uint8_t { kPut, kGet, kWriteState, kReadState };
struct HostTransferFrame {
  uint64_t request = 0;
  HostTransferKind kind = HostTransferKind::kGet;
  ClientBytes at;
  ArrayId array;       // kPut, kGet.
  PlanId plan;         // kPut.
  uint32_t input = 0;  // kPut.
  StateScope scope;    // kWriteState, kReadState.
  std::string name;    // kWriteState, kReadState.
  Box part;            // kWriteState, kReadState: part of the state; empty: all of it.
  Ticket ticket;       // kWriteState, kReadState, to executors: place among the runs.
};

struct HostTransferDoneFrame {
  uint64_t request = 0;
  std::optional<Error> error;
  // To clients: every host that was to read or write the client's bytes has reported that it is
  // done. If false, one of them may still write there, so the client never uses that memory again.
  bool is_settled = false;
  // To clients, for a get that has failed: its program is being recovered, and the client asks
  // again, with other memory.
  bool comes_again = false;
};

struct SmallOutput {
  uint32_t output = 0;
  std::vector<std::byte> bytes;
  bool operator==(const SmallOutput&) const = default;
};

struct RunDoneFrame {
  RunId run;
  std::optional<Error> error;
  bool is_origin = false;
  std::vector<SmallOutput> outputs;
  std::vector<SectionTime> times;  // From executors: times of this run not reported before.
  bool refused = false;            // From executors: this host took no part in the run.
};

// A device whose work does not go on (executor/host/stuck_watch.h).
struct StuckDevice {
  uint32_t device = 0;
  RunId run;
  std::string what;    // "dot of f32[4, 8]"
  std::string at;      // The user's line.
  int64_t ms = 0;      // Time for which the work has not gone on.
  bool waits = false;  // It waits for other devices, one of which may be to blame.
  bool operator==(const StuckDevice&) const = default;
};

struct HeartbeatFrame {
  uint64_t runs_done = 0;
  LinkBytes moved{};                // Bytes that its devices moved since the executor started.
  std::vector<StuckDevice> stuck;   // All stuck devices, at most one entry for each device.
  uint32_t reactor_longest_ms = 0;  // Reactor::longest_stretch_ns(), in milliseconds.
  bool operator==(const HeartbeatFrame&) const = default;
};

// A link between two hosts has broken, and both may live: what the sender writes to the memory of
// the peer does not arrive any more.
struct LinkBrokenFrame {
  PlanId plan;        // It uses the link; by hosts' name for it.
  uint32_t host = 0;  // The peer's index in the plan.
  std::string why;    // For people.
  bool operator==(const LinkBrokenFrame&) const = default;
};

struct FreeScopeFrame {
  StateScope scope;
  bool operator==(const FreeScopeFrame&) const = default;
};

// A line for the client's user: something that one of the client's programs does costs more than it
// need.
struct WarningFrame {
  std::string text;
  bool operator==(const WarningFrame&) const = default;
};

// Releases slices and executables, named by the calls that created them.
struct ReleaseFrame {
  std::vector<uint64_t> calls;
  bool operator==(const ReleaseFrame&) const = default;
};

using Message =
    std::variant<UninstallFrame, RunFrame, PrepareFrame, GrantFrame, CancelFrame, FreeFrame,
                 HostTransferFrame, HostTransferDoneFrame, RunDoneFrame, ProgressFrame,
                 HeartbeatFrame, FreeScopeFrame, WarningFrame, ReleaseFrame, LinkBrokenFrame>;

}  // namespace gangway
