#include "controller/service/service.h"

#include <map>
#include <optional>
#include <set>
#include <span>

#include "controller/service/peers_rpc.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/net/server.h"
#include "runtime/os/random_bytes.h"
#include "runtime/os/user.h"

namespace gangway {

struct ControllerService::Impl {
  Impl(Reactor& r, ControllerServiceOptions options)
      : reactor(r),
        core(r, options.controller),
        rng(r.rng().fork(0xC0117801)),
        frames(std::move(options.frames)),
        tokens(std::move(options.tokens)),
        log(std::move(options.controller.log)),
        fibers(r),
        calls(r) {}

  FrameOptions frames_of_peer(std::string name) const {
    FrameOptions of_peer = frames;
    of_peer.name = std::move(name);
    return of_peer;
  }

  // Of a stream. Nobody guesses one, but who has the seed of a simulation.
  uint64_t new_key() {
    uint64_t key = rng.next_u64();
    if (!reactor.simulated()) fill_random(std::as_writable_bytes(std::span(&key, 1)));
    return key;
  }

  // `owner` connects with this key, the first time and whenever its connection is lost.
  uint64_t expect_frames(std::shared_ptr<PeerStream> stream, const std::string& owner) {
    const uint64_t key = new_key();
    stream->owner = owner;
    stream->start();
    streams[key] = std::move(stream);
    return key;
  }

  FrameStream* frames_of(uint64_t key, const std::string& owner) const {
    const auto at = streams.find(key);
    return at == streams.end() || at->second->owner != owner ? nullptr : at->second->frames();
  }

  std::optional<std::string> owner_of(const AccessToken& token) const {
    return tokens == nullptr ? std::nullopt : tokens->owner_of(token);
  }

  void refused(const std::string& from, const std::string& why) const {
    log.warn("a connection was refused", {{"from", from}, {"why", why}});
  }

  void forget(const std::shared_ptr<PeerStream>& stream) {
    stream->on_closed = nullptr;
    std::erase_if(streams, [&](const auto& item) { return item.second == stream; });
    // Closing a stream suspends: in a fiber of its own.
    fibers.spawn("close a stream", [stream] { stream->close(); });
  }

  void watch() {
    while (true) {
      const int64_t next_ns = core.tick(reactor.clock().now_ns());
      core.deadline_moved().wait_until_ns("for the next time limit", next_ns);
      if (frames.pacer != nullptr) frames.pacer->wake();
    }
  }

  Reactor& reactor;
  Controller core;
  Rng rng;
  FrameOptions frames;
  const std::shared_ptr<TokenTable> tokens;
  Logger log;
  std::map<uint64_t, std::shared_ptr<PeerStream>> streams;
  FiberGroup fibers;
  FiberGroup calls;  // Each may be the last to hold its peer, whose stream `fibers` closes then.
  std::unique_ptr<Server> server;
};

namespace {

using Impl = ControllerService::Impl;

class RegistrationServer final : public wire::Registration::Server {
 public:
  RegistrationServer(Impl& impl, HostId host, std::shared_ptr<ExecutorRpc> peer)
      : impl_(impl), host_(host), peer_(std::move(peer)) {}
  ~RegistrationServer() noexcept {
    impl_.core.host_lost(host_, Error(ErrorKind::kUnavailable, "its connection ended"));
    impl_.forget(peer_->stream());
  }

 private:
  Impl& impl_;
  HostId host_;
  std::shared_ptr<ExecutorRpc> peer_;
};

class SliceServer final : public wire::Slice::Server {
 public:
  SliceServer(Impl& impl, SliceId id) : impl_(impl), id_(id) {}
  ~SliceServer() noexcept { impl_.core.release_slice(id_); }

 private:
  Impl& impl_;
  SliceId id_;
};

class ExecutableServer final : public wire::Executable::Server {
 public:
  ExecutableServer(Impl& impl, PlanId id) : impl_(impl), id_(id) {}
  ~ExecutableServer() noexcept { impl_.core.release_plan(id_); }

