// Calls of a session that wait for the controller's answer.
#include <algorithm>
#include <type_traits>

#include "client/connection.h"
#include "client/program_graph.h"
#include "client/session.h"
#include "client/session_wire.h"
#include "protocol/checkpoint_wire.h"
#include "protocol/error_wire.h"
#include "protocol/rpc_values.h"

namespace gangway::internal {
namespace {

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

capnp::Response<wire::Controller::GraphResults> ask_graph(ControllerConnection& connection,
                                                          const GraphAsked& asked) {
  return connection.ask_controller<wire::Controller::GraphResults>([&](auto& controller) {
    auto request = controller.graphRequest();
    write(request.initVersion(), Version{});
    request.setName(asked.name);
    request.setExecutable(asked.executable);
    request.setPlan(asked.plan.value);
    request.setWhy(asked.why);
    return request.send();
  });
}

}  // namespace

// Returns body(call), which asks with a number of its own. The results of a call are released where
// its caller is cancelled.
template <class Body>
std::invoke_result_t<const Body&, uint64_t> Session::made(const Body& body) {
  const uint64_t number = ++last_call_;
  try {
    return body(number);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) release_call(number);
    throw;
  }
}

uint64_t Session::allocate(const SliceShape& shape,
                           const std::function<void(const std::string&)>& on_wait) {
  return call("allocate", [&] {
    static_cast<void>(connection());
    try {
      return on_wait && shape.wait_ms != 0 ? wait_for_slice(shape, on_wait) : ask_for_slice(shape);
    } catch (const Error&) {
      static_cast<void>(connection());  // If the client was closed meanwhile, that is why.
      throw;
    }
  });
}

uint64_t Session::ask_for_slice(const SliceShape& shape) {
  return made([&](uint64_t number) {
    const auto response = connection()->ask<wire::Session::AllocateResults>([&](auto& session) {
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
      request.setCall(number);
      request.setReleases(releases_);
      return request.send();
    });
    slices_.emplace(response.getId(), number);
    return response.getId();
  });
}

// Tells on_wait what for it waits.
uint64_t Session::wait_for_slice(const SliceShape& shape,
                                 const std::function<void(const std::string&)>& on_wait) {
  constexpr int64_t kEveryNs = 1'000'000'000;
  uint64_t slice = 0;
  bool is_done = false;
  std::optional<Error> failed;
  WaitQueue changed;
  FiberGroup asks(*notify.home);
  asks.spawn("allocate", [&] {
    const Result<void> done = result_of([&] { slice = ask_for_slice(shape); });
    if (!done.ok()) failed = done.error();
    is_done = true;
    changed.wake_all();
  });
  while (!is_done) {
    changed.wait_until_ns("for a slice", notify.home->clock().now_ns() + kEveryNs);
    const std::string what = is_done ? "" : waits_for();
    if (is_done || what.empty()) continue;
    const Result<void> reported = result_of([&] { on_wait(what); });
    if (reported.ok()) continue;
    asks.cancel();
    if (slice != 0) release_slice(slice);
    throw Error(reported.error());
  }
  if (failed) throw Error(*failed);
  return slice;
}

// The controller's words for what this client waits for; empty also while it can't be asked.
std::string Session::waits_for() {
  const Result<ClusterStatus> now = result_of([&] { return status(); });
  if (!now.ok()) {
    if (now.error().kind() == ErrorKind::kCancelled) throw Error(now.error());
    return "";
  }
  const auto self = std::ranges::find(now.value().programs, true, &ProgramStatus::is_self);
  return self == now.value().programs.end() ? "" : self->waits_for;
}

CompiledPlan Session::compile(const std::vector<std::byte>& program,
                              const std::vector<uint64_t>& slices, const CompileOptions& options) {
  return call("compile", [&] {
    const auto listener = std::make_shared<CompileListener>(CompileListener{options.on_progress});
    // The controller may keep the listener for longer, and the user's function may hold handles.
    KJ_DEFER({
      listener->is_open = false;
      listener->on_progress = nullptr;
    });
    return made([&](uint64_t number) {
      const auto response = connection()->ask<wire::Session::Compiled>([&](auto& session) {
        auto request = session.compileRequest();
        request.setProgram(
            kj::arrayPtr(reinterpret_cast<const kj::byte*>(program.data()), program.size()));
        auto list = request.initSlices(static_cast<uint32_t>(slices.size()));
        for (uint32_t i = 0; i < list.size(); ++i) list.set(i, slices[i]);
        request.setRunsInFlightMax(static_cast<uint32_t>(options.runs_in_flight_max));
        request.setDispatch(static_cast<uint8_t>(options.dispatch));
        request.setName(options.name);
        if (options.on_progress) request.setWatch(kj::heap<CompileWatcher>(listener));
        request.setCall(number);
        request.setReleases(releases_);
        return request.send();
      });
      if (listener->thrown) {
        release_call(number);
        throw Error(*listener->thrown);
      }
      CompiledPlan plan = read_compiled(response);
      plans_.emplace(plan.plan, number);
      return plan;
    });
  });
}

