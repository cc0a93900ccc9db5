#include "protocol/frames.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "protocol/text_limits.h"
#include "runtime/base/rng.h"

namespace gangway {
namespace {

using testing::HasSubstr;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

template <class T>
T round_trip(const T& frame) {
  return std::get<T>(decode(encode(frame)));
}

RunFrame a_run() {
  return {.plan = PlanId(3),
          .run = RunId(1ull << 41),
          .after = RunId(98),
          .arguments = {{.input = 0, .bytes = bytes_of("\x3a\x83\x12\x6f")},
                        {.input = 2, .array = ArrayId(7)}},
          .outputs = {ArrayId(8), ArrayId(9)},
          .source_positions = {41},
          .time_limit_ms = 500};
}

TEST(FramesTest, ARunReadsBackAsItWasWritten) { EXPECT_EQ(round_trip(a_run()), a_run()); }

TEST(FramesTest, ARunWithANegativeTimeLimitIsRefused) {
  RunFrame run = a_run();
  run.time_limit_ms = -1;
  try {
    static_cast<void>(round_trip(run));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("a negative time limit: -1 ms"));
  }
}

TEST(FramesTest, APrepareReadsBackAsItWasWritten) {
  const PrepareFrame prepare{.ordinal = 17, .run = a_run()};
  EXPECT_EQ(round_trip(prepare), prepare);
}

TEST(FramesTest, AGrantReadsBackAsItWasWritten) {
  const GrantFrame grant{
      {{.run = RunId(3), .slice = 1, .first = 4, .count = 2, .ticket = Ticket(9)},
       {.run = RunId(3), .slice = kEverySlice, .count = 1, .ticket = Ticket(11)}}};
  EXPECT_EQ(round_trip(grant), grant);
}

TEST(FramesTest, AProgressFrameReadsBackAsItWasWritten) {
  const ProgressFrame progress{{{RunId(3), 1, 8, 1'500'000}}};
  EXPECT_EQ(round_trip(progress), progress);
}

TEST(FramesTest, AGrantOfNoPositionsOrBeyondTheLastTicketIsRefused) {
  const auto refused = [](const GrantRange& range) {
    try {
      static_cast<void>(round_trip(GrantFrame{{range}}));
      return false;
    } catch (const Error& error) {
      return error.kind() == ErrorKind::kInvalid;
    }
  };
  EXPECT_TRUE(refused({.run = RunId(1), .count = 0, .ticket = Ticket(1)}));
  EXPECT_TRUE(refused({.run = RunId(1), .count = 1, .ticket = Ticket(~uint64_t{0})}));
  EXPECT_TRUE(refused({.run = RunId(1), .first = ~uint32_t{0}, .count = 1, .ticket = Ticket(1)}));
}

TEST(FramesTest, AnUninstallReadsBackAsItWasWritten) {
  for (const bool refused : {false, true})
    EXPECT_EQ(round_trip(UninstallFrame{PlanId(3), refused}), (UninstallFrame{PlanId(3), refused}));
}

TEST(FramesTest, ReleasedCallsReadBackAsTheyWereWritten) {
  const ReleaseFrame released{{1, 7, ~uint64_t{0}}};
  EXPECT_EQ(round_trip(released), released);
}

TEST(FramesTest, ABrokenLinkReadsBackAsItWasWritten) {
  const LinkBrokenFrame broken{PlanId(7), 3, "it answers no more"};
  EXPECT_EQ(round_trip(broken), broken);
  const LinkBrokenFrame shortened =
      round_trip(LinkBrokenFrame{PlanId(7), 3, std::string(10'000, 'x')});
  EXPECT_LT(shortened.why.size(), 2 * kQuotedBytesMax) << "cut, and it says so";
}

TEST(FramesTest, ARunOfFewArgumentsTakesAFewHundredBytes) {
  EXPECT_LT(encode(a_run())->size() * sizeof(capnp::word), 256u);
}

TEST(FramesTest, AnErrorKeepsItsKind) {
  for (const ErrorKind kind :
       {ErrorKind::kInvalid, ErrorKind::kUnavailable, ErrorKind::kOverloaded, ErrorKind::kOverflow,
        ErrorKind::kCancelled, ErrorKind::kLost, ErrorKind::kUnimplemented, ErrorKind::kBug}) {
    const RunDoneFrame done =
        round_trip(RunDoneFrame{.run = RunId(4), .error = Error(kind, "ended")});
    ASSERT_TRUE(done.error.has_value());
    EXPECT_EQ(done.error->kind(), kind) << to_string(kind);
  }
}

TEST(FramesTest, AnErrorKeepsItsKindItsPlaceItsHintAndItsContext) {
  Error error(ErrorKind::kLost, "state: gone", {.program = "p", .host = "h", .at = "a.cc:3"},
              "restore");
  error.add_context("run 4");
  const RunDoneFrame done =
      round_trip(RunDoneFrame{.run = RunId(4), .error = error, .is_origin = true, .refused = true});
  ASSERT_TRUE(done.error.has_value());
  EXPECT_EQ(done.error->kind(), ErrorKind::kLost);
  EXPECT_STREQ(done.error->what(), error.what());
  EXPECT_TRUE(done.is_origin);
  EXPECT_TRUE(done.refused);
}

TEST(FramesTest, SmallOutputsTravelWithTheEndOfTheRun) {
  const RunDoneFrame done =
      round_trip(RunDoneFrame{.run = RunId(4), .outputs = {{1, bytes_of("abcd")}}});
  EXPECT_FALSE(done.error.has_value());
  EXPECT_EQ(done.outputs, (std::vector<SmallOutput>{{1, bytes_of("abcd")}}));
}

TEST(FramesTest, AHeartbeatSaysWhatWasMovedOverEachClassOfLink) {
  const HeartbeatFrame beat{
      .runs_done = 3, .moved = {1, uint64_t{1} << 40, 7}, .reactor_longest_ms = 120};
  EXPECT_EQ(std::get<HeartbeatFrame>(decode(encode(beat))), beat);
}

TEST(FramesTest, AHeartbeatNamesTheDevicesThatAreStuckInTextsOfBoundedLength) {
  HeartbeatFrame beat{.stuck = {{.device = 1,
                                 .run = RunId(7),
                                 .what = "dot of f32[4, 8]",
                                 .at = "model.cc:12",
                                 .ms = 1500},
                                {.device = 2, .run = RunId(8), .waits = true}}};
  EXPECT_EQ(std::get<HeartbeatFrame>(decode(encode(beat))), beat);
  beat.stuck[0].what.assign(1'000'000, 'x');
  EXPECT_LE(std::get<HeartbeatFrame>(decode(encode(beat))).stuck[0].what.size(),
            2 * kQuotedBytesMax);
}

TEST(FramesTest, AWarningIsALineOfBoundedLength) {
  const WarningFrame warning{"program \"p\" is dispatched sequentially"};
  EXPECT_EQ(round_trip(warning), warning);
  EXPECT_LE(round_trip(WarningFrame{std::string(1'000'000, 'x')}).text.size(), 2 * kTextBytesMax);
}

TEST(FramesTest, HostTransfersReadBackAsTheyWereWritten) {
  const SegmentDescriptor segment{.pid = 7, .fd = 3, .bytes = 4096, .token = 11};
  const HostTransferFrame put = round_trip(HostTransferFrame{.request = 5,
                                                             .kind = HostTransferKind::kPut,
                                                             .at = {segment, 64, 128},
                                                             .array = ArrayId(1),
                                                             .plan = PlanId(2),
                                                             .input = 3});
  EXPECT_EQ(put.kind, HostTransferKind::kPut);
  EXPECT_EQ(put.at.segment.token, 11u);
  EXPECT_EQ(put.at.offset, 64);
  EXPECT_EQ(put.array, ArrayId(1));
  EXPECT_EQ(put.plan, PlanId(2));
  EXPECT_EQ(put.input, 3u);
  const HostTransferFrame get = round_trip(HostTransferFrame{.kind = HostTransferKind::kReadState,
                                                             .at = {segment, 0, 4096},
                                                             .scope = {2},
                                                             .name = "layers.0.up",
                                                             .part = {{4, 0}, {2, 512}}});
  EXPECT_EQ(get.kind, HostTransferKind::kReadState);
  EXPECT_EQ(get.part, (Box{{4, 0}, {2, 512}}));
  EXPECT_EQ(get.scope.id, 2u);
  EXPECT_EQ(get.name, "layers.0.up");
  const HostTransferDoneFrame lost = round_trip(HostTransferDoneFrame{
      .request = 9, .error = Error(ErrorKind::kUnavailable, "a host is gone")});
  EXPECT_TRUE(lost.error && !lost.is_settled && !lost.comes_again);
  EXPECT_TRUE(round_trip(HostTransferDoneFrame{.is_settled = true}).is_settled);
  EXPECT_TRUE(round_trip(HostTransferDoneFrame{.comes_again = true}).comes_again);
}

TEST(FramesTest, APartOfMoreDimensionsThanATensorHasIsRefused) {
  const HostTransferFrame get{.kind = HostTransferKind::kReadState,
                              .at = {{.bytes = 4096}, 0, 64},
                              .part = {Dims(kRankMax + 1, 0), Dims(kRankMax + 1, 1)}};
  try {
    static_cast<void>(decode(encode(get)));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("more dimensions than a tensor has"));
  }
}

struct FrameBound {
  const char* what;
  uint64_t max;
  std::function<Message(uint64_t)> frame;
};

// Frames with as many or as large parts as the bound allows.
const FrameBound kFrameBounds[] = {
    {"inline arguments", kInlineBytesMax,
     [](uint64_t n) {
       return RunFrame{.arguments = {{.input = 0, .bytes = std::vector<std::byte>(1)},
                                     {.input = 1, .bytes = std::vector<std::byte>(n - 1)}}};
     }},
    {"a small output", kSmallBytesMax,
     [](uint64_t n) { return RunDoneFrame{.outputs = {{0, std::vector<std::byte>(n)}}}; }},
    {"dimensions of a part", static_cast<uint64_t>(kRankMax),
     [](uint64_t n) {
       const auto rank = static_cast<size_t>(n);
       return HostTransferFrame{.at = {{.bytes = 8}, 0, 8}, .part = {Dims(rank, 0), Dims(rank, 1)}};
     }},
    {"bytes of a copy", 4096,
     [](uint64_t n) {
       return HostTransferFrame{.at = {{.bytes = 5000}, 904, static_cast<int64_t>(n)}};
     }},
    {"a copy's ticket", uint64_t{1} << 62,
     [](uint64_t n) { return HostTransferFrame{.at = {{.bytes = 8}, 0, 8}, .ticket = Ticket(n)}; }},
    {"a grant's ticket", uint64_t{1} << 62,
     [](uint64_t n) { return GrantFrame{{{.run = RunId(1), .count = 1, .ticket = Ticket(n)}}}; }},
    {"positions of a grant", ~uint32_t{0} - 7,
     [](uint64_t n) {
       return GrantFrame{
           {{.run = RunId(1), .first = 7, .count = static_cast<uint32_t>(n), .ticket = Ticket(1)}}};
     }},
};

TEST(FramesTest, FramesAtABoundReadBackAndFramesBeyondItAreRefused) {
  for (const FrameBound& bound : kFrameBounds) {
    const Frame at = encode(bound.frame(bound.max));
    const Frame again = encode(decode(at));
    EXPECT_TRUE(at->asBytes() == again->asBytes()) << bound.what;
    const Frame past = encode(bound.frame(bound.max + 1));
    try {
      static_cast<void>(decode(past));
      ADD_FAILURE() << bound.what;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << bound.what;
    }
  }
}

TEST(FramesTest, AHostTransferOutsideItsSegmentIsRefused) {
  HostTransferFrame get{.at = {{.bytes = 4096}, 4000, 128}};
  try {
    static_cast<void>(decode(encode(get)));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalid);
    EXPECT_THAT(error.what(), HasSubstr("128 bytes at 4000 of 4096"));
  }
}

TEST(FramesTest, AnyBytesGiveAFrameOrAnInvalidError) {
  Rng rng(20261121);
  const Frame good = encode(a_run());
  for (int i = 0; i < 3000; ++i) {
    auto bad = kj::heapArray<capnp::word>(rng.chance(0.3) ? rng.below(good->size()) : good->size());
    auto bytes = bad.asBytes();
    if (bytes.size() > 0) std::memcpy(bytes.begin(), good->begin(), bytes.size());
    for (uint64_t flips = rng.below(5); flips > 0 && bytes.size() > 0; --flips) {
      bytes[rng.below(bytes.size())] ^= static_cast<kj::byte>(1u << rng.below(8));
    }
    try {
      static_cast<void>(decode(std::make_shared<const kj::Array<capnp::word>>(kj::mv(bad))));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalid) << error.what();
    }
  }
}

}  // namespace
}  // namespace gangway
