#include "client/session.h"

#include <algorithm>
#include <map>
#include <type_traits>

#include "client/connection.h"
#include "client/session_wire.h"
#include "client/status_calls.h"
#include "ir/wire/wire.h"
#include "protocol/checkpoint_wire.h"
#include "protocol/error_wire.h"
#include "protocol/frames.h"
#include "protocol/rpc_values.h"
#include "protocol/segment_wire.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/observe/trace.h"

namespace gangway::internal {
namespace {

Error detached_error() { return {ErrorKind::kCancelled, "client: detached from its program"}; }

// Takes reports of a compile, until the compile has ended.
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
        connection_(reactor, network, address,
                    {.name = options.name,
                     .number_name = options.number_name,
                     .attaches = options.attaches,
                     .share = options.share,
                     .timeout_ms = options.timeout_ms,
                     .token_file = options.token_file,
                     .on_warning = options.on_warning,
                     .on_gone = [this](const Error& why) { gone_for_good(why); },
                     .on_stop =
                         [this, tell = options.on_stop](const StopAsked& asked) {
                           if (!asked.controller_ends) stopped_by_ = asked.by;
                           controller_ends_ |= asked.controller_ends;
                           return tell && tell(asked.by, asked.grace_ms);
                         }}) {
    const ControllerConnection::Granted& granted = connection_.granted();
    id = granted.id;
    name = granted.name;
    run_credits = granted.run_credits;
    copy_credits = granted.copy_credits;
    frames_ = connection_.open_frames();
    frames_->start([this](capnp::MessageReader& reader) { on_message(decode(reader)); });
    frames_->lend_to(direct);
    frames_->closed().on_ready([this](const Result<void>& result) {
      if (is_leaving_) return;  // detach() says how it ends.
      const Error why(ErrorKind::kUnavailable,
                      cat("client: the controller is gone", result.ok() ? "" : ": ",
                          result.ok() ? "" : result.error().message()),
                      {}, "connect again, and restore state from a checkpoint");
      connection_.give_up(fail_all(why));
    });
  }

  uint64_t allocate(const SliceShape& shape) {
    return made([&](uint64_t call) {
      const auto response = connection_.ask<wire::Session::AllocateResults>([&](auto& session) {
        auto request = session.allocateRequest();
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
        request.setCall(call);
        request.setReleases(releases_);
        return request.send();
      });
      slices_.emplace(response.getId(), call);
      return response.getId();
    });
  }

  // While allocate() waits, on_wait is told what for.
  uint64_t allocate(const SliceShape& shape,
                    const std::function<void(const std::string&)>& on_wait) {
    if (!on_wait || shape.wait_ms == 0) return allocate(shape);
    constexpr int64_t kEveryNs = 1'000'000'000;
    uint64_t slice = 0;
    bool is_done = false;
    std::optional<Error> failed;
    WaitQueue changed;
    FiberGroup asks(reactor_);
    asks.spawn("allocate", [&] {
      const Result<void> done = result_of([&] { slice = allocate(shape); });
      if (!done.ok()) failed = done.error();
      is_done = true;
      changed.wake_all();
    });
    while (!is_done) {
      changed.wait_until_ns("for a slice", reactor_.clock().now_ns() + kEveryNs);
      const std::string what = is_done ? "" : waits_for();
      if (is_done || what.empty()) continue;
      const Result<void> told = result_of([&] { on_wait(what); });
      if (told.ok()) continue;
      asks.cancel();
      if (slice != 0) release_slice(slice);
      throw Error(told.error());
    }
    if (failed) throw Error(*failed);
    return slice;
  }

  // The controller's words for what this client waits for; empty also while it can't be asked.
  std::string waits_for() {
    const Result<ClusterStatus> now = result_of([&] { return status(); });
    if (!now.ok()) {
      if (now.error().kind() == ErrorKind::kCancelled) throw Error(now.error());
      return "";
    }
    const auto self = std::ranges::find(now.value().programs, true, &ProgramStatus::is_self);
    return self == now.value().programs.end() ? "" : self->waits_for;
  }