 private:
  Impl& impl_;
  PlanId id_;
};

void write_port(wire::Session::Port::Builder to, const PlanValue& value) {
  to.setName(value.name);
  to.setDtype(static_cast<uint8_t>(value.type.dtype));
  auto dims = to.initDims(static_cast<uint32_t>(value.type.dims.size()));
  for (uint32_t i = 0; i < dims.size(); ++i) dims.set(i, value.type.dims[i]);
}

template <class List>
void write_ports(List list, const Plan& plan, const std::vector<uint32_t>& values) {
  for (uint32_t i = 0; i < list.size(); ++i) write_port(list[i], plan.values[values[i]]);
}

void write_compiled(wire::Session::Compiled::Builder to, const PlanRecord& record) {
  const Plan& plan = *record.plan;
  std::vector<uint32_t> states;
  states.reserve(plan.states.size());
  for (const PlanState& state : plan.states) states.push_back(state.value);
  const auto size = [](const auto& list) { return static_cast<uint32_t>(list.size()); };
  to.setPlan(record.id.value);
  to.setScope(record.scope);
  write_ports(to.initInputs(size(plan.inputs)), plan, plan.inputs);
  write_ports(to.initOutputs(size(plan.outputs)), plan, plan.outputs);
  write_ports(to.initStates(size(states)), plan, states);
  to.setSources(size(plan.sources));
  to.setText(record.text);
  auto hosts = to.initNeeds(size(record.needs));
  for (uint32_t i = 0; i < hosts.size(); ++i) {
    hosts[i].setHost(plan.hosts[i]);
    write(hosts[i].initNeeds(size(record.needs[i])), record.needs[i]);
  }
}

// Tells a client; one that is gone need not hear it.
std::function<void(const CompileStage&)> teller(wire::CompileWatch::Client watch) {
  const auto to = std::make_shared<wire::CompileWatch::Client>(kj::mv(watch));
  return [to](const CompileStage& at) {
    auto request = to->toldRequest();
    request.setWhat(at.what);
    request.setPart(at.part);
    request.send().ignoreResult().detach([](const kj::Exception&) {});
  };
}

SliceShape read_shape(wire::Session::AllocateParams::Reader from) {
  SliceShape shape(from.getDevices(), from.getRanksPerDevice());
  const auto axes = from.getAxes();
  GW_REQUIRE(axes.size() <= kSliceAxesMax, "allocate: mesh: expected at most ", kSliceAxesMax,
             " axes, got ", axes.size());
  for (const uint32_t size : axes) shape.axes.push_back(size);
  shape.one_island = from.getOneIsland();
  shape.per_host_max = from.getPerHostMax();
  shape.memory_bytes = from.getMemoryBytes();
  shape.exclusive = from.getExclusive();
  shape.wait_ms = from.getWaitMs();
  return shape;
}

class SessionServer final : public wire::Session::Server {
 public:
  SessionServer(Impl& impl, SessionId id, std::shared_ptr<ClientRpc> peer)
      : impl_(impl), id_(id), peer_(std::move(peer)) {}
  ~SessionServer() noexcept {
    impl_.core.session_closed(id_);
    impl_.forget(peer_->stream());
  }

  // A client that goes away, and one that cancels the call, waits no longer.
  kj::Promise<void> allocate(AllocateContext context) override {
    context.allowCancellation();
    const auto gone = std::make_shared<StopSource>();
    auto call = [this, self = thisCap(), context, gone]() mutable {
      const SliceRecord& slice =
          impl_.core.allocate(id_, read_shape(context.getParams()), gone->token());
      auto results = context.getResults();
      results.setId(slice.id.value);
      const uint32_t ranks = slice.ranks_per_device;
      auto hosts = results.initHosts(static_cast<uint32_t>(slice.devices.size()) * ranks);
      for (uint32_t i = 0; i < hosts.size(); ++i) {
        hosts.set(i, impl_.core.hosts().at(slice.devices[i / ranks].host).info.name);
      }
      results.setSlice(kj::heap<SliceServer>(impl_, slice.id));
    };
    return in_fiber(impl_.calls, "allocate", std::move(call)).attach(kj::defer([gone] {
      gone->request_stop(Error(ErrorKind::kCancelled, "allocate: its client waits no longer"));
    }));
  }

  kj::Promise<void> report(ReportContext context) override {
    return in_fiber(impl_.calls, "report", [this, self = thisCap(), context]() mutable {
      impl_.core.report(id_, read(context.getParams().getNumbers()));
    });
  }

  kj::Promise<void> setShare(SetShareContext context) override {
    return in_fiber(impl_.calls, "set share", [this, self = thisCap(), context]() mutable {
      impl_.core.set_share(id_, read(context.getParams().getShare()));
    });
  }

