#include "client/session.h"

#include <map>

#include "ir/wire/wire.h"
#include "protocol/frames.h"
#include "protocol/rpc_values.h"
#include "protocol/token_file.h"
#include "runtime/fibers/await.h"
#include "runtime/net/server.h"
#include "runtime/observe/trace.h"

namespace gangway::internal {
namespace {

std::vector<PlanPort> read_ports(capnp::List<wire::Session::Port>::Reader list) {
  std::vector<PlanPort> ports;
  for (auto port : list) {
    PlanPort& to = ports.emplace_back();
    to.name = port.getName().cStr();
    GW_REQUIRE(port.getDtype() < kDTypeCount, "compile: a reply with an unknown dtype");
    to.type.dtype = static_cast<DType>(port.getDtype());
    for (int64_t dim : port.getDims()) to.type.dims.push_back(dim);
  }
  return ports;
}

// Who is told of a compile, until that has ended.
struct CompileListener {
  std::function<void(const CompileProgress&)> on_progress;
  bool is_open = true;
  std::optional<Error> thrown;
};

class CompileWatcher final : public wire::CompileWatch::Server {
 public:
  explicit CompileWatcher(std::shared_ptr<CompileListener> listener)
      : listener_(std::move(listener)) {}

  kj::Promise<void> told(ToldContext context) override {
    if (!listener_->is_open || listener_->thrown) return kj::READY_NOW;
    const auto params = context.getParams();
    const Result<void> heard = result_of([&] {
      listener_->on_progress({.what = params.getWhat().cStr(), .part = params.getPart()});
    });
    if (!heard.ok()) listener_->thrown = heard.error();
    return kj::READY_NOW;
  }

 private:
  std::shared_ptr<CompileListener> listener_;
};

}  // namespace

class Session::Impl : public std::enable_shared_from_this<Session::Impl> {
 public:
  Impl(Reactor& reactor, Network& network, const std::string& address, const Options& options)
      : direct(std::make_shared<DirectSender>(reactor.mailbox())),
        desk(std::make_shared<RunDesk>(direct)),
        reactor_(reactor),
        warn_(options.on_warning),
        connection_(
            Connection::connect(reactor, network, address,
                                {.time_limit = std::chrono::milliseconds(options.timeout_ms),
                                 .token = shown_at(address, options.token_file)})),
        controller_(connection_->bootstrap<wire::Controller>()) {
    auto request = controller_.connectRequest();
    write(request.initVersion(), Version{});
    write(request.initMachine(), this_machine());
    request.setName(options.name);
    write(request.initShare(), options.share);
    auto response = await<capnp::Response<wire::Controller::ConnectResults>>(request.send());
    session_ = response.getSession();
    id = response.getId();
    run_credits = response.getRunCredits();
    copy_credits = response.getCopyCredits();
    frames_ =
        connect_frames(reactor, network, address, response.getFrameKey(), {.name = "controller"},
                       {.token = shown_at(address, options.token_file)});
    frames_->start([this](capnp::MessageReader& reader) { on_message(decode(reader)); });
    frames_->lend_to(direct);
    frames_->closed().on_ready([this](const Result<void>& result) {
      fail_all(Error(ErrorKind::kUnavailable,
                     cat("client: the controller is gone", result.ok() ? "" : ": ",
                         result.ok() ? "" : result.error().message()),
                     {}, "connect again, and restore state from a checkpoint"));
    });
    connection_->disconnected().on_ready([this](const Result<void>&) {
      // The controller's process has gone, so no frames will come any more.
      if (frames_ != nullptr) frames_->close();
    });
  }

  uint64_t allocate(const SliceShape& shape) {
    auto request = session_.allocateRequest();
    request.setDevices(shape.devices);
    request.setRanksPerDevice(shape.ranks_per_device);
    auto axes = request.initAxes(static_cast<uint32_t>(shape.axes.size()));
    for (uint32_t i = 0; i < axes.size(); ++i) axes.set(i, shape.axes[i]);
    request.setOneIsland(shape.one_island);
    request.setPerHostMax(shape.per_host_max);
    request.setMemoryBytes(shape.memory_bytes);
    request.setExclusive(shape.exclusive);
    request.setWaitMs(shape.wait_ms);
    request.setIslands(1);
    auto response = await<capnp::Response<wire::Session::AllocateResults>>(request.send());
    slices_.emplace(response.getId(), response.getSlice());
    return response.getId();
  }