  CompiledPlan compile(const std::vector<std::byte>& program, const std::vector<uint64_t>& slices,
                       const CompileOptions& options) {
    const auto listener = std::make_shared<CompileListener>(CompileListener{options.on_progress});
    KJ_DEFER(listener->is_open = false);
    return made([&](uint64_t call) {
      const auto response = connection_.ask<wire::Session::Compiled>([&](auto& session) {
        auto request = session.compileRequest();
        request.setProgram(
            kj::arrayPtr(reinterpret_cast<const kj::byte*>(program.data()), program.size()));
        auto list = request.initSlices(static_cast<uint32_t>(slices.size()));
        for (uint32_t i = 0; i < list.size(); ++i) list.set(i, slices[i]);
        request.setRunsInFlightMax(static_cast<uint32_t>(options.runs_in_flight_max));
        request.setDispatch(static_cast<uint8_t>(options.dispatch));
        request.setName(options.name);
        if (options.on_progress) request.setWatch(kj::heap<CompileWatcher>(listener));
        request.setCall(call);
        request.setReleases(releases_);
        return request.send();
      });
      if (listener->thrown) {
        release_call(call);
        throw Error(*listener->thrown);
      }
      CompiledPlan plan = read_compiled(response);
      plans_.emplace(plan.plan, call);
      return plan;
    });
  }

  ClusterStatus status() {
    const auto response =
        connection_.ask_controller<wire::Controller::StatusResults>([](auto& controller) {
          auto request = controller.statusRequest();
          write(request.initVersion(), Version{});
          return request.send();
        });
    return read_status(response, id);
  }

  bool stop_program(const std::string& program, int64_t grace_ms) {
    const auto response =
        connection_.ask_controller<wire::Controller::StopResults>([&](auto& controller) {
          auto request = controller.stopRequest();
          write(request.initVersion(), Version{});
          request.setName(program);
          request.setGraceMs(grace_ms);
          return request.send();
        });
    return response.getByForce();
  }

  int64_t suspend_program(const std::string& program, bool undo) {
    const auto response =
        connection_.ask_controller<wire::Controller::SuspendResults>([&](auto& controller) {
          auto request = controller.suspendRequest();
          write(request.initVersion(), Version{});
          request.setName(program);
          request.setUndo(undo);
          return request.send();
        });
    return response.getBytes();
  }

  void drain(const std::string& host, Drain what) {
    connection_.ask_controller<wire::Controller::DrainResults>([&](auto& controller) {
      auto request = controller.drainRequest();
      write(request.initVersion(), Version{});
      request.setHost(host);
      request.setUndo(what == Drain::kEnd);
      return request.send();
    });
  }

  void forget(const std::string& host) {
    connection_.ask_controller<wire::Controller::ForgetResults>([&](auto& controller) {
      auto request = controller.forgetRequest();
      write(request.initVersion(), Version{});
      request.setHost(host);
      return request.send();
    });
  }

  void set_share(const Share& share) {
    connection_.ask<wire::Session::SetShareResults>([&](auto& session) {
      auto request = session.setShareRequest();
      write(request.initShare(), share);
      return request.send();
    });
  }

  void allow_read(uint64_t slice, const std::string& owner) {
    connection_.ask<wire::Session::AllowReadResults>([&](auto& session) {
      auto request = session.allowReadRequest();
      request.setSlice(slice);
      request.setOwner(owner);
      return request.send();
    });
  }

  void keep_checkpoints(uint64_t slice, const RecoveryOptions& options) {
    connection_.ask<wire::Session::KeepCheckpointsResults>([&](auto& session) {
      auto request = session.keepCheckpointsRequest();
      request.setSlice(slice);
      write(request, options);
      return request.send();
    });
  }

