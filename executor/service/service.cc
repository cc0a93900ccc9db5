#include "executor/service/service.h"

#include <unistd.h>

#include <optional>
#include <utility>

#include "executor/checkpoints/checkpoint_store.h"
#include "ir/graph/node_count.h"
#include "ir/plan/plan_wire.h"
#include "protocol/checkpoint_wire.h"
#include "protocol/frames.h"
#include "protocol/rpc_values.h"
#include "protocol/segment_wire.h"
#include "protocol/timeline_wire.h"
#include "protocol/token_file.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/background.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/net/server.h"
#include "runtime/observe/trace.h"

namespace gangway {
namespace {

constexpr Duration kLeaveTimeLimit = std::chrono::milliseconds(100);

size_t nodes_of(const Plan& plan) {
  NodeCount count;
  for (const LocalFunction& local : plan.functions) count.add(*local.function);
  return plan.nodes.size() + count.nodes();
}

// The calls that the controller makes.
class ExecutorServer final : public wire::Executor::Server {
 public:
  // `tracer` may be null.
  ExecutorServer(Host& host, CheckpointStore& checkpoints, Background& background,
                 FiberGroup& fibers, Pacer* pacer, Tracer* tracer)
      : host_(host),
        checkpoints_(checkpoints),
        background_(background),
        fibers_(fibers),
        pacer_(pacer),
        tracer_(tracer) {}

  kj::Promise<void> install(InstallContext context) override {
    return in_fiber(fibers_, "install", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const auto* const first = reinterpret_cast<const std::byte*>(params.getBytes().begin());
      std::vector<std::byte> bytes(first, first + params.getBytes().size());
      auto plan = background_.run([bytes = std::move(bytes)] {
        return std::make_shared<const Plan>(plan_from_wire(bytes));
      });
      if (pacer_ != nullptr) pacer_->compile(nodes_of(*plan));
      GW_REQUIRE(params.getSelf() < plan->hosts.size(), "install: host ", params.getSelf(),
                 " of a plan of ", plan->hosts.size());
      const Installed installed =
          host_
              .install(PlanId(params.getPlan()), std::move(plan), params.getSelf(),
                       {params.getScope()},
                       {.is_operator = !params.getOfOther(), .name = params.getOwner().cStr()},
                       read(params.getTexts()))
              .take();
      auto results = context.getResults();
      write(results.initNeeds(static_cast<uint32_t>(installed.needs.size())), installed.needs);
      write(results.initOffers(static_cast<uint32_t>(installed.offers.size())), installed.offers);
      write(results.initTexts(static_cast<uint32_t>(installed.texts.size())), installed.texts);
      auto writes_to = results.initWritesTo(static_cast<uint32_t>(installed.writes_to.size()));
      for (uint32_t i = 0; i < writes_to.size(); ++i) writes_to.set(i, installed.writes_to[i]);
    });
  }

  kj::Promise<void> link(LinkContext context) override {
    return in_fiber(fibers_, "link", [this, self = thisCap(), context]() mutable {
      const auto params = context.getParams();
      host_.link(PlanId(params.getPlan()), read(params.getOffers()));
    });
  }

  kj::Promise<void> commitInstall(CommitInstallContext context) override {
    return in_fiber(fibers_, "commit install", [this, self = thisCap(), context]() mutable {
      host_.commit_install(PlanId(context.getParams().getPlan())).await();
    });
  }

  kj::Promise<void> moveStates(MoveStatesContext context) override {
    return in_fiber(fibers_, "move states", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      MoveRequest request{.plans = {}, .scopes = {}, .to_host = params.getToHost()};
      for (const uint64_t plan : params.getPlans()) request.plans.emplace_back(plan);
      for (const uint64_t scope : params.getScopes()) request.scopes.push_back({scope});
      context.getResults().setBytes(host_.move_states(request).take());
    });
  }

  kj::Promise<void> makeSegment(MakeSegmentContext context) override {
    return in_fiber(fibers_, "make a segment", [this, self = thisCap(), context]() mutable {
      const auto made = checkpoints_.make_segment(context.getParams().getBytes());
      context.getResults().setNumber(made.number);
      write_segment(context.getResults().initSegment(), made.descriptor);
    });
  }