  CompiledPlan compile(const Program& program, const std::vector<uint64_t>& slices,
                       const CompileOptions& options) {
    auto request = session_.compileRequest();
    const std::vector<std::byte> bytes = to_wire(program);
    request.setProgram(kj::arrayPtr(reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()));
    auto list = request.initSlices(static_cast<uint32_t>(slices.size()));
    for (uint32_t i = 0; i < list.size(); ++i) list.set(i, slices[i]);
    request.setRunsInFlightMax(static_cast<uint32_t>(options.runs_in_flight_max));
    request.setDispatch(static_cast<uint8_t>(options.dispatch));
    const auto listener = std::make_shared<CompileListener>(CompileListener{options.on_progress});
    if (options.on_progress) request.setWatch(kj::heap<CompileWatcher>(listener));
    KJ_DEFER(listener->is_open = false);
    auto response = await<capnp::Response<wire::Session::Compiled>>(request.send());
    if (listener->thrown) throw Error(*listener->thrown);
    CompiledPlan plan{.plan = PlanId(response.getPlan()),
                      .scope = response.getScope(),
                      .inputs = read_ports(response.getInputs()),
                      .outputs = read_ports(response.getOutputs()),
                      .states = read_ports(response.getStates()),
                      .sources = response.getSources(),
                      .text = response.getText().cStr()};
    for (auto host : response.getNeeds()) {
      for (const DeviceNeed& need : read(host.getNeeds())) {
        plan.memory.devices.push_back({need, host.getHost().cStr()});
      }
    }
    plans_.emplace(plan.plan, response.getExecutable());
    return plan;
  }

  ClusterStatus status() {
    auto request = controller_.statusRequest();
    write(request.initVersion(), Version{});
    auto response = await<capnp::Response<wire::Controller::StatusResults>>(request.send());
    ClusterStatus status{.metrics = response.getMetrics().cStr()};
    for (auto line : response.getHosts()) {
      auto host = line.getHost();
      status.hosts.push_back({.name = host.getName().cStr(),
                              .kind = host.getKind().cStr(),
                              .text = host.getText().cStr(),
                              .island = host.getIsland().cStr(),
                              .devices = host.getDevices(),
                              .memory_bytes = host.getMemoryBytes(),
                              .memory_used = line.getMemoryUsed(),
                              .runs_done = line.getRunsDone(),
                              .suspect_ms = line.getSuspectMs()});
      for (auto device : line.getStuck()) status.hosts.back().stuck.emplace_back(device.cStr());
    }
    for (auto line : response.getPrograms()) {
      status.programs.push_back({.id = line.getId(),
                                 .name = line.getName().cStr(),
                                 .owner = line.getOwner().cStr(),
                                 .share = read(line.getShare()),
                                 .used = line.getUsed(),
                                 .runs_waiting = line.getRunsWaiting(),
                                 .runs_in_flight = line.getRunsInFlight(),
                                 .runs_done = line.getRunsDone(),
                                 .reported = read(line.getReported()),
                                 .memory_bytes = line.getMemoryBytes(),
                                 .devices = line.getDevices(),
                                 .waits_for = line.getWaitsFor().cStr(),
                                 .is_self = line.getId() == id});
      for (auto host : line.getHosts()) status.programs.back().hosts.emplace_back(host.cStr());
    }
    return status;
  }

  void set_share(const Share& share) {
    auto request = session_.setShareRequest();
    write(request.initShare(), share);
    await<capnp::Response<wire::Session::SetShareResults>>(request.send());
  }

  // In a fiber, which this session need not outlive.
  void send_reports(std::shared_ptr<Reports> reports) {
    reactor_
        .spawn("send reports",
               [weak = weak_from_this(), reports = std::move(reports), &clock = reactor_.clock()] {
                 constexpr int64_t kEveryNs = 200'000'000;
                 while (const std::optional<Reported> numbers = reports->take()) {
                   if (const auto self = weak.lock()) self->send_report(*numbers);
                   WaitQueue().wait_until_ns("for the next report", clock.now_ns() + kEveryNs);
                 }
               })
        .detach();
  }

  // A controller that is gone need not hear it.
  void send_report(const Reported& numbers) {
    if (gone_) return;
    auto request = session_.reportRequest();
    write(request.initNumbers(static_cast<uint32_t>(numbers.size())), numbers);
    request.send().ignoreResult().detach([](const kj::Exception&) {});
  }

  void send(const Message& message) {
    send_freed();
    if (!gone_) frames_->send(encode(message));
  }

  // What is let go together is one frame, for the controller and for all hosts: it leaves before
  // the next frame, or as soon as whoever lets go is done.
  void free(ArrayId array) {
    freed_.push_back(array);
    if (freed_.size() > 1) return;
    reactor_
        .spawn("free arrays",
               [weak = weak_from_this()] {
                 if (const auto self = weak.lock()) self->send_freed();
               })
        .detach();
  }

  void on_message(Message message) {
    if (auto* done = std::get_if<RunDoneFrame>(&message)) {
      TraceSpan span("run done", done->run.value);
      if (frames_->lends()) look_for_let_go();
      if (const RunDone told = desk->take(done->run)) told(std::move(*done));
    } else if (auto* copied = std::get_if<CopyDoneFrame>(&message)) {
      auto node = copies.extract(copied->request);
      if (!node.empty()) node.mapped()(copied->error);
    } else if (const auto* warning = std::get_if<WarningFrame>(&message)) {
      warn_(warning->text);
    } else {
      throw Error(ErrorKind::kInvalid,
                  "frame: the controller sent a kind of frame that is not its "
                  "to send to a client");
    }
  }