  OpenedStates open_states(const std::string& program) {
    const auto response = connection_.ask<wire::Session::OpenStatesResults>([&](auto& session) {
      auto request = session.openStatesRequest();
      request.setProgram(program);
      return request.send();
    });
    return {response.getStates(), read_ports(response.getList())};
  }

  // Works in a fiber, which may end a little later than this session.
  void read_states(uint64_t number, StatesRequest asked, Renew renew, ReadDone done) {
    readings_.emplace(number, Reading{0, std::move(done)});
    reactor_
        .spawn("read states",
               [self = shared_from_this(), number, asked = std::move(asked),
                renew = std::move(renew)]() mutable {
                 const Result<StatesAnswer> answer = result_of([&] {
                   while (true) {
                     if (const auto got = self->read_states_now(number, asked)) return *got;
                     renew(asked);
                   }
                 });
                 self->end_reading(
                     number, answer.ok() ? answer.value() : StatesAnswer{.error = answer.error()});
               })
        .detach();
  }

  // The controller gives up what the reading waits for, and says so when nobody writes any more.
  void drop_reading(uint64_t number) {
    const auto found = readings_.find(number);
    if (found == readings_.end() || std::exchange(found->second.is_dropped, true)) return;
    if (found->second.call != 0) release_call(found->second.call);
  }

  // Works in a fiber, like read_states().
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

  // A session that is gone need not be told: its error is dropped. Suspends until the controller
  // has the report.
  void send_report(const Reported& numbers) {
    const Result<void> sent = result_of([&] {
      connection_.ask<wire::Session::ReportResults>([&](auto& session) {
        auto request = session.reportRequest();
        write(request.initNumbers(static_cast<uint32_t>(numbers.size())), numbers);
        return request.send();
      });
    });
    if (!sent.ok() && sent.error().kind() == ErrorKind::kCancelled) throw Error(sent.error());
  }

  // Works in a fiber, like send_reports().
  void send_log(std::shared_ptr<LogLines> lines) {
    reactor_
        .spawn("send log",
               [weak = weak_from_this(), lines = std::move(lines), &clock = reactor_.clock()] {
                 constexpr int64_t kEveryNs = 200'000'000;
                 while (const std::optional<LogLines::Call> call = lines->take()) {
                   if (const auto self = weak.lock()) self->send_lines_of(*call);
                   WaitQueue().wait_until_ns("for the next lines", clock.now_ns() + kEveryNs);
                 }
               })
        .detach();
  }
  void send_lines_of(const LogLines::Call& call) {
    const Result<void> sent = result_of([&] {
      connection_.ask<wire::Session::LogResults>(
          [&](auto& session) { return send_lines(session, call); });
    });
    if (!sent.ok() && sent.error().kind() == ErrorKind::kCancelled) throw Error(sent.error());
  }
  // Sends ahead of the end of the session, and waits for nothing.
  void send_last_lines(LogLines& lines) {
    while (const std::optional<LogLines::Call> call = lines.take_rest())
      connection_.tell([&](auto& session) { return send_lines(session, *call); });
  }
  ControllerConnection& connection() { return connection_; }

  void send(const Message& message) {
    send_freed();
    if (!gone_) frames_->send(encode(message));
  }

