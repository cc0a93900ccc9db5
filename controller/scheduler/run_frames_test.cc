// Frames that the controller sends to the hosts of a run: as many to each host, built once for all
// of them, whatever their devices.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/net/frames.h"
#include "tests/support/ready_executor.h"
#include "tests/support/test_controller.h"

namespace gangway::run_frames_test {
namespace {

// Keeps the frames themselves.
class Listener final : public ReadyExecutor {
 public:
  using ReadyExecutor::ReadyExecutor;
  void send(const Frame& frame) override { frames.push_back(frame); }

  std::vector<Frame> frames;
};

struct Said {
  std::vector<Frame> to_first;   // Frames to the first host.
  size_t frames = 0, bytes = 0;  // Sums over all hosts.
  bool is_alike = true;          // The same memory for all hosts.
};

// Frames of three runs, whose results are released.
Said said_in_three_runs(uint32_t hosts, uint32_t devices_per_host) {
  const auto reactor = Reactor::make_simulated();
  Controller controller(*reactor);
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<HostId> ids;
  for (uint32_t h = 0; h < hosts; ++h) {
    listeners.push_back(std::make_unique<Listener>(devices_per_host));
    ids.push_back(controller.add_host(
        {.name = cat("host-", h), .devices = devices_per_host, .memory_bytes = 1 << 20},
        *listeners.back()));
  }
  FakeClient client;
  const SessionId session = controller.programs().add("client", "ada", client);
  const uint32_t devices = hosts * devices_per_host;
  const PlanId plan = reactor->run([&] {
    const SliceId slice = controller.allocate(session, {devices}).id;
    return controller.compile(session, doubled(Mesh{{{"data", devices}}}), {slice}, {2}).id;
  });
  const uint64_t names = session.value << 40;
  for (uint64_t i = 1; i <= 3; ++i) {
    controller.on_message(session,
                          RunFrame{.plan = plan,
                                   .run = RunId(names + i),
                                   .arguments = {{.input = 0, .bytes = std::vector<std::byte>(4)}},
                                   .outputs = {ArrayId(names + 100 + i)}});
    for (HostId host : ids) controller.on_message(host, RunDoneFrame{.run = RunId(i)});
    controller.on_message(session, FreeFrame{{ArrayId(names + 100 + i)}});
  }
  EXPECT_EQ(client.ended.size(), 3u);
  Said said{.to_first = listeners[0]->frames};
  for (const auto& listener : listeners) {
    said.frames += listener->frames.size();
    for (const Frame& frame : listener->frames) said.bytes += frame->asBytes().size();
    said.is_alike = said.is_alike && listener->frames == said.to_first;
  }
  return said;
}

TEST(RunFramesTest, ARunIsThreeFramesForEachHostBuiltOnceForAllOfThem) {
  const Said said = said_in_three_runs(128, 2);
  // For each run: prepare, grant, and the release of its result.
  EXPECT_EQ(said.to_first.size(), 3u * 3);
  EXPECT_EQ(said.frames, 128u * 3 * 3);
  EXPECT_TRUE(said.is_alike);
}

TEST(RunFramesTest, FramesToHostsGrowWithHostsAndNotWithDevices) {
  const Said one = said_in_three_runs(1, 1);
  for (const uint32_t hosts : {4u, 128u}) {
    for (const uint32_t devices : {1u, 8u}) {
      const Said said = said_in_three_runs(hosts, devices);
      EXPECT_EQ(said.frames, hosts * one.frames) << hosts << " hosts of " << devices;
      EXPECT_EQ(said.bytes, hosts * one.bytes) << hosts << " hosts of " << devices;
    }
  }
}

}  // namespace
}  // namespace gangway::run_frames_test