uint64_t Session::repeat(const RepeatAsked& asked) {
  return call("repeat", [&] {
    const auto way = connection();
    const uint64_t behind = mark(), number = ++last_call_;
    way->ask<wire::Session::RepeatResults>([&](auto& session) {
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
  });
}

RepeatReport Session::repetition(PlanId plan, bool cancels, bool waits) {
  return call("repetition", [&] {
    return read_repetition(connection()->ask<wire::Session::RepetitionResults>([&](auto& session) {
      auto request = session.repetitionRequest();
      request.setPlan(plan.value);
      request.setCancel(cancels);
      request.setWait(waits);
      return request.send();
    }));
  });
}

HeldByProgram Session::holdings() {
  require_open();
  GW_REQUIRE(is_attached_,
             "client: expected one that has attached to a program, got one that began ", "its own");
  return call("holdings", [this] { return ask_holdings(); });
}

HeldByProgram Session::ask_holdings() {
  const auto response = connection()->ask<wire::Session::HoldingsResults>(
      [](auto& session) { return session.holdingsRequest().send(); });
  last_call_ = std::max(last_call_, response.getLastCall());
  releases_ = std::max(releases_, response.getReleases());
  last_request_ = std::max(last_request_, response.getLastRequest());
  return read_holdings(response);
}

ClusterStatus Session::status() {
  return call("status", [this] {
    const auto response =
        connection()->ask_controller<wire::Controller::StatusResults>([](auto& controller) {
          auto request = controller.statusRequest();
          write(request.initVersion(), Version{});
          return request.send();
        });
    return read_status(response, id_);
  });
}

ProgramLog Session::logs(const std::string& program, const LogRequest& request) {
  return call("logs", [&] {
    return read_log(
        connection()->ask_controller<wire::Controller::LogsResults>([&](auto& controller) {
          auto asked = controller.logsRequest();
          write(asked.initVersion(), Version{});
          asked.setName(program);
          asked.setProgram(request.program);
          asked.setAfter(request.after);
          asked.setWaitMs(request.wait_ms);
          return asked.send();
        }));
  });
}

ProgramGraph Session::graph(const GraphAsked& asked) {
  return call("graph", [&] { return read_graph(ask_graph(*connection(), asked)); });
}

std::string Session::explain(const GraphAsked& asked) {
  return call("explain",
              [&] { return std::string(ask_graph(*connection(), asked).getText().cStr()); });
}

bool Session::stop_program(const std::string& program, int64_t grace_ms) {
  return call("stop", [&] {
    const auto response =
        connection()->ask_controller<wire::Controller::StopResults>([&](auto& controller) {
          auto request = controller.stopRequest();
          write(request.initVersion(), Version{});
          request.setName(program);
          request.setGraceMs(grace_ms);
          return request.send();
        });
    return response.getByForce();
  });
}

int64_t Session::suspend_program(const std::string& program, Suspend what) {
  return call("suspend", [&] {
    const auto response =
        connection()->ask_controller<wire::Controller::SuspendResults>([&](auto& controller) {
          auto request = controller.suspendRequest();
          write(request.initVersion(), Version{});
          request.setName(program);
          request.setUndo(what == Suspend::kEnd);
          return request.send();
        });
    return response.getBytes();
  });
}

void Session::drain(const std::string& host, Drain what) {
  call("drain", [&] {
    connection()->ask_controller<wire::Controller::DrainResults>([&](auto& controller) {
      auto request = controller.drainRequest();
      write(request.initVersion(), Version{});
      request.setHost(host);
      request.setUndo(what == Drain::kEnd);
      return request.send();
    });
  });
}

void Session::forget(const std::string& host) {
  call("forget", [&] {
    connection()->ask_controller<wire::Controller::ForgetResults>([&](auto& controller) {
      auto request = controller.forgetRequest();
      write(request.initVersion(), Version{});
      request.setHost(host);
      return request.send();
    });
  });
}

void Session::set_share(const Share& share) {
  call("set share", [&] {
    connection()->ask<wire::Session::SetShareResults>([&](auto& session) {
      auto request = session.setShareRequest();
      write(request.initShare(), share);
      return request.send();
    });
  });
}

void Session::allow_read(uint64_t slice, const std::string& owner) {
  call("allow to read", [&] {
    connection()->ask<wire::Session::AllowReadResults>([&](auto& session) {
      auto request = session.allowReadRequest();
      request.setSlice(slice);
      request.setOwner(owner);
      return request.send();
    });
  });
}

void Session::keep_checkpoints(uint64_t slice, const RecoveryOptions& options) {
  call("keep checkpoints", [&] {
    connection()->ask<wire::Session::KeepCheckpointsResults>([&](auto& session) {
      auto request = session.keepCheckpointsRequest();
      request.setSlice(slice);
      write(request, options);
      return request.send();
    });
  });
}

void Session::warn(const std::string& line) {
  call("warn", [&] {
    static_cast<void>(connection());  // Nobody is told of anything once the client is closed.
    warn_(line);
  });
}

OpenedStates Session::open_states(const std::string& program) {
  return call("open states", [&] {
    const auto response = connection()->ask<wire::Session::OpenStatesResults>([&](auto& session) {
      auto request = session.openStatesRequest();
      request.setProgram(program);
      return request.send();
    });
    return OpenedStates{response.getStates(), read_ports(response.getList())};
  });
}

void Session::read_states(uint64_t number, const StatesRequest& request, Renew renew,
                          ReadDone done) {
  post([this, number, request = request, renew = std::move(renew),
        done = std::move(done)]() mutable {
    if (const auto why = why_ended()) return done({.error = why, .is_settled = true});
    readings_.emplace(number, Reading{0, std::move(done)});
    fibers_->spawn("read states", [this, number, asked = std::move(request),
                                   renew = std::move(renew)]() mutable {
      const Result<StatesAnswer> answer = result_of([&] {
        while (true) {
          if (const auto got = read_states_now(number, asked)) return *got;
          renew(asked);
        }
      });
      // The reading was told if the session has ended meanwhile.
      auto node = readings_.extract(number);
      if (node.empty()) return;
      node.mapped().done(answer.ok() ? answer.value() : StatesAnswer{.error = answer.error()});
    });
  });
}

// The controller gives up what the reading waits for, and says so when nobody writes any more.
void Session::drop_reading(uint64_t number) {
  post([this, number] {
    const auto found = readings_.find(number);
    if (found == readings_.end() || std::exchange(found->second.is_dropped, true)) return;
    if (found->second.call != 0) release_call(found->second.call);
  });
}

bool Session::is_wanted(uint64_t reading) const {
  const auto found = readings_.find(reading);
  return found != readings_.end() && !found->second.is_dropped;
}

// None: the version comes again, and is to be asked for with other memory.
std::optional<StatesAnswer> Session::read_states_now(uint64_t number, const StatesRequest& asked) {
  const auto found = readings_.find(number);
  if (found == readings_.end()) throw closed_error();
  // No host has been told of this memory.
  if (found->second.is_dropped) return StatesAnswer{.error = closed_error(), .is_settled = true};
  const uint64_t number_of_call = found->second.call = ++last_call_;
  int tries = 0;
  const auto send_request = [&](auto& session) {
    // The controller forgets a number that was released: asked for under it again, the read would
    // begin anew, with memory to which hosts of the first one may still write.
    if (!is_wanted(number)) throw closed_error();
    ++tries;
    auto request = session.readStatesRequest();
    write_reading(request, asked);
    request.setCall(number_of_call);
    request.setReleases(releases_);
    return request.send();
  };
  const auto response = [&] {
    try {
      return connection()->ask<wire::Session::ReadStatesResults>(send_request);
    } catch (const Error&) {
      // Asked again after a lost connection, it may be refused while its first try goes on.
      if (tries > 1 && is_wanted(number)) release_call(number_of_call);
      throw;
    }
  }();
  if (!readings_.contains(number)) throw closed_error();
  // The controller keeps the answer until the call is released.
  if (is_wanted(number)) release_call(number_of_call);
  if (response.getComesAgain()) return std::nullopt;
  StatesAnswer answer{.version = response.getVersion(),
                      .is_past = response.getPast(),
                      .is_settled = response.getSettled()};
  if (response.hasError()) answer.error = read_error(response.getError());
  return answer;
}

// Sends what next() returns, at most five times a second, until that is none. A session that is
// gone need not be told: its error is dropped.
template <class Next, class Send>
void Session::send_in_turn(const char* name, const Next& next, const Send& send_one) {
  if (connection_ == nullptr) return;
  fibers_->spawn(name, [this, next, send_one] {
    constexpr int64_t kEveryNs = 200'000'000;
    while (const auto one = next()) {
      const Result<void> sent = result_of([&] { send_one(*one); });
      if (!sent.ok() && sent.error().kind() == ErrorKind::kCancelled) throw Error(sent.error());
      WaitQueue().wait_until_ns("for the next one", notify.home->clock().now_ns() + kEveryNs);
    }
  });
}

void Session::report(Reported numbers) {
  if (!reports_.say(std::move(numbers))) return;
  const auto send_one = [this](const Reported& newest) {
    connection()->ask<wire::Session::ReportResults>([&](auto& session) {
      auto request = session.reportRequest();
      write(request.initNumbers(static_cast<uint32_t>(newest.size())), newest);
      return request.send();
    });
  };
  post([this, send_one] {
    send_in_turn("send reports", [this] { return reports_.take(); }, send_one);
  });
}

void Session::log(const std::string& text) {
  if (!lines_.say(text)) return;
  const auto send_one = [this](const LogLines::Call& lines) {
    connection()->ask<wire::Session::LogResults>(
        [&](auto& session) { return send_lines(session, lines); });
  };
  post([this, send_one] { send_in_turn("send log", [this] { return lines_.take(); }, send_one); });
}

// Sends ahead of the end of the session, and waits for nothing.
void Session::send_last_lines() {
  if (connection_ == nullptr) return;
  while (const std::optional<LogLines::Call> lines = lines_.take_rest())
    connection_->tell([&](auto& session) { return send_lines(session, *lines); });
}

}  // namespace gangway::internal