  // Arrays that are released together make one frame, for the controller and for all hosts. It
  // leaves before the next frame, or as soon as the caller is done.
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
      if (!node.empty()) node.mapped()(*copied);
    } else if (const auto* warning = std::get_if<WarningFrame>(&message)) {
      warn_(warning->text);
    } else {
      throw Error(ErrorKind::kInvalid,
                  "frame: the controller sent a kind of frame that is not its "
                  "to send to a client");
    }
  }

  // Returns the error with which all fails, which is the first one that was given.
  Error fail_all(const Error& why) {
    if (gone_) return *gone_;
    gone_ = why;
    if (controller_ends_ && why.kind() == ErrorKind::kUnavailable)
      gone_ = Error(ErrorKind::kUnavailable, "client: the controller is gone: it was told to end",
                    {}, "connect again once it is back, and restore state from a checkpoint");
    if (stopped_by_ && why.kind() == ErrorKind::kUnavailable)
      gone_ = Error(ErrorKind::kCancelled,
                    cat("client: its program was ended: ", *stopped_by_, " asked it to stop"));
    for (auto& [run, done] : desk->close()) done({.run = run, .error = gone_});
    for (auto& [request, done] : std::exchange(copies, {})) done({.error = gone_});
    for (auto& [number, reading] : std::exchange(readings_, {})) reading.done({.error = gone_});
    return *gone_;
  }

  // Calls under way fail.
  void close() {
    fail_all(closed_error());
    connection_.close(closed_error());
    frames_.reset();
  }

  // Comes behind all frames that were sent before.
  void detach() {
    const uint64_t behind = mark();
    is_leaving_ = true;
    try {
      connection_.ask<wire::Session::DetachResults>([&](auto& session) {
        auto request = session.detachRequest();
        request.setReleases(behind);
        return request.send();
      });
    } catch (const Error&) {
      is_leaving_ = false;
      throw;
    }
    fail_all(detached_error());
    connection_.leave(detached_error());
    frames_.reset();
  }

  HeldByProgram holdings() {
    const auto response = connection_.ask<wire::Session::HoldingsResults>(
        [](auto& session) { return session.holdingsRequest().send(); });
    last_call_ = std::max(last_call_, response.getLastCall());
    releases_ = std::max(releases_, response.getReleases());
    last_request = std::max(last_request, response.getLastRequest());
    return read_holdings(response);
  }

  uint64_t repeat(const RepeatAsked& asked) {
    const uint64_t behind = mark(), number = ++last_call_;
    connection_.ask<wire::Session::RepeatResults>([&](auto& session) {
      auto request = session.repeatRequest();
      request.setPlan(asked.plan.value);
      request.setSteps(asked.steps);
      write_inputs(request.initInputs(static_cast<uint32_t>(asked.inputs.size())), asked.inputs);
      request.setFirstName(asked.first_name);
      request.setPosition(asked.position);
      request.setAfter(asked.after.value);
      request.setNumber(number);
      request.setReleases(behind);
      return request.send();
    });
    return number;
  }

  RepeatTold repetition(PlanId plan, bool cancels, bool waits) {
    const auto response = connection_.ask<wire::Session::RepetitionResults>([&](auto& session) {
      auto request = session.repetitionRequest();
      request.setPlan(plan.value);
      request.setCancel(cancels);
      request.setWait(waits);
      return request.send();
    });
    RepeatTold told{.number = response.getNumber(),
                    .position = response.getPosition(),
                    .status = {.steps = response.getSteps(),
                               .done = response.getDone(),
                               .ended = response.getEnded(),
                               .error = {},
                               .outputs = read(response.getOutputs())}};
    if (response.hasError()) told.status.error = read_error(response.getError());
    return told;
  }

  const std::optional<Error>& gone() const { return gone_; }
  void warn(const std::string& line) const { warn_(line); }
  void release_slice(uint64_t slice) { release(slices_.extract(slice)); }
  void release_plan(PlanId plan) { release(plans_.extract(plan)); }

  const std::shared_ptr<DirectSender> direct;
  const std::shared_ptr<RunDesk> desk;
  uint64_t id = 0;
  std::string name;
  int64_t run_credits = 0, copy_credits = 0;
  uint64_t last_request = 0;
  std::map<uint64_t, CopyDone> copies;

 private:
  // A reading of another program's states.
  struct Reading {
    uint64_t call = 0;  // 0: not asked yet.
    ReadDone done;
    bool is_dropped = false;
  };

  // None: the version comes again, and is to be asked for with other memory.
  std::optional<StatesAnswer> read_states_now(uint64_t number, const StatesRequest& asked) {
    const auto found = readings_.find(number);
    if (found == readings_.end()) throw closed_error();
    // No host has been told of this memory.
    if (found->second.is_dropped) return StatesAnswer{.error = closed_error(), .is_settled = true};
    const uint64_t call = found->second.call = ++last_call_;
    int tries = 0;
    const auto is_wanted = [&] {
      const auto now = readings_.find(number);
      return now != readings_.end() && !now->second.is_dropped;
    };
    const auto send = [&](auto& session) {
      // The controller forgets a number that was released: asked for under it again, the read would
      // begin anew, with memory to which hosts of the first one may still write.
      if (!is_wanted()) throw closed_error();
      ++tries;
      auto request = session.readStatesRequest();
      request.setStates(asked.states);
      request.setVersion(asked.version.value_or(0));
      request.setLatest(!asked.version);
      write_segment(request.initSegment(), asked.segment);
      auto parts = request.initParts(static_cast<uint32_t>(asked.parts.size()));
      for (uint32_t i = 0; i < parts.size(); ++i) {
        parts[i].setName(asked.parts[i].name);
        parts[i].setOffset(asked.parts[i].offset);
        parts[i].setBytes(asked.parts[i].bytes);
      }
      request.setCall(call);
      request.setReleases(releases_);
      request.setErrorInAnswer(true);
      return request.send();
    };
    const auto response = [&] {
      try {
        return connection_.ask<wire::Session::ReadStatesResults>(send);
      } catch (const Error&) {
        // Asked again after a lost connection, it may be refused while its first try goes on.
        if (tries > 1 && is_wanted()) release_call(call);
        throw;
      }
    }();
    const auto still = readings_.find(number);
    if (still == readings_.end()) throw closed_error();
    // The controller keeps the answer until the call is released.
    if (!still->second.is_dropped) release_call(call);
    if (response.getComesAgain()) return std::nullopt;
    StatesAnswer answer{.version = response.getVersion(),
                        .is_past = response.getPast(),
                        .is_settled = response.getSettled()};
    if (response.hasError()) answer.error = read_error(response.getError());
    return answer;
  }

  // The reading was told if the session has ended meanwhile.
  void end_reading(uint64_t number, const StatesAnswer& answer) {
    auto node = readings_.extract(number);
    if (!node.empty()) node.mapped().done(answer);
  }

  // Returns body(call), which asks with a number of its own. The results of a call are released
  // where its caller is cancelled.
  template <class Body>
  std::invoke_result_t<const Body&, uint64_t> made(const Body& body) {
    const uint64_t call = ++last_call_;
    try {
      return body(call);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kCancelled) release_call(call);
      throw;
    }
  }

  template <class Node>
  void release(const Node& node) {
    if (!node.empty()) release_call(node.mapped());
  }

  // A call that says it comes behind so many releases comes behind all frames sent so far.
  uint64_t mark() {
    send(ReleaseFrame{});
    return ++releases_;
  }

  // Comes behind the runs that were sent before, and before the calls that are asked from now on.
  void release_call(uint64_t call) {
    ++releases_;
    send(ReleaseFrame{{call}});
  }

  void gone_for_good(const Error& why) {
    fail_all(why);
    if (frames_ != nullptr) frames_->close();
  }

  void send_freed() {
    const std::vector<ArrayId> let_go = desk->take_let_go();
    freed_.insert(freed_.end(), let_go.begin(), let_go.end());
    if (freed_.empty()) return;
    const FreeFrame frame{std::exchange(freed_, {})};
    if (!gone_) frames_->send(encode(frame));
  }

  // Runs that follow one another take along the arrays released between them; those released after
  // the last run are reported a little later. Nobody wakes the reactor for it.
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
  // Declared before the connection, which may be asked to stop while it connects.
  std::optional<std::string> stopped_by_;
  bool controller_ends_ = false;
  ControllerConnection connection_;
  uint64_t last_call_ = 0, releases_ = 0;
  std::map<uint64_t, uint64_t> slices_;  // The calls that made them.
  std::map<PlanId, uint64_t> plans_;
  std::map<uint64_t, Reading> readings_;
  std::optional<Error> gone_;
  bool is_leaving_ = false;
  std::unique_ptr<FrameStream> frames_;
  std::vector<ArrayId> freed_;  // Arrays of which the controller has not been told yet.
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