  kj::Promise<void> compile(CompileContext context) override {
    return in_fiber(impl_.calls, "compile", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const auto bytes = params.getProgram();
      const auto* const first = reinterpret_cast<const std::byte*>(bytes.begin());
      Program program = impl_.core.read_program({first, first + bytes.size()});
      std::vector<SliceId> slices;
      for (uint64_t slice : params.getSlices()) slices.emplace_back(slice);
      const auto dispatch = static_cast<Dispatch>(params.getDispatch());
      GW_REQUIRE(dispatch <= Dispatch::kSequential, "compile: program \"",
                 cut(program.name, kQuotedBytesMax), "\": there is no dispatch number ",
                 int{params.getDispatch()});
      CompileRequest request{.runs_in_flight_max = params.getRunsInFlightMax(),
                             .dispatch = dispatch,
                             .pacer = impl_.frames.pacer};
      if (params.hasWatch()) request.on_progress = teller(params.getWatch());
      const PlanRecord& record =
          impl_.core.compile(id_, std::move(program), slices, std::move(request));
      auto results = context.getResults();
      write_compiled(results, record);
      results.setExecutable(kj::heap<ExecutableServer>(impl_, record.id));
    });
  }

 private:
  Impl& impl_;
  SessionId id_;
  std::shared_ptr<ClientRpc> peer_;
};

HostInfo read_host(wire::HostDescription::Reader from) {
  return {.name = from.getName().cStr(),
          .devices = from.getDevices(),
          .memory_bytes = from.getMemoryBytes(),
          .kind = from.getKind().cStr(),
          .text = from.getText().cStr(),
          .process = from.getProcess(),
          .island = from.getIsland().cStr()};
}

// `in_full`: also in what programs its devices are stuck.
void write_host(wire::HostStatus::Builder to, const HostRecord& host, int64_t now_ns,
                bool in_full) {
  auto description = to.initHost();
  description.setName(host.info.name);
  description.setDevices(host.info.devices);
  description.setMemoryBytes(host.info.memory_bytes);
  description.setKind(host.info.kind);
  description.setText(host.info.text);
  description.setProcess(host.info.process);
  description.setIsland(host.info.island);
  to.setMemoryUsed(host.reserved.max());
  to.setRunsDone(host.runs);
  to.setSuspectMs(host.suspect ? (now_ns - host.last_heard_ns) / 1'000'000 : 0);
  auto stuck = to.initStuck(static_cast<uint32_t>(host.stuck.size()));
  for (uint32_t i = 0; i < stuck.size(); ++i) {
    const StuckDevice& one = host.stuck[i];
    stuck.set(i, in_full ? to_text(one) : cat("device ", one.device, " is stuck"));
  }
}

// `in_full`: also what it is called, waits for and says of itself; else whose it is and what it
// uses.
void write_program(wire::ProgramStatus::Builder to, const ProgramCounts& program, bool in_full) {
  to.setId(program.id.value);
  to.setName(in_full ? program.name : "");
  to.setOwner(program.owner);
  write(to.initShare(), program.share);
  to.setUsed(program.used);
  to.setRunsWaiting(program.runs_waiting);
  to.setRunsInFlight(program.runs_in_flight);
  to.setRunsDone(program.runs_done);
  to.setWaitsFor(in_full ? program.waits_for : "");
  to.setMemoryBytes(program.memory_bytes);
  to.setDevices(program.devices);
  auto hosts = to.initHosts(static_cast<uint32_t>(program.hosts.size()));
  for (uint32_t i = 0; i < hosts.size(); ++i) hosts.set(i, program.hosts[i]);
  if (!in_full) return;
  write(to.initReported(static_cast<uint32_t>(program.reported.size())), program.reported);
}

class ControllerServer final : public wire::Controller::Server {
 public:
  // `from`: where `owner`, who is at the other end, connects from.
  ControllerServer(Impl& impl, std::string owner, std::string from)
      : impl_(impl), owner_(std::move(owner)), from_(std::move(from)) {}

  kj::Promise<void> registerExecutor(RegisterExecutorContext context) override {
    return in_fiber(impl_.calls, "register", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      HostInfo info = read_host(params.getDescription());
      info.owner = owner_;
      const std::string who = cat("executor \"", info.name, "\"");
      require_same_version({}, read(params.getVersion()), who);
      require_same_machine(this_machine(), read(params.getMachine()), who);
      require_operator(who);
      auto peer = std::make_shared<ExecutorRpc>(impl_.reactor, params.getExecutor(),
                                                impl_.frames_of_peer(cut(who, kQuotedBytesMax)));
      const HostId host = impl_.core.add_host(std::move(info), *peer);
      peer->stream()->on_message = [&core = impl_.core, host](Message message) {
        core.on_message(host, std::move(message));
      };
      peer->stream()->on_closed = [&core = impl_.core, host](const Error& why) {
        core.host_lost(host, why);
      };
      const std::string& name = impl_.core.hosts().at(host).info.name;
      peer->stream()->frames()->count_in(impl_.core.metrics(), {{"host", name}});
      auto results = context.getResults();
      results.setName(name);
      results.setFrameKey(impl_.expect_frames(peer->stream(), owner_));
      results.setRegistration(kj::heap<RegistrationServer>(impl_, host, std::move(peer)));
    });
  }

