// Frames as C++ values: the one-way messages of the hot path, to bytes and back.
//
// frames.capnp is the specification: who sends what, when, in which order. A run costs one frame
// for each host and one back, whatever the number of its nodes and shards.
//
// Threads: values and pure functions.
// Errors: decode() throws kInvalid on anything malformed; lists are bounded by the bytes that came.
// Cost: 1-2 us to encode or decode a run of a few arguments.
//
// Example:
//   stream.send(encode(CancelFrame{run, error}));
//   Message message = decode(reader);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/ids.h"
#include "runtime/net/frame.h"
#include "runtime/os/shared_segment.h"

namespace gangway {

// A value of at most so many bytes travels inside a frame.
inline constexpr size_t kSmallBytesMax = 64;

struct UninstallFrame {
  PlanId plan;
  bool operator==(const UninstallFrame&) const = default;
};

// One argument of a run: an array, or a small value itself (then `bytes` is not empty).
struct ArgumentFrame {
  uint32_t input = 0;
  ArrayId array;
  std::vector<std::byte> bytes;
  bool operator==(const ArgumentFrame&) const = default;
};

struct RunFrame {
  PlanId plan;
  RunId run;
  Ticket first_ticket;
  std::vector<ArgumentFrame> arguments;
  std::vector<ArrayId> outputs;
  std::vector<uint64_t> source_positions;
  int64_t time_limit_ms = 0;  // 0: none.
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

struct BytesAt {
  SegmentDescriptor segment;
  int64_t offset = 0;
  int64_t bytes = 0;
};

enum class TransferKind : uint8_t { kPut, kGet, kPutState, kGetState };
struct TransferFrame {
  uint64_t request = 0;
  TransferKind kind = TransferKind::kGet;
  BytesAt at;
  ArrayId array;       // kPut, kGet.
  PlanId plan;         // kPut.
  uint32_t input = 0;  // kPut.
  uint64_t scope = 0;  // kPutState, kGetState.
  std::string name;    // kPutState, kGetState.
};

struct TransferDoneFrame {
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
  bool operator==(const HeartbeatFrame&) const = default;
};

struct FreeScopeFrame {
  uint64_t scope = 0;
  bool operator==(const FreeScopeFrame&) const = default;
};

using Message = std::variant<UninstallFrame, RunFrame, CancelFrame, FreeFrame, TransferFrame,
                             TransferDoneFrame, RunDoneFrame, HeartbeatFrame, FreeScopeFrame>;

// A frame is the bytes (runtime/net/frame.h), shared by every stream that sends it.
Frame encode(const Message& message);
Message decode(capnp::MessageReader& reader);
Message decode(const Frame& frame);

}  // namespace gangway
