#include "executor/collectives/hosts/stream_edge.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/links/sim_link.h"
#include "runtime/fibers/reactor.h"
#include "tests/support/seed.h"

namespace gangway::stream_edge_test {
namespace {

constexpr int64_t kPieceBytes = 128;
const int64_t kAreaBytes = StreamEdge::area_bytes(true, kPieceBytes);

// Two members on two hosts of a network that delivers later, in any order.
class StreamEdgeTest : public testing::Test {
 protected:
  struct End {
    std::unique_ptr<SimLink> link;
    std::shared_ptr<OwnMemory> own;
    std::shared_ptr<PeerMemory> peer;
    std::unique_ptr<StreamEdge> edge;
  };

  StreamEdgeTest() {
    const auto fabric = std::make_shared<SimFabric>(*reactor_);
    for (int e = 0; e < 2; ++e) {
      auto rung = std::make_shared<const std::function<void()>>([this, e] {
        if (on_ring_[e]) on_ring_[e]();
      });
      ends_[e].link =
          std::make_unique<SimLink>(fabric, std::vector<Bell>{{nullptr, std::move(rung)}});
      AreaList areas;
      areas.add("stream", kAreaBytes);
      ends_[e].own = ends_[e].link->offer(areas);
    }
    for (int e = 0; e < 2; ++e) {
      End& end = ends_[e];
      end.peer = end.link->open(ends_[1 - e].own->offer());
      end.edge = std::make_unique<StreamEdge>(
          StreamEdge::Ends{.host = static_cast<uint32_t>(1 - e),
                           .peer = end.peer.get(),
                           .memory = end.own.get(),
                           .there = end.peer->place("stream", kAreaBytes),
                           .here = end.own->place("stream", kAreaBytes),
                           .piece_bytes = kPieceBytes});
    }
  }

  std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated({.seed = tests::test_seed()});
  std::function<void()> on_ring_[2];
  End ends_[2];
};

// Each message is the only one of its collective, and goes one way. The sender learns from other
// hosts that these collectives have ended, before it learns here that its messages were read.
TEST_F(StreamEdgeTest, ASenderIsWokenWhenTheWordThatItsMessageWasReadComesLate) {
  StreamEdge& sender = *ends_[0].edge;
  StreamEdge& reader = *ends_[1].edge;
  for (int message = 0; message < 2; ++message) {
    ASSERT_TRUE(sender.has_room());
    sender.send(0, false);
  }
  reactor_->run_ready();
  bool room_when_rung = false;
  on_ring_[0] = [&] { room_when_rung |= sender.has_room(); };
  ASSERT_TRUE(reader.message().here);
  reader.release(true);
  EXPECT_FALSE(sender.has_room()) << "the word is under way";
  reactor_->run_ready();
  EXPECT_TRUE(room_when_rung) << "the sender sleeps until it is rung";
}

}  // namespace
}  // namespace gangway::stream_edge_test