void Session::detach() {
  const std::shared_ptr<Impl> impl = open();
  impl->detach();
  impl_ = nullptr;
}
HeldByProgram Session::holdings() { return open()->holdings(); }
uint64_t Session::repeat(const RepeatAsked& asked) { return open()->repeat(asked); }
RepeatTold Session::repetition(PlanId plan, bool cancels, bool waits) {
  return open()->repetition(plan, cancels, waits);
}

uint64_t Session::id() const { return open()->id; }
const std::string& Session::name() const { return open()->name; }
int64_t Session::run_credits() const { return open()->run_credits; }
int64_t Session::copy_credits() const { return open()->copy_credits; }
uint64_t Session::allocate(const SliceShape& shape,
                           const std::function<void(const std::string&)>& on_wait) {
  const std::shared_ptr<Impl> impl = open();
  try {
    return impl->allocate(shape, on_wait);
  } catch (const Error&) {
    open();  // If the client was closed meanwhile, that is why.
    throw;
  }
}
void Session::release_slice(uint64_t slice) {
  if (impl_ != nullptr) impl_->release_slice(slice);
}
CompiledPlan Session::compile(const std::vector<std::byte>& program,
                              const std::vector<uint64_t>& slices, const CompileOptions& options) {
  return open()->compile(program, slices, options);
}
void Session::release_plan(PlanId plan) {
  if (impl_ != nullptr) impl_->release_plan(plan);
}
ClusterStatus Session::status() { return open()->status(); }
bool Session::stop_program(const std::string& name, int64_t grace_ms) {
  return open()->stop_program(name, grace_ms);
}
int64_t Session::suspend_program(const std::string& name) {
  return open()->suspend_program(name, false);
}
void Session::resume_program(const std::string& name) { open()->suspend_program(name, true); }
void Session::drain(const std::string& host, Drain what) { open()->drain(host, what); }
void Session::forget(const std::string& host) { open()->forget(host); }
void Session::set_share(const Share& share) { open()->set_share(share); }
void Session::allow_read(uint64_t slice, const std::string& owner) {
  open()->allow_read(slice, owner);
}
void Session::keep_checkpoints(uint64_t slice, const RecoveryOptions& options) {
  open()->keep_checkpoints(slice, options);
}
OpenedStates Session::open_states(const std::string& program) {
  return open()->open_states(program);
}
void Session::send_reports(std::shared_ptr<Reports> reports) {
  if (impl_ != nullptr) impl_->send_reports(std::move(reports));
}
void Session::send_log(std::shared_ptr<LogLines> lines) {
  if (impl_ != nullptr) impl_->send_log(std::move(lines));
}
void Session::send_last_lines(LogLines& lines) {
  if (impl_ != nullptr) impl_->send_last_lines(lines);
}
ControllerConnection& Session::connection() { return open()->connection(); }
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
  if (impl_ == nullptr || impl_->gone())
    return done({.error = impl_ == nullptr ? closed_error() : *impl_->gone(), .is_settled = true});
  frame.request = ++impl_->last_request;
  impl_->copies.emplace(frame.request, std::move(done));
  impl_->send(frame);
}

void Session::read_states(uint64_t number, const StatesRequest& request, Renew renew,
                          ReadDone done) {
  if (impl_ == nullptr) return done({.error = closed_error(), .is_settled = true});
  if (impl_->gone()) return done({.error = impl_->gone(), .is_settled = true});
  impl_->read_states(number, request, std::move(renew), std::move(done));
}

void Session::drop_reading(uint64_t number) {
  if (impl_ != nullptr) impl_->drop_reading(number);
}

void Session::free(ArrayId array) {
  if (impl_ != nullptr) impl_->free(array);
}

}  // namespace gangway::internal