  kj::Promise<void> writeCheckpoint(WriteCheckpointContext context) override {
    return in_fiber(fibers_, "write a checkpoint", [this, self = thisCap(), context]() mutable {
      const auto params = context.getParams();
      checkpoints_.write(params.getNumber(), read(params.getFiles()));
    });
  }

  kj::Promise<void> readCheckpoint(ReadCheckpointContext context) override {
    return in_fiber(fibers_, "read a checkpoint", [this, self = thisCap(), context]() mutable {
      const auto params = context.getParams();
      const std::vector<std::string> missing =
          checkpoints_.read(params.getNumber(), read(params.getFiles()));
      auto results = context.getResults().initMissing(static_cast<uint32_t>(missing.size()));
      for (uint32_t i = 0; i < missing.size(); ++i) results.set(i, missing[i]);
    });
  }

  kj::Promise<void> closeSegment(CloseSegmentContext context) override {
    return in_fiber(fibers_, "close a segment", [this, self = thisCap(), context]() mutable {
      checkpoints_.close_segment(context.getParams().getNumber());
    });
  }

  kj::Promise<void> timeline(TimelineContext context) override {
    return in_fiber(fibers_, "timeline", [this, self = thisCap(), context]() mutable {
      GW_REQUIRE(tracer_ != nullptr, "timeline: this executor keeps none");
      write(context.getResults().initTimeline(),
            tracer_->newest(context.getParams().getEventsMax()));
    });
  }

 private:
  Host& host_;
  CheckpointStore& checkpoints_;
  Background& background_;
  FiberGroup& fibers_;
  Pacer* const pacer_;
  Tracer* const tracer_;
};

DialOptions dial_options(const ExecutorServiceOptions& options) {
  return {.time_limit = std::chrono::milliseconds(options.connect_timeout_ms),
          .token = shown_at(options.controller, options.token_file)};
}

}  // namespace

class ExecutorService::Impl final : public HostEvents {
 public:
  Impl(Reactor& reactor, Network& network, Connection connection,
       const ExecutorServiceOptions& options)
      : reactor_(reactor),
        log_(options.log),
        pacer_(options.frames.pacer),
        tracer_(options.host.tracer),
        host_(reactor, with_tracer(options), *this),
        checkpoints_(reactor),
        background_(reactor, "plan reader", 1),
        fibers_(reactor),
        connection_(std::move(connection)) {
    open_frames(network, options, register_host(options.host, options.name_is_chosen));
    frames_->start([this](capnp::MessageReader& reader) { on_message(decode(reader)); });
    frames_->closed().on_ready([this](const Result<void>& result) {
      end(Error(ErrorKind::kUnavailable,
                cat("executor \"", name_, "\": its connection to the controller ended",
                    result.ok() ? "" : ": ", result.ok() ? "" : result.error().message()),
                {.host = name_},
                "it has gone, or it has heard nothing of this executor for too long and counts it "
                "as lost"));
    });
    connection_.disconnected().on_ready([this](const Result<void>&) {
      // The controller's process has gone, so no more frames will come.
      if (!closing_) frames_->close();
    });
    fibers_.spawn("heartbeat", [this, interval = options.heartbeat_interval_ms] {
      while (!ended_.is_set()) {
        wake_pacer();
        send_heartbeat();
        WaitQueue().wait_until_ns("for the next heartbeat",
                                  reactor_.clock().now_ns() + interval * 1'000'000);
      }
    });
    fibers_.spawn("stuck watch", [this] {
      while (!ended_.is_set()) {
        wake_pacer();
        if (host_.look_for_stuck()) report_stuck();
        WaitQueue().wait_until_ns("for the next look at what is stuck",
                                  reactor_.clock().now_ns() + Host::kLookMs * 1'000'000);
      }
    });
  }
  ~Impl() noexcept override {
    closing_ = true;
    leave();
    fibers_.cancel();
  }

  const std::string& name() const { return name_; }
  Host& host() { return host_; }
  Future<void> ended() const { return ended_.future(); }
  std::map<std::string, size_t> census() const {
    std::map<std::string, size_t> counts = host_.census();
    counts["segments of checkpoints"] = checkpoints_.segments();
    return counts;
  }

