// The one-way messages of the hot path as values, the same ones for client, controller and
// executors.
//
// frames.capnp is the specification: who sends what, when, in which order. A run costs one frame
// for each host and one back, whatever the number of its nodes and shards. frames.h turns them into
// bytes and back.
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
#include "runtime/base/error.h"
#include "runtime/base/ids.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

// A value of at most so many bytes travels inside a frame.
inline constexpr size_t kSmallBytesMax = 64;

// What a session's state names mean: two plans of one scope share the states of equal name.
struct StateScope {
  uint64_t id = 0;
  friend auto operator<=>(const StateScope&, const StateScope&) = default;
};

// Where a client's bytes are: an offset of its segment.
struct ClientBytes {
  SegmentDescriptor segment;
  int64_t offset = 0;
  int64_t bytes = 0;
};

struct UninstallFrame {
  PlanId plan;
  bool refused = false;  // Not all hosts could install it: states that it created go too.
  bool operator==(const UninstallFrame&) const = default;
};

// One argument of a run: an array, or a small value itself (then `bytes` is not empty), replicated.
struct ArgumentFrame {
  uint32_t input = 0;  // Index into Plan::inputs.
  ArrayId array;
  std::vector<std::byte> bytes;
  bool operator==(const ArgumentFrame&) const = default;
};

struct RunFrame {
  PlanId plan;
  RunId run;
  Ticket first_ticket;
  std::vector<ArgumentFrame> arguments;
  std::vector<ArrayId> outputs;            // As many as Plan::outputs: names for the results.
  std::vector<uint64_t> source_positions;  // As many as Plan::sources.
  int64_t time_limit_ms = 0;               // 0: none.
  bool operator==(const RunFrame&) const = default;
};

struct CancelFrame {
  RunId run;
  Error error;
};

struct FreeFrame {
  std::vector<ArrayId> arrays;
  bool operator==(const FreeFrame&) const = default;
};

// What a client puts and gets: bytes between its segment and an array or a state. (A transfer goes
// from slice to slice, inside a run.)
enum class CopyKind : uint8_t { kPut, kGet, kPutState, kGetState };
struct CopyFrame {
  uint64_t request = 0;
  CopyKind kind = CopyKind::kGet;
  ClientBytes at;
  ArrayId array;       // kPut, kGet.
  PlanId plan;         // kPut.
  uint32_t input = 0;  // kPut.
  StateScope scope;    // kPutState, kGetState.
  std::string name;    // kPutState, kGetState.
};

struct CopyDoneFrame {
  uint64_t request = 0;
  std::optional<Error> error;
};

struct SmallOutput {
  uint32_t output = 0;
  std::vector<std::byte> bytes;
  bool operator==(const SmallOutput&) const = default;
};

struct RunDoneFrame {
  RunId run;
  std::optional<Error> error;
  bool culprit = false;
  std::vector<SmallOutput> outputs;
};

struct HeartbeatFrame {
  uint64_t runs_done = 0;
  LinkBytes moved{};  // By its devices, since the executor started.
  bool operator==(const HeartbeatFrame&) const = default;
};

struct FreeScopeFrame {
  StateScope scope;
  bool operator==(const FreeScopeFrame&) const = default;
};

using Message = std::variant<UninstallFrame, RunFrame, CancelFrame, FreeFrame, CopyFrame,
                             CopyDoneFrame, RunDoneFrame, HeartbeatFrame, FreeScopeFrame>;

}  // namespace gangway
