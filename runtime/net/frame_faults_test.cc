// Two peers exchange frames over a network that loses, repeats, swaps and delays single frames and
// breaks connections, from a seed. Every frame must arrive once and in order, and the bytes kept
// for resending must stay bounded. The same conversation must notice a faulty peer: somebody
// between the two leaves out, repeats or swaps frames in a way that streams do not repair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/net/rpc_test.capnp.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"
#include "tests/support/net/expect_found.h"
#include "tests/support/seed.h"

namespace gangway {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kFrames = 1500;  // Each way.
constexpr size_t kKeptBytes = 16 << 10;

// One peer: sends kFrames numbers in its own time, and checks those that arrive.
class Talker {
 public:
  Talker(Reactor& reactor, FrameStream& stream, Rng rng)
      : reactor_(reactor), stream_(stream), rng_(rng) {
    stream_.start([this](capnp::MessageReader& message) {
      const uint64_t number = message.getRoot<test::Note>().getNumber();
      if (number != received_ + 1 && wrong_.empty())
        wrong_ = cat("frame ", number, " came after ", received_);
      received_ = number;
    });
  }

  void talk() {
    for (uint64_t i = 1; i <= kFrames; ++i) {
      while (stream_.kept_bytes() > kKeptBytes && !stream_.has_ended()) pause(1ms);
      capnp::MallocMessageBuilder message;
      auto note = message.initRoot<test::Note>();
      note.setNumber(i);
      note.initText(static_cast<uint32_t>(rng_.below(200)));
      stream_.send(make_frame(message));
      if (rng_.chance(0.2)) pause(Duration(static_cast<int64_t>(rng_.below(500'000))));
      if (rng_.chance(0.003)) pause(Duration(static_cast<int64_t>(rng_.below(400'000'000))));
    }
  }

  bool has_all() const { return received_ == kFrames; }
  // The first fault seen so far; empty if there is none.
  std::string wrong() const {
    if (!wrong_.empty()) return wrong_;
    return stream_.has_ended() ? cat("the stream ended after ", received_, " frames") : "";
  }

 private:
  void pause(Duration time) { reactor_.clock().sleep_for(time); }

  Reactor& reactor_;
  FrameStream& stream_;
  Rng rng_;
  uint64_t received_ = 0;
  std::string wrong_;
};

FrameFault draw_fault(Rng& rng) {
  const double draw = rng.uniform();
  if (draw < 0.004) return {FrameFault::Kind::kDrop};
  if (draw < 0.010) return {FrameFault::Kind::kDuplicate};
  if (draw < 0.014) return {FrameFault::Kind::kSwap};
  if (draw < 0.020) return {FrameFault::Kind::kDelay, Duration(rng.below(20'000'000))};
  if (draw < 0.023) return {FrameFault::Kind::kBreak};
  return {};
}

// Lets both peers talk until they have finished. Returns what went wrong; empty if nothing did.
std::string converse(Reactor& reactor, SimNetwork& network, FrameStream& one, FrameStream& other,
                     Rng rng) {
  Talker first(reactor, one, rng.fork(1)), second(reactor, other, rng.fork(2));
  network.set_frame_fault([faults = rng.fork(3)](const std::string&, const std::string&) mutable {
    return draw_fault(faults);
  });
  FiberGroup fibers(reactor);
  fibers.spawn("first", [&] { first.talk(); });
  fibers.spawn("second", [&] { second.talk(); });
  for (int i = 0; i < 600 && !(first.has_all() && second.has_all()); ++i) {
    reactor.clock().sleep_for(100ms);
    if (rng.chance(0.02)) network.break_connections("one", "other");
    if (const std::string wrong = first.wrong() + second.wrong(); !wrong.empty()) return wrong;
  }
  if (!first.has_all() || !second.has_all()) return "frames are missing after a minute";
  network.set_frame_fault(nullptr);
  reactor.clock().sleep_for(5s);
  const size_t kept = one.kept_bytes() + other.kept_bytes();
  if (kept > 0) return cat(kept, " bytes are kept of frames that have arrived");
  return first.wrong() + second.wrong();
}

std::string exchange(uint64_t seed, FrameMeddler* meddler = nullptr) {
  auto reactor = Reactor::make_simulated({.seed = seed});
  return reactor->run([&] {
    SimNetwork network(*reactor, {.delay = 50us, .jitter = 200us});
    if (meddler != nullptr) meddler->stand_in(network);
    FrameStream other(*reactor, {.name = "one"});
    Server server(*reactor, network.endpoint("other"), "sim:other",
                  {.frames_of = [&](uint64_t, const std::string&) { return &other; }});
    const auto one =
        connect_frames(*reactor, network.endpoint("one"), server.address(), 7, {.name = "other"});
    return converse(*reactor, network, *one, other, reactor->rng().fork(0x7a1c));
  });
}

TEST(FrameFaultsTest, EveryFrameArrivesOnceAndInOrderWhateverHappensToSingleFrames) {
  const uint64_t seed = tests::test_seed();
  for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(exchange(seed + i), "") << "seed " << seed + i;
}

void expect_found(const std::function<FrameMeddler()>& new_meddler, const std::string& text) {
  struct Report {
    std::vector<std::string> problems;
  };
  const auto play = [](uint64_t seed, const std::function<FrameMeddler()>& between) {
    FrameMeddler meddler = between ? between() : FrameMeddler();
    const std::string wrong = exchange(seed, &meddler);
    return wrong.empty() ? Report() : Report{{wrong}};
  };
  gangway::expect_found(20, new_meddler, ::testing::HasSubstr(text), play);
}

// Gives what arrives in place of the hundredth frame of the side that dials.
FrameMeddler in_place_of_the_hundredth(
    const std::function<std::vector<Frame>(const Frame&)>& instead) {
  return FrameMeddler(
      [=, count = 0](const std::string& from, const std::string&, const Frame& frame) mutable {
        return from == "one" && ++count == 100 ? instead(frame) : std::vector<Frame>{frame};
      });
}

TEST(FrameFaultsTest, SomebodyInTheMiddleWhoChangesNothingIsNotNoticed) {
  FrameMeddler meddler;
  EXPECT_EQ(exchange(tests::test_seed(), &meddler), "");
}

TEST(FrameFaultsTest, AFrameThatIsLeftOutIsFound) {
  expect_found(
      [] { return in_place_of_the_hundredth([](const Frame&) { return std::vector<Frame>(); }); },
      "frame 101 came after 99");
}

TEST(FrameFaultsTest, AFrameThatIsRepeatedIsFound) {
  expect_found(
      [] {
        return in_place_of_the_hundredth(
            [](const Frame& frame) { return std::vector{frame, frame}; });
      },
      "frame 100 came after 100");
}

TEST(FrameFaultsTest, AFrameThatComesBehindTheNextIsFound) {
  expect_found(
      [] {
        Frame held;
        return FrameMeddler([held, count = 0](const std::string& from, const std::string&,
                                              const Frame& frame) mutable -> std::vector<Frame> {
          if (from != "one" || (++count != 100 && held == nullptr)) return {frame};
          if (held != nullptr) return {frame, std::exchange(held, nullptr)};
          held = frame;
          return {};
        });
      },
      "frame 101 came after 99");
}

TEST(FrameFaultsTest, AcknowledgementsThatNobodyHearsAreFound) {
  expect_found(
      [] {
        FrameMeddler meddler;
        meddler.hide_acknowledgements();
        return meddler;
      },
      "the stream ended after ");
}

}  // namespace
}  // namespace gangway
