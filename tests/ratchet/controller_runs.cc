#include "tests/ratchet/controller_runs.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "controller/controller.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "tests/ratchet/counting.h"

namespace ratchet {
namespace {

using namespace gangway;  // Functions of gangway are counted, functions of ratchet are not.

constexpr uint32_t kDevices = 2;  // Devices of each host.

// Gets the controller's frames. The first host keeps them.
class FakeExecutor final : public ExecutorPeer {
 public:
  explicit FakeExecutor(bool keeps) : keeps_(keeps) {}
  Future<Installed> install(PlanId, const std::vector<std::byte>&, uint32_t, StateScope,
                            const PlanOwner&, const std::vector<SourceText>&) override {
    Installed installed;
    for (uint32_t d = 0; d < kDevices; ++d) installed.needs.push_back({.device = d});
    return Future<Installed>(Result<Installed>(std::move(installed)));
  }
  Future<void> link(PlanId, const std::vector<LinkOffer>&) override { return ready_future(); }
  Future<void> commit_install(PlanId) override { return ready_future(); }
  Future<int64_t> move_states(const MoveRequest&) override {
    return Future<int64_t>(Result<int64_t>(0));
  }
  void send(const Frame& frame) override {
    if (keeps_) heard.push_back(frame);
  }
  void hang_up() override {}

  std::deque<Frame> heard;

 private:
  const bool keeps_;
};

class FakeClient final : public ClientPeer {
 public:
  void send(const Frame&) override { ++ended; }
  SessionId session;
  PlanId plan;
  uint64_t names = 0;
  ArrayId output;
  int ended = 0;
};

// A program of three sections. If other programs run too, each section is a turn of its own.
Program three_sections(const Mesh& mesh) {
  ProgramBuilder b("three sections", mesh);
  Value x = b.input("x", f32());
  for (int section = 0; section < 3; ++section) x = timed(x + x, 300);
  b.output("y", x);
  return b.build();
}

class Runs {
 public:
  Runs(int hosts, int clients) {
    for (int h = 0; h < hosts; ++h) {
      executors_.push_back(std::make_unique<FakeExecutor>(h == 0));
      hosts_.push_back(controller_.add_host({.name = "host-" + std::to_string(h),
                                             .devices = kDevices,
                                             .memory_bytes = int64_t{1} << 30},
                                            *executors_.back()));
    }
    const auto devices = kDevices * static_cast<uint32_t>(hosts);
    const Program program = three_sections({{{"data", devices}}});
    for (int c = 0; c < clients; ++c) {
      FakeClient& client = *clients_.emplace_back(std::make_unique<FakeClient>());
      client.session = controller_.programs().add("client-" + std::to_string(c), "ada", client);
      reactor_->run([&] {
        const SliceId slice = controller_.allocate(client.session, devices).id;
        const PlanRecord& plan = controller_.compile(client.session, program, {slice}, {2});
        client.plan = plan.id;
        positions_ = plan.positions->total();
      });
    }
  }

  // Does a run of each client. All runs are submitted before the first ends.
  void round() {
    for (const auto& client : clients_) submit(*client);
    while (!executors_[0]->heard.empty()) {
      const Message message = decode(executors_[0]->heard.front());
      executors_[0]->heard.pop_front();
      if (const auto* grant = std::get_if<GrantFrame>(&message)) {
        for (const GrantRange& range : grant->ranges) granted(range);
      }
    }
    for (const auto& client : clients_) free_output(*client);
  }

  bool all_ended(int rounds) const {
    for (const auto& client : clients_) {
      if (client->ended != rounds) return false;
    }
    return true;
  }

 private:
  void submit(FakeClient& client) {
    const uint64_t space = client.session.value << 40;
    client.output = ArrayId(space + ++client.names);
    const Frame frame = encode(RunFrame{.plan = client.plan,
                                        .run = RunId(space + ++client.names),
                                        .arguments = {{0, {}, std::vector<std::byte>(4)}},
                                        .outputs = {client.output}});
    const Counted counted;
    controller_.on_message(client.session, decode(frame));
  }

  // Answers as if the devices had done the range. Only the first host reports progress before the
  // run's last position.
  void granted(const GrantRange& range) {
    const uint32_t end = range.first + range.count;
    const SectionTime time{range.run, 0, end, 300'000 * int64_t{range.count}};
    if (end < positions_) return from(0, encode(ProgressFrame{{time}}));
    for (size_t h = 0; h < hosts_.size(); ++h) {
      RunDoneFrame done{.run = range.run};
      if (h == 0) done.outputs = {{0, std::vector<std::byte>(4)}};
      if (h == 0) done.times = {time};
      from(h, encode(done));
    }
  }

  void from(size_t host, const Frame& frame) {
    const Counted counted;
    controller_.on_message(hosts_[host], decode(frame));
  }

  void free_output(const FakeClient& client) {
    controller_.on_message(client.session, FreeFrame{{client.output}});
  }

  const std::unique_ptr<Reactor> reactor_ = Reactor::make_simulated();
  std::vector<std::unique_ptr<FakeExecutor>> executors_;
  std::vector<std::unique_ptr<FakeClient>> clients_;
  Controller controller_{*reactor_};
  std::vector<HostId> hosts_;
  uint32_t positions_ = 0;  // Positions of a run.
};

}  // namespace

bool count_controller(int hosts, int clients) {
  constexpr int kUncounted = 3;  // Rounds until every section was measured.
  const int rounds = clients == 1 ? 20 : 1;
  Runs runs(hosts, clients);
  for (int round = 0; round < kUncounted; ++round) runs.round();
  {
    const Case counted(
        "controller, " + std::to_string(hosts) + " hosts, clients: " + std::to_string(clients),
        rounds * clients);
    for (int round = 0; round < rounds; ++round) runs.round();
  }
  return runs.all_ended(kUncounted + rounds);
}

}  // namespace ratchet