  kj::Promise<void> connect(ConnectContext context) override {
    return in_fiber(impl_.calls, "connect", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const std::string name = params.getName().cStr();
      const std::string who = cat("client \"", name, "\"");
      require_same_version({}, read(params.getVersion()), who);
      require_same_machine(this_machine(), read(params.getMachine()), who);
      auto peer = std::make_shared<ClientRpc>(impl_.reactor,
                                              impl_.frames_of_peer(cut(who, kQuotedBytesMax)));
      const SessionId id = impl_.core.add_session(name, owner_, *peer, read(params.getShare()));
      peer->stream()->on_message = [&core = impl_.core, id](Message message) {
        core.on_message(id, std::move(message));
      };
      peer->stream()->on_closed = [&impl = impl_, id, owner = owner_, from = from_,
                                   who = cut(who, kQuotedBytesMax)](const Error& why) {
        // Its frames were malformed, too many, or of what it may not say.
        if (why.kind() != ErrorKind::kUnavailable && why.kind() != ErrorKind::kCancelled)
          impl.log.warn("a client's connection is closed",
                        {{"client", who},
                         {"owner", owner},
                         {"from", from},
                         {"why", cut(why.message(), kTextBytesMax)}});
        impl.core.session_closed(id);
      };
      auto results = context.getResults();
      results.setId(id.value);
      results.setRunCredits(impl_.core.run_credits());
      results.setCopyCredits(impl_.core.copy_credits());
      results.setFrameKey(impl_.expect_frames(peer->stream(), owner_));
      results.setSession(kj::heap<SessionServer>(impl_, id, std::move(peer)));
    });
  }

  kj::Promise<void> status(StatusContext context) override {
    return in_fiber(impl_.calls, "status", [this, self = thisCap(), context]() mutable {
      require_same_version({}, read(context.getParams().getVersion()), "client");
      std::vector<const HostRecord*> there;
      for (const auto& [id, host] : impl_.core.hosts().all()) {
        if (!host.lost) there.push_back(&host);
      }
      const bool all_in_full = is_operator();
      if (all_in_full) context.getResults().setMetrics(impl_.core.metrics().to_prometheus());
      auto hosts = context.getResults().initHosts(static_cast<uint32_t>(there.size()));
      for (uint32_t i = 0; i < hosts.size(); ++i)
        write_host(hosts[i], *there[i], impl_.reactor.clock().now_ns(), all_in_full);
      const std::vector<ProgramCounts> all = impl_.core.programs();
      auto programs = context.getResults().initPrograms(static_cast<uint32_t>(all.size()));
      for (uint32_t i = 0; i < programs.size(); ++i)
        write_program(programs[i], all[i], all_in_full || all[i].owner == owner_);
    });
  }

 private:
  // Who runs the controller.
  bool is_operator() const { return owner_ == own_user_name(); }
  // Programs and their data lie on executors: nobody else may add one.
  void require_operator(const std::string& who) const {
    if (is_operator()) return;
    impl_.refused(from_, cat(who, " is of ", owner_));
    throw Error(ErrorKind::kInvalid,
                cat(cut(who, kQuotedBytesMax), ": expected one of ", own_user_name(),
                    ", who runs the controller, got one of ", owner_));
  }

  Impl& impl_;
  const std::string owner_, from_;
};

}  // namespace

ControllerService::ControllerService(Reactor& reactor, Network& network,
                                     ControllerServiceOptions options)
    : impl_(std::make_unique<Impl>(reactor, options)) {
  Impl& impl = *impl_;
  impl.server = std::make_unique<Server>(
      reactor, network, options.address,
      ServerOptions{
          .bootstrap = [&impl](const Peer& peer) -> capnp::Capability::Client {
            return kj::heap<ControllerServer>(impl, peer.user, peer.from);
          },
          .frames_of = [&impl](uint64_t key,
                               const std::string& user) { return impl.frames_of(key, user); },
          .user_of = [&impl](const AccessToken& token) { return impl.owner_of(token); },
          .on_refused = [&impl](const std::string& from,
                                const std::string& why) { impl.refused(from, why); }});
  impl.fibers.spawn("watch health", [&impl] { impl.watch(); });
}

ControllerService::~ControllerService() {
  impl_->server.reset();  // Drops every capability, and with them hosts and sessions.
}

const std::string& ControllerService::address() const { return impl_->server->address(); }
Controller& ControllerService::controller() { return impl_->core; }

}  // namespace gangway
