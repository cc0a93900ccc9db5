#include "controller/service/peers_rpc.h"

#include <gtest/gtest.h>

#include "runtime/fibers/wait_queue.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"

namespace gangway {
namespace {

TEST(PeerStreamTest, APeerThatReadsNothingIsReportedAfterTheSendThatFoundItSo) {
  auto reactor = Reactor::make_simulated();
  reactor->run([&] {
    SimNetwork network(*reactor);
    const auto pause_for_a_millisecond = [&] {
      WaitQueue().wait_until_ns("for a millisecond", reactor->clock().now_ns() + 1'000'000);
    };
    auto stream = std::make_shared<PeerStream>(*reactor, FrameOptions{.name = "peer"});
    int closed = 0;
    stream->on_closed = [&](const Error&) { ++closed; };
    stream->start();
    Server server(*reactor, network.endpoint("controller"), "sim:controller",
                  {.frames_of = [&](uint64_t, const std::string&) { return stream->frames(); }});
    const auto peer = connect_frames(*reactor, network.endpoint("peer"), "sim:controller", 1);
    const Frame megabyte = encode(FreeFrame{std::vector<ArrayId>(size_t{1} << 17)});
    for (int i = 0; i < 40; ++i) stream->send(megabyte);
    EXPECT_EQ(closed, 0) << "a caller in the middle of its tables would see them change";
    pause_for_a_millisecond();
    EXPECT_EQ(closed, 1);
    stream->close();
  });
}

}  // namespace
}  // namespace gangway
