// An executor on a simulated network, and a fake controller that sends it the frames that a test
// chooses.
//
// Threads: the reactor's, in a fiber.
// Ownership: the reactor outlives them.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/service/service.h"
#include "ir/plan/plan_wire.h"
#include "protocol/frames.h"
#include "protocol/rpc_values.h"
#include "protocol/timeline_wire.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/net/sim_network.h"
#include "tests/support/messages.h"
#include "tests/support/training_step.h"

namespace gangway {

// Accepts one executor, and sends it the frames that a test chooses.
class FakeController {
 public:
  FakeController(Reactor& reactor, SimNetwork& network)
      : frames_(reactor, {.name = "executor"}),
        server_(reactor, network.endpoint("controller"), "sim:controller",
                {.bootstrap = [this](const Peer&) { return kj::heap<Bootstrap>(*this); },
                 .frames_of = [this](uint64_t, const std::string&) { return &frames_; }}) {
    frames_.start([this](capnp::MessageReader& reader) { received.push_back(decode(reader)); });
  }

  void send(const Message& message) { frames_.send(encode(message)); }
  wire::Executor::Client& executor() { return *executor_; }

  std::vector<Message> received;

 private:
  class Registration final : public wire::Registration::Server {};
  class Bootstrap final : public wire::Controller::Server {
   public:
    explicit Bootstrap(FakeController& owner) : owner_(owner) {}
    kj::Promise<void> registerExecutor(RegisterExecutorContext context) override {
      owner_.executor_ = context.getParams().getExecutor();
      context.getResults().setName("host-0");
      context.getResults().setFrameKey(1);
      context.getResults().setRegistration(kj::heap<Registration>());
      return kj::READY_NOW;
    }

   private:
    FakeController& owner_;
  };

  std::optional<wire::Executor::Client> executor_;
  FrameStream frames_;
  Server server_;
};

// Stages of plan 1 and run 1.
enum class Stage : uint8_t {
  kNothing,
  kInstalled,
  kLinked,
  kReady,
  kPrepared,
  kGrantedInPart,
  kRunning,  // The run has all its tickets.
  kEnded,
  kCancelled,    // The run has no tickets yet, and so has not ended.
  kUninstalled,  // The run ended before.
  kBroken        // Prepared, and the connection breaks with the next frame.
};
inline constexpr size_t kStages = 11;
inline constexpr std::string_view kStageLetters = "nilrpgxecub";

inline constexpr PlanId kPlan{1}, kOther{2}, kUnknownPlan{77};
inline constexpr RunId kRun{1}, kUnknownRun{77};
inline constexpr uint32_t kDevices = 2;
inline constexpr uint32_t kPositions = 3;  // A call, the gate, the commit.

inline GrantFrame grant(RunId run, uint32_t first, uint32_t count, uint64_t ticket,
                        uint32_t slice = 0) {
  return {{{.run = run, .slice = slice, .first = first, .count = count, .ticket = Ticket(ticket)}}};
}

// An executor of two devices, brought to a stage as a controller would.
class ExecutorScene {
 public:
  explicit ExecutorScene(Reactor& reactor, size_t kept_events = 0)
      : reactor_(reactor),
        network_(reactor, {.delay = std::chrono::microseconds(20)}),
        controller_(reactor, network_),
        executor_(std::make_unique<ExecutorService>(
            reactor, network_.endpoint("executor"),
            ExecutorServiceOptions{
                .controller = "sim:controller",
                .host = {.name = "host-0", .kind = DeviceKind::kSim, .devices = kDevices},
                .kept_events = kept_events})) {}

  void bring_to(Stage stage) {
    if (stage == Stage::kNothing) return;
    const std::vector<LinkOffer> offers = install(kPlan);
    if (stage == Stage::kInstalled) return;
    link(kPlan, offers);
    if (stage == Stage::kLinked) return;
    make_ready(kPlan);
    if (stage == Stage::kReady) return;
    controller_.send(PrepareFrame{0, step_request(kPlan, 1)});
    switch (stage) {
      case Stage::kGrantedInPart: controller_.send(grant(kRun, 0, 1, 10)); break;
      case Stage::kRunning: controller_.send(grant(kRun, 0, kPositions, 10, kEverySlice)); break;
      case Stage::kCancelled:
        controller_.send(CancelFrame{kRun, Error(ErrorKind::kCancelled, "enough")});
        break;
      case Stage::kBroken:
        pass_ms(1);
        network_.set_frame_fault([broken = false](const std::string& from, auto&) mutable {
          const bool now = from == "controller" && !std::exchange(broken, true);
          return FrameFault{now ? FrameFault::Kind::kBreak : FrameFault::Kind::kNothing};
        });
        break;
      case Stage::kEnded:
      case Stage::kUninstalled:
        controller_.send(grant(kRun, 0, kPositions, 10, kEverySlice));
        wait_for_end(kRun);
        if (stage == Stage::kUninstalled) controller_.send(UninstallFrame{kPlan});
        break;
      case Stage::kNothing:
      case Stage::kInstalled:
      case Stage::kLinked:
      case Stage::kReady:
      case Stage::kPrepared: break;
    }
    if (stage != Stage::kRunning && stage != Stage::kBroken) pass_ms(1);
  }