  void run_done(RunDoneFrame done) override {
    ++runs_done_;
    send(std::move(done));
  }
  void progress(ProgressFrame news) override { send(std::move(news)); }
  void transfer_done(HostTransferDoneFrame done) override { send(std::move(done)); }
  void link_broken(LinkBrokenFrame broken) override {
    log_.warn("link to a peer is broken", {{"why", broken.why}});
    send(std::move(broken));
  }

 private:
  // Records events itself if they are to be kept and no other tracer is given.
  HostOptions with_tracer(const ExecutorServiceOptions& options) {
    if (tracer_ == nullptr && options.kept_events > 0)
      tracer_ = &kept_.emplace(reactor_.clock(), options.host.name, options.kept_events);
    HostOptions host = options.host;
    host.tracer = tracer_;
    return host;
  }

  uint64_t register_host(const HostOptions& options, bool name_is_chosen) {
    auto request = connection_.bootstrap<wire::Controller>().registerExecutorRequest();
    write(request.initVersion(), Version{});
    write(request.initMachine(), this_machine());
    auto description = request.initDescription();
    description.setName(options.name);
    description.setNameIsChosen(name_is_chosen);
    description.setDevices(static_cast<uint32_t>(options.devices));
    description.setMemoryBytes(host_.options().memory_bytes);
    description.setKind(options.kind == DeviceKind::kCpu   ? "cpu"
                        : options.kind == DeviceKind::kSim ? "sim"
                                                           : "cuda");
    description.setText(host_.describe_devices());
    description.setProcess(getpid());
    description.setIsland(options.island);
    request.setExecutor(
        kj::heap<ExecutorServer>(host_, checkpoints_, background_, fibers_, pacer_, tracer_));
    auto response =
        await<capnp::Response<wire::Controller::RegisterExecutorResults>>(request.send());
    name_ = response.getName().cStr();
    registration_ = response.getRegistration();
    return response.getFrameKey();
  }