  void fail_all(const Error& why) {
    if (gone_) return;
    gone_ = why;
    for (auto& [run, done] : desk->close()) done({.run = run, .error = why});
    for (auto& [request, done] : std::exchange(copies, {})) done(why);
  }

  // Calls under way fail with the connection.
  void close() {
    fail_all(closed_error());
    frames_.reset();
    connection_.reset();
  }

  const std::optional<Error>& gone() const { return gone_; }
  void warn(const std::string& line) const { warn_(line); }
  void release_slice(uint64_t slice) { slices_.erase(slice); }
  void release_plan(PlanId plan) { plans_.erase(plan); }

  const std::shared_ptr<DirectSender> direct;
  const std::shared_ptr<RunDesk> desk;
  uint64_t id = 0;
  int64_t run_credits = 0, copy_credits = 0;
  uint64_t last_request = 0;
  std::map<uint64_t, CopyDone> copies;

 private:
  void send_freed() {
    const std::vector<ArrayId> let_go = desk->take_let_go();
    freed_.insert(freed_.end(), let_go.begin(), let_go.end());
    if (freed_.empty()) return;
    const FreeFrame frame{std::exchange(freed_, {})};
    if (!gone_) frames_->send(encode(frame));
  }

  // Runs that follow one another take along what was let go between them; what is left after the
  // last one is told a little later. Nobody wakes the reactor for it.
  void look_for_let_go() {
    if (!desk->begin_to_look()) return;
    reactor_
        .spawn("look for what is let go",
               [weak = weak_from_this(), &clock = reactor_.clock()] {
                 constexpr int64_t kLookNs = 1'000'000;
                 do {
                   WaitQueue().wait_until_ns("for what is let go", clock.now_ns() + kLookNs);
                   const auto self = weak.lock();
                   if (self == nullptr) return;
                   self->send_freed();
                   if (self->desk->may_end_to_look()) return;
                 } while (true);
               })
        .detach();
  }

  Reactor& reactor_;
  const std::function<void(const std::string&)> warn_;
  std::optional<Connection> connection_;
  wire::Controller::Client controller_;
  wire::Session::Client session_ = nullptr;
  std::map<uint64_t, wire::Slice::Client> slices_;
  std::map<PlanId, wire::Executable::Client> plans_;
  std::optional<Error> gone_;
  std::unique_ptr<FrameStream> frames_;
  std::vector<ArrayId> freed_;  // The controller has not been told yet.
};

Session::Session(Reactor& reactor, Network& network, const std::string& address,
                 const Options& options)
    : impl_(std::make_shared<Impl>(reactor, network, address, options)) {
  desk_ = impl_->desk;
}

Session::~Session() { close(); }

void Session::close() {
  if (const auto impl = std::exchange(impl_, nullptr)) impl->close();
}

Error Session::closed_error() { return Error(ErrorKind::kCancelled, "client: closed"); }

std::shared_ptr<Session::Impl> Session::open() const {
  if (impl_ == nullptr) throw closed_error();
  return impl_;
}

uint64_t Session::id() const { return open()->id; }
int64_t Session::run_credits() const { return open()->run_credits; }
int64_t Session::copy_credits() const { return open()->copy_credits; }
uint64_t Session::allocate(const SliceShape& shape) {
  const std::shared_ptr<Impl> impl = open();
  try {
    return impl->allocate(shape);
  } catch (const Error&) {
    open();  // Where the client was closed meanwhile, that is why.
    throw;
  }
}
void Session::release_slice(uint64_t slice) {
  if (impl_ != nullptr) impl_->release_slice(slice);
}
CompiledPlan Session::compile(const Program& program, const std::vector<uint64_t>& slices,
                              const CompileOptions& options) {
  return open()->compile(program, slices, options);
}
void Session::release_plan(PlanId plan) {
  if (impl_ != nullptr) impl_->release_plan(plan);
}
ClusterStatus Session::status() { return open()->status(); }
void Session::set_share(const Share& share) { open()->set_share(share); }
void Session::send_reports(std::shared_ptr<Reports> reports) {
  if (impl_ != nullptr) impl_->send_reports(std::move(reports));
}
void Session::warn(const std::string& line) const { open()->warn(line); }

void Session::run(const RunFrame& frame, RunDone done) {
  TraceSpan span("send run", frame.run.value);
  if (impl_ == nullptr) return done({.run = frame.run, .error = closed_error()});
  if (impl_->gone()) return done({.run = frame.run, .error = impl_->gone()});
  desk_->add(frame.run, std::move(done));
  impl_->send(frame);
}

void Session::cancel(RunId run, const Error& why) {
  if (impl_ != nullptr) impl_->send(CancelFrame{run, why});
}

void Session::copy(CopyFrame frame, CopyDone done) {
  if (impl_ == nullptr) return done(closed_error());
  if (impl_->gone()) return done(impl_->gone());
  frame.request = ++impl_->last_request;
  impl_->copies.emplace(frame.request, std::move(done));
  impl_->send(frame);
}

void Session::free(ArrayId array) {
  if (impl_ != nullptr) impl_->free(array);
}

}  // namespace gangway::internal