  void send(const Message& message) { controller_.send(message); }

  bool has_ended() const { return executor_->disconnected().ready(); }
  Error why_ended() const { return executor_->disconnected().result().error(); }

  // Grants a prepared run the tickets that it lacks, and brings it to its end.
  void finish(Stage stage) {
    const bool has_none =
        stage == Stage::kPrepared || stage == Stage::kBroken || stage == Stage::kCancelled;
    const uint32_t from = has_none ? 0 : stage == Stage::kGrantedInPart ? 1 : kPositions;
    for (uint32_t p = from; p < kPositions; ++p) send(grant(kRun, p, 1, 10'000 + p));
    wait_for_end(kRun);
  }

  const RunDoneFrame* end_of(RunId run) const {
    for (const Message& message : controller_.received) {
      const auto* done = std::get_if<RunDoneFrame>(&message);
      if (done != nullptr && done->run == run) return done;
    }
    return nullptr;
  }
  // Reports of ends, which may come late or twice.
  size_t ends() const { return all_of<RunDoneFrame>(controller_.received).size(); }
  std::vector<HostTransferDoneFrame> copies() const {
    return all_of<HostTransferDoneFrame>(controller_.received);
  }

  // The loss that a new plan computes in its first step: 8.
  float loss_of_another_plan() {
    link(kOther, install(kOther, {9}));
    make_ready(kOther);
    send(PrepareFrame{0, step_request(kOther, 500)});
    send(grant(RunId(500), 0, kPositions, 20'000, kEverySlice));
    wait_for_end(RunId(500));
    return loss(RunId(500));
  }
  float loss(RunId run) const {
    const RunDoneFrame* done = end_of(run);
    float loss = -1;
    if (done == nullptr || done->error || done->outputs.empty()) return loss;
    std::memcpy(&loss, done->outputs[0].bytes.data(), sizeof loss);
    return loss;
  }

  // Bytes that are still allocated after everything was freed.
  int64_t bytes_left() {
    for (const PlanId plan : {kPlan, kOther}) send(UninstallFrame{plan});
    for (const uint64_t scope : {1, 9}) send(FreeScopeFrame{{scope}});
    FreeFrame all;
    for (uint64_t id = 0; id < 2000; ++id) all.arrays.emplace_back(id);
    send(all);
    pass_ms(10);
    int64_t bytes = 0;
    for (uint32_t d = 0; d < kDevices; ++d) bytes += executor_->host().bytes_in_use(d);
    return bytes;
  }

  std::vector<LinkOffer> install(PlanId plan, StateScope scope = {1}) {
    auto request = controller_.executor().installRequest();
    const std::vector<std::byte> bytes = to_wire(*training_step(1, kDevices));
    request.setPlan(plan.value);
    request.setBytes(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
    request.setScope(scope.id);
    return read(await(request.send()).getOffers());
  }
  void link(PlanId plan, const std::vector<LinkOffer>& offers) {
    auto request = controller_.executor().linkRequest();
    request.setPlan(plan.value);
    write(request.initOffers(static_cast<uint32_t>(offers.size())), offers);
    await(request.send());
  }
  void commit_install(PlanId plan) {
    auto request = controller_.executor().commitInstallRequest();
    request.setPlan(plan.value);
    await(request.send());
  }
  HostTimeline timeline(uint32_t events_max) {
    auto request = controller_.executor().timelineRequest();
    request.setEventsMax(events_max);
    return read(await(request.send()).getTimeline());
  }
  // Commits the plan's install, and puts the input of its runs into array 100.
  void make_ready(PlanId plan) {
    commit_install(plan);
    const std::vector<float> x(16, 3.0f);
    const auto bytes = static_cast<int64_t>(x.size() * sizeof(float));
    std::memcpy(segment_.data(), x.data(), x.size() * sizeof(float));
    send(HostTransferFrame{.request = 1000 + plan.value,
                           .kind = HostTransferKind::kPut,
                           .at = {.segment = segment_.descriptor(), .bytes = bytes},
                           .array = ArrayId(100),
                           .plan = plan});
    wait_until([&] { return !copies().empty() && copies().back().request == 1000 + plan.value; });
  }

  void wait_for_end(RunId run) {
    wait_until([&] { return end_of(run) != nullptr; });
  }
  void wait_until(const std::function<bool()>& done) {
    for (int i = 0; i < 1000 && !done() && !has_ended(); ++i) pass_ms(1);
  }
  void pass_ms(int64_t ms) {
    WaitQueue().wait_until_ns("for time to pass", reactor_.clock().now_ns() + ms * 1'000'000);
  }

 private:
  Reactor& reactor_;
  SharedSegment segment_ = SharedSegment::create(4096);
  SimNetwork network_;
  FakeController controller_;
  std::unique_ptr<ExecutorService> executor_;
};

}  // namespace gangway