  void open_frames(Network& network, const ExecutorServiceOptions& options, uint64_t key) {
    FrameOptions frames = options.frames;
    frames.name = "controller";
    std::optional<Error> refused;
    try {
      frames_ = connect_frames(reactor_, network, options.controller, key, std::move(frames),
                               {.token = dial_options(options).token});
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInvalid) throw;
      refused = error;
    }
    // The controller took the registration, so another controller has its address now, or this one
    // counts the host as lost.
    throw Error(ErrorKind::kUnavailable,
                cat("executor \"", name_, "\": registered, then refused: ", refused->message()),
                {.host = name_}, "register again");
  }

  void send(const Message& message) {
    if (closing_ || frames_ == nullptr || ended_.is_set()) return;
    frames_->send(encode(message));
  }

  // Called when a timer of this process is due.
  void wake_pacer() {
    if (pacer_ != nullptr) pacer_->wake();
  }

  // In a simulation the host-side work of a run takes time. Suspends there.
  template <class SomeFrame>
  void pace(const SomeFrame& frame) {
    if (pacer_ != nullptr) pacer_->prepare_calls(host_.calls_to_prepare(frame));
  }

  void send_heartbeat() {
    send(HeartbeatFrame{runs_done_, host_.moved_bytes(), host_.stuck(),
                        static_cast<uint32_t>(reactor_.longest_stretch_ns() / 1'000'000)});
  }

  // Called when the set of stuck devices has changed.
  void report_stuck() {
    send_heartbeat();
    if (host_.stuck().empty()) return log_.warn("no device is stuck any more");
    for (const StuckDevice& stuck : host_.stuck()) {
      log_.warn("device is stuck", {{"device", stuck.device},
                                    {"run", stuck.run},
                                    {"in", stuck.what},
                                    {"at", stuck.at},
                                    {"for_ms", stuck.ms},
                                    {"waits_for_others", stuck.waits}});
    }
    log_.warn(cat("devices:\n", host_.describe_work(), "fibers:\n", reactor_.describe_fibers()));
  }

  // Says that this host leaves, so that the controller does not count it as lost. Does not wait for
  // a controller that does not answer.
  void leave() {
    if (ended_.is_set() || connection_.disconnected().ready()) return;
    await_end(registration_.leaveRequest().send().ignoreResult(),
              reactor_.clock().now_ns() + kLeaveTimeLimit.count());
  }

  void end(const Error& why) {
    if (!closing_ && !ended_.is_set()) ended_.fail(why);
  }

  void on_message(Message message) {
    if (auto* prepare = std::get_if<PrepareFrame>(&message)) {
      pace(*prepare);
      host_.prepare(*prepare);
    } else if (auto* grant = std::get_if<GrantFrame>(&message)) {
      pace(*grant);
      host_.grant(*grant);
    } else if (auto* freed = std::get_if<FreeFrame>(&message)) {
      host_.free(freed->arrays);
    } else if (auto* cancel = std::get_if<CancelFrame>(&message)) {
      host_.cancel(cancel->run, cancel->error.kind(), cancel->error.message());
    } else if (auto* transfer = std::get_if<HostTransferFrame>(&message)) {
      if (transfer->kind == HostTransferKind::kReadState ||
          transfer->kind == HostTransferKind::kWriteState)
        host_.take_ticket(transfer->ticket);
      start_transfer(*transfer);
    } else if (auto* uninstall = std::get_if<UninstallFrame>(&message)) {
      host_.uninstall(uninstall->plan, uninstall->refused);
    } else if (auto* scope = std::get_if<FreeScopeFrame>(&message)) {
      host_.free_scope(scope->scope);
    } else {
      throw Error(ErrorKind::kInvalid,
                  "frame: the controller sent a kind of frame that is not its to send");
    }
  }

  void start_transfer(const HostTransferFrame& frame) {
    try {
      switch (frame.kind) {
        case HostTransferKind::kPut:
          return host_.put(frame.request, frame.array, frame.plan, frame.input, frame.at);
        case HostTransferKind::kGet: return host_.get(frame.request, frame.array, frame.at);
        case HostTransferKind::kWriteState:
          return host_.write_state(frame.request, frame.scope, frame.name, frame.at, frame.ticket,
                                   frame.part);
        case HostTransferKind::kReadState:
          return host_.read_state(frame.request, frame.scope, frame.name, frame.at, frame.ticket,
                                  frame.part);
      }
    } catch (const Error& error) {
      const SegmentDescriptor& memory = frame.at.segment;
      log_.info("copy: refused", {{"process", memory.pid},
                                  {"file", memory.fd},
                                  {"bytes", memory.bytes},
                                  {"why", error.message()}});
      transfer_done({frame.request, error});
    }
  }

  Reactor& reactor_;
  const Logger log_;
  Pacer* const pacer_;
  std::string name_;
  Promise<void> ended_;
  bool closing_ = false;
  uint64_t runs_done_ = 0;
  std::optional<Tracer> kept_;
  Tracer* tracer_;  // Null: nothing is recorded.
  Host host_;
  CheckpointStore checkpoints_;
  Background background_;
  FiberGroup fibers_;  // Before the connection: its calls become fibers until it is closed.
  Connection connection_;
  wire::Registration::Client registration_ = nullptr;
  std::unique_ptr<FrameStream> frames_;
};

ExecutorService::ExecutorService(Reactor& reactor, Network& network, ExecutorServiceOptions options)
    : ExecutorService(reactor, network, connect_to_controller(reactor, network, options), options) {
}
ExecutorService::ExecutorService(Reactor& reactor, Network& network, Connection connection,
                                 ExecutorServiceOptions options)
    : impl_(std::make_unique<Impl>(reactor, network, std::move(connection), options)) {}
ExecutorService::~ExecutorService() = default;

const std::string& ExecutorService::name() const { return impl_->name(); }
Host& ExecutorService::host() { return impl_->host(); }
std::map<std::string, size_t> ExecutorService::census() const { return impl_->census(); }
Future<void> ExecutorService::disconnected() const { return impl_->ended(); }

Connection connect_to_controller(Reactor& reactor, Network& network,
                                 const ExecutorServiceOptions& options) {
  return Connection::connect(reactor, network, options.controller, dial_options(options));
}

}  // namespace gangway
