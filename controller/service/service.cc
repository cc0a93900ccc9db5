#include "controller/service/service.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>

#include "controller/service/client_connection.h"
#include "controller/service/metrics_page.h"
#include "controller/service/metrics_server.h"
#include "controller/service/peers_rpc.h"
#include "controller/service/refusal_log.h"
#include "controller/service/resumed_programs.h"
#include "controller/service/session_server.h"
#include "controller/service/state_writer.h"
#include "controller/service/status_wire.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/net/server.h"
#include "runtime/os/random_bytes.h"
#include "runtime/os/user.h"

namespace gangway {

namespace {

constexpr int64_t kTroubleAgainNs = 60'000'000'000;
constexpr int64_t kLookAgainNs = 20'000'000;

}  // namespace

struct ControllerService::Impl {
  Impl(Reactor& r, Network& n, ControllerServiceOptions options)
      : reactor(r),
        network(n),
        core(r, options.controller),
        rng(r.rng().fork(0xC0117801)),
        frames(std::move(options.frames)),
        tokens(std::move(options.tokens)),
        log(options.controller.log),
        sessions(r, core, fibers,
                 {.lease_ms = options.controller.lease_ms,
                  .log = options.controller.log,
                  .forget = [this](const std::shared_ptr<PeerStream>& stream) { forget(stream); }}),
        fibers(r),
        calls(r),
        state(std::move(options.state)) {
    if (state == nullptr) return;
    state_writer.emplace(r, core, *state, log);
    resumed.emplace(
        r, core, sessions, *state_writer,
        ResumedPrograms::Options{
            .new_key = [this] { return new_key(); }, .pacer = frames.pacer, .log = log});
    resumed->bring_back(state->programs());
  }

  FrameOptions frames_of_peer(std::string name) const {
    FrameOptions of_peer = frames;
    of_peer.name = std::move(name);
    return of_peer;
  }

  // A client's stream waits for the client to come back at least as long as its session does.
  FrameOptions frames_of_client(std::string name) const {
    FrameOptions of_client = frames_of_peer(std::move(name));
    of_client.reconnect_ms = std::max(of_client.reconnect_ms, core.options().lease_ms);
    return of_client;
  }

  // The key of a stream and of a session. Only in a simulation can it be guessed, from the seed.
  uint64_t new_key() {
    uint64_t key = rng.next_u64();
    if (!reactor.simulated()) fill_random(std::as_writable_bytes(std::span(&key, 1)));
    return key;
  }

  // Returns the key with which `owner` connects, also again after a lost connection.
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

  void refused(const std::string& from, const std::string& why) {
    refusals.warn("a connection was refused", from, why);
  }

  void forget(const std::shared_ptr<PeerStream>& stream) {
    stream->on_closed = nullptr;
    std::erase_if(streams, [&](const auto& item) { return item.second == stream; });
    // In a fiber of its own, since close() suspends.
    fibers.spawn("close a stream", [stream] { stream->close(); });
  }

  void out_of_descriptors(const Error& why) {
    out_of_descriptors_total.add();
    const int64_t now_ns = reactor.clock().now_ns();
    if (last_trouble_ns && now_ns - *last_trouble_ns < kTroubleAgainNs) return;
    last_trouble_ns = now_ns;
    log.error(why.message(), {{"hint", why.hint()}});
  }

  std::string metrics_text() { return metrics_page(core, reactor, network.certificate()); }

  void watch() {
    while (true) {
      const int64_t next_ns = core.tick(reactor.clock().now_ns());
      core.path().deadline_moved().wait_until_ns("for the next time limit", next_ns);
      if (frames.pacer != nullptr) frames.pacer->wake();
    }
  }

  Reactor& reactor;
  Network& network;
  Controller core;
  Rng rng;
  FrameOptions frames;
  const std::shared_ptr<TokenTable> tokens;
  Logger log;
  RefusalLog refusals{reactor.clock(), log};
  std::map<uint64_t, std::shared_ptr<PeerStream>> streams;
  ClientSessions sessions;
  FiberGroup fibers;
  FiberGroup calls;  // A call may be the last to hold its peer, whose stream `fibers` then closes.
  std::unique_ptr<Server> server;
  std::unique_ptr<MetricsServer> metrics;
  bool is_ending = false;  // end_in_order() was called.
  bool is_over = false;    // The destructor runs.
  const Counter out_of_descriptors_total = core.tables().metrics.counter(
      "gangway_out_of_descriptors_total",
      "Times that no connection could be taken, since the process had no file descriptor left");
  std::optional<int64_t> last_trouble_ns;  // When running out of descriptors was logged last.
  const std::shared_ptr<StateDir> state;
  std::optional<StateWriter> state_writer;
  std::optional<ResumedPrograms> resumed;
};

namespace {

using Impl = ControllerService::Impl;

constexpr size_t kLogWaitsMax = 16;  // Calls over one connection that wait for lines.

class RegistrationServer final : public wire::Registration::Server {
 public:
  RegistrationServer(Impl& impl, HostId host, std::shared_ptr<ExecutorRpc> peer)
      : impl_(impl), host_(host), peer_(std::move(peer)) {}
  ~RegistrationServer() noexcept {
    if (impl_.is_over) {
      impl_.core.host_lost(host_, Error(ErrorKind::kUnavailable, "its controller ends"),
                           HostEnd::kInOrder);
    } else {
      impl_.core.host_lost(host_, Error(ErrorKind::kUnavailable, "its connection ended"));
    }
    impl_.forget(peer_->stream());
  }

  kj::Promise<void> leave(LeaveContext) override {
    impl_.core.host_lost(host_, Error(ErrorKind::kUnavailable, "its executor was told to end"),
                         HostEnd::kInOrder);
    return kj::READY_NOW;
  }

 private:
  Impl& impl_;
  HostId host_;
  std::shared_ptr<ExecutorRpc> peer_;
};

// `is_real`: not a simulation, so that the process can be looked up.
HostInfo read_host(wire::HostDescription::Reader from, const Machine& machine, bool is_real) {
  return {.name = from.getName().cStr(),
          .devices = from.getDevices(),
          .memory_bytes = from.getMemoryBytes(),
          .kind = from.getKind().cStr(),
          .text = from.getText().cStr(),
          .process = is_real ? process_of(machine, from.getProcess()) : ProcessIdentity{},
          .machine = machine.identity,
          .island = from.getIsland().cStr(),
          .name_is_chosen = from.getNameIsChosen()};
}

void write_log(wire::Controller::LogsResults::Builder to, const ProgramLog& log) {
  to.setProgram(log.program);
  to.setLast(log.last);
  to.setEnded(log.ended);
  auto lines = to.initLines(static_cast<uint32_t>(log.lines.size()));
  for (uint32_t i = 0; i < lines.size(); ++i) {
    const LoggedLine& line = log.lines[i];
    lines[i].setNumber(line.number);
    lines[i].setTimeNs(line.time_ns);
    lines[i].setOfProgram(line.of_program);
    lines[i].setText(line.text);
  }
}

void write_graph(wire::Controller::GraphResults::Builder to, const ShownGraph& graph,
                 const GraphBytes& bytes) {
  const auto data = [](const std::vector<std::byte>& part) {
    return kj::arrayPtr(reinterpret_cast<const kj::byte*>(part.data()), part.size());
  };
  to.setProgram(data(bytes.program));
  to.setPlan(data(bytes.plan));
  const auto slices = static_cast<uint32_t>(graph.kinds.size());
  auto kinds = to.initKinds(slices);
  auto placed = to.initPlaced(slices);
  for (uint32_t i = 0; i < slices; ++i) {
    kinds.set(i, graph.kinds[i]);
    placed.set(i, graph.placed[i]);
  }
}

// Sends requests to stop to a client. The answer of a client that is gone is an error.
ClientSessions::TellStop stop_teller(wire::ClientWatch::Client watch) {
  const auto to = std::make_shared<wire::ClientWatch::Client>(kj::mv(watch));
  return [to](const StopRequest& stop) {
    auto request = to->stopRequest();
    request.setBy(stop.by);
    request.setGraceMs(stop.grace_ms);
    request.setControllerEnds(stop.controller_ends);
    auto acts = std::make_shared<Promise<bool>>();
    request.send()
        .then([acts](capnp::Response<wire::ClientWatch::StopResults>&& answer) {
          acts->set(answer.getActs());
        })
        .detach([acts](const kj::Exception&) {
          acts->fail(Error(ErrorKind::kUnavailable, "stop: the client is gone"));
        });
    return acts->future();
  };
}

class ControllerServer final : public wire::Controller::Server {
 public:
  ControllerServer(Impl& impl, std::shared_ptr<ClientConnection> connection)
      : impl_(impl), connection_(std::move(connection)), owner_(connection_->owner()) {}

  kj::Promise<void> registerExecutor(RegisterExecutorContext context) override {
    return connection_->serve_always("register", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const Machine machine = read(params.getMachine());
      HostInfo info = read_host(params.getDescription(), machine, !impl_.reactor.simulated());
      info.owner = owner_;
      const std::string who = cat("executor \"", info.name, "\"");
      require_same_version({}, read(params.getVersion()), who);
      require_same_machine(this_machine(), machine, who);
      connection_->certificate() ? certify(info, *connection_->certificate(), who)
                                 : require_operator(who);
      auto peer = std::make_shared<ExecutorRpc>(impl_.reactor, params.getExecutor(),
                                                impl_.frames_of_peer(cut(who, kQuotedBytesMax)));
      const HostId host = impl_.core.add_host(std::move(info), *peer);
      peer->stream()->on_message = [&core = impl_.core, host](Message message) {
        core.on_message(host, std::move(message));
      };
      peer->stream()->on_closed = [&core = impl_.core, host](const Error& why) {
        core.host_lost(host, why);
      };
      const std::string& name = impl_.core.tables().hosts.at(host).info.name;
      peer->stream()->frames()->count_in(impl_.core.tables().metrics, {{"host", name}});
      auto results = context.getResults();
      results.setName(name);
      results.setFrameKey(impl_.expect_frames(peer->stream(), owner_));
      results.setRegistration(kj::heap<RegistrationServer>(impl_, host, std::move(peer)));
      connection_->belongs_to_executor();
    });
  }

  kj::Promise<void> connect(ConnectContext context) override {
    return connection_->serve("connect", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      if (impl_.is_ending)
        throw Error(ErrorKind::kUnavailable, "connect: the controller was told to end", {},
                    "connect again once it is back");
      const std::string who = cat("client \"", params.getName().cStr(), "\"");
      require_same_version({}, read(params.getVersion()), who);
      const Machine machine = read(params.getMachine());
      require_same_machine(this_machine(), machine, who);
      require_no_host(who);
      uint64_t attachment = 1;
      std::shared_ptr<ClientSessions::Session> session =
          impl_.sessions.opened_with(params.getNonce(), owner_);
      if (session == nullptr) {
        session = params.getAttach() ? take_over(params) : open_session(params);
        attachment = session->attachment;
      } else {
        attachment = impl_.sessions.attach(session->id, session->key, owner_);
      }
      if (params.hasWatch())
        ClientSessions::tell_of_stops(*session, stop_teller(params.getWatch()));
      auto results = context.getResults();
      results.setId(session->id.value);
      results.setName(impl_.core.programs().open(session->id).name);
      results.setRunCredits(impl_.core.options().run_credits);
      results.setCopyCredits(impl_.core.options().transfer_credits);
      results.setFrameKey(session->key);
      results.setLeaseMs(impl_.core.options().lease_ms);
      results.setProcess(impl_.reactor.simulated() ? 0 : process_of(machine, getpid()).pid);
      results.setSession(session_over_this(session->id, attachment));
    });
  }

  kj::Promise<void> attach(AttachContext context) override {
    return connection_->serve_always("attach", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      require_same_version({}, read(params.getVersion()), "client");
      const SessionId id(params.getId());
      const uint64_t attachment = impl_.sessions.attach(id, params.getKey(), owner_);
      if (params.hasWatch()) impl_.sessions.tell_of_stops(id, stop_teller(params.getWatch()));
      context.getResults().setSession(session_over_this(id, attachment));
    });
  }

  kj::Promise<void> stop(StopContext context) override {
    return connection_->serve("stop", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      require_same_version({}, read(params.getVersion()), "client");
      constexpr int64_t kGraceMaxMs = int64_t{7} * 24 * 3600 * 1000;
      GW_REQUIRE(params.getGraceMs() >= 0 && params.getGraceMs() <= kGraceMaxMs,
                 "stop: expected a grace of 0 to ", kGraceMaxMs, " ms, got ", params.getGraceMs());
      const std::string name = cut(params.getName().cStr(), kTextBytesMax);
      const std::optional<SessionId> id = program_of(name);
      GW_REQUIRE(id, "stop: there is no program \"", name, "\" that ", owner_, " may end");
      context.getResults().setByForce(
          impl_.sessions.stop(*id, {.by = owner_, .grace_ms = params.getGraceMs()}));
    });
  }

  kj::Promise<void> suspend(SuspendContext context) override {
    return connection_->serve("suspend", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const std::string what = params.getUndo() ? "resume" : "suspend";
      require_same_version({}, read(params.getVersion()), "client");
      const std::string name = cut(params.getName().cStr(), kTextBytesMax);
      const std::optional<SessionId> id = program_of(name);
      GW_REQUIRE(id, what, ": there is no program \"", name, "\" that ", owner_, " may ", what);
      if (params.getUndo()) return impl_.core.resume_program(*id, owner_, connection_->gone());
      context.getResults().setBytes(impl_.core.suspend_program(*id, owner_, connection_->gone()));
    });
  }

  kj::Promise<void> logs(LogsContext context) override {
    return connection_->serve("logs", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      require_same_version({}, read(params.getVersion()), "client");
      const std::string name = cut(params.getName().cStr(), kTextBytesMax);
      const std::optional<SessionId> id =
          program_of(name, [&](const std::string& owner, const std::string& of_owner) {
            return impl_.core.programs().find_log(owner, of_owner, params.getProgram());
          });
      GW_REQUIRE(id, "logs: there is no program \"", name, "\" whose log ", owner_, " may read");
      write_log(context.getResults(), read_log(*id, params.getAfter(), params.getWaitMs()));
    });
  }

  kj::Promise<void> graph(GraphContext context) override {
    return connection_->serve("graph", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      require_same_version({}, read(params.getVersion()), "client");
      const std::string name = cut(params.getName().cStr(), kTextBytesMax);
      const std::optional<SessionId> id = program_of(name);
      GW_REQUIRE(id, "graph: there is no program \"", name, "\" that ", owner_, " may look at");
      const ShownGraph graph =
          impl_.core.shown_graphs().graph(*id, {.executable = params.getExecutable().cStr(),
                                                .plan = PlanId(params.getPlan()),
                                                .why = cut(params.getWhy().cStr(), kTextBytesMax),
                                                .asked_by = owner_});
      if (!graph.text.empty()) return context.getResults().setText(graph.text);
      write_graph(context.getResults(), graph, impl_.core.shown_graphs().bytes_of(graph, owner_));
    });
  }

  kj::Promise<void> status(StatusContext context) override {
    return connection_->serve("status", [this, self = thisCap(), context]() mutable {
      require_same_version({}, read(context.getParams().getVersion()), "client");
      if (is_operator()) context.getResults().setMetrics(impl_.metrics_text());
      if (const auto own = impl_.network.certificate())
        context.getResults().setCertificateEndsS(own->validity.ends_s);
      write_status(context.getResults(), impl_.core, owner_, impl_.reactor.clock().now_ns());
    });
  }

  kj::Promise<void> drain(DrainContext context) override {
    return connection_->serve("drain", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const std::string host = params.getHost().cStr();
      const std::string what = cat("who ", params.getUndo() ? "undrains" : "drains");
      require_same_version({}, read(params.getVersion()), "client");
      require_operator(cat(what, " host \"", cut(host, kQuotedBytesMax), "\""));
      impl_.core.tables().hosts.set_draining(host, !params.getUndo());
      impl_.log.info(params.getUndo() ? "host takes slices again" : "host is drained of slices",
                     {{"host", host}});
    });
  }

  kj::Promise<void> forget(ForgetContext context) override {
    return connection_->serve("forget", [this, self = thisCap(), context]() mutable {
      auto params = context.getParams();
      const std::string host = params.getHost().cStr();
      require_same_version({}, read(params.getVersion()), "client");
      require_operator(cat("who forgets host \"", cut(host, kQuotedBytesMax), "\""));
      impl_.core.tables().hosts.names().forget(host);
      impl_.log.info("host is forgotten", {{"host", host}});
    });
  }

 private:
  // Whether the peer is the user who runs the controller.
  bool is_operator() const { return owner_ == own_user_name(); }
  // Programs and their data lie on executors, so nobody else may add one.
  void require_operator(const std::string& who) const {
    if (is_operator()) return;
    impl_.refused(connection_->from(), cat(who, " is of ", owner_));
    throw Error(ErrorKind::kInvalid,
                cat(cut(who, kQuotedBytesMax), ": expected one of ", own_user_name(),
                    ", who runs the controller, got one of ", owner_));
  }

  // A host's certificate stands for the executor of its name, and for nothing else.
  void certify(HostInfo& info, const Certificate& certificate, const std::string& who) {
    if (!is_host(certificate) || certificate.name.name != info.name)
      refuse_certificate(who, cat("that of host ", info.name), certificate.name);
    info.owner = own_user_name();
    info.name_is_chosen = true;
    info.certificate_ends_s = certificate.validity.ends_s;
  }
  void require_no_host(const std::string& who) {
    const std::optional<Certificate>& certificate = connection_->certificate();
    if (certificate && is_host(*certificate))
      refuse_certificate(who, "an owner's", certificate->name);
  }
  [[noreturn]] void refuse_certificate(const std::string& who, const std::string& expected,
                                       const CertifiedName& got) {
    impl_.refused(connection_->from(),
                  cut(cat(who, " shows the certificate of ", to_text(got)), kTextBytesMax));
    throw Error(ErrorKind::kInvalid,
                cat(cut(who, kQuotedBytesMax), ": expected a certificate: ",
                    cut(expected, kQuotedBytesMax), ", got that of ", to_text(got)));
  }

  ProgramLog read_log(SessionId id, uint64_t after, int64_t wait_ms) {
    const std::shared_ptr<LogBuffer> log = impl_.core.programs().log_of(id);
    if (wait_ms <= 0) return log->read(after);
    if (waiting_for_logs_ >= kLogWaitsMax) {
      throw Error(ErrorKind::kOverloaded, cat("logs: too many calls wait over this connection: ",
                                              "expected at most ", kLogWaitsMax));
    }
    ++waiting_for_logs_;
    KJ_DEFER(--waiting_for_logs_);
    const int64_t until_ns =
        impl_.reactor.clock().now_ns() + std::min(wait_ms, kLogWaitMsMax) * 1'000'000;
    return log->wait(after, until_ns, connection_->gone());
  }

  std::optional<SessionId> program_of(const std::string& name) const {
    return program_of(name, [this](const std::string& owner, const std::string& of_owner) {
      return impl_.core.programs().find(owner, of_owner);
    });
  }

  // The program "name" of the peer itself, or "owner/name": the user who runs the controller may
  // name programs of any owner.
  template <class Find>
  std::optional<SessionId> program_of(const std::string& name, const Find& find) const {
    if (const auto own = find(owner_, name)) return own;
    const size_t slash = name.find('/');
    const std::string owner = name.substr(0, slash);
    if (slash == std::string::npos || (owner != owner_ && !is_operator())) return std::nullopt;
    return find(owner, name.substr(slash + 1));
  }

  std::shared_ptr<ClientSessions::Session> open_session(ConnectParams::Reader params) {
    const std::string name = params.getName().cStr();
    const std::string who = cut(cat("client \"", name, "\""), kQuotedBytesMax);
    auto peer = std::make_shared<ClientRpc>(impl_.reactor, impl_.frames_of_client(who));
    const SessionId id = impl_.core.programs().add(
        name, owner_, *peer, read(params.getShare()),
        params.getNumberName() ? TakenName::kNumbered : TakenName::kRefused);
    auto session = std::make_shared<ClientSessions::Session>();
    session->id = id;
    session->owner = owner_;
    add_client(session, std::move(peer), params);
    return session;
  }

  std::shared_ptr<ClientSessions::Session> take_over(ConnectParams::Reader params) {
    const std::string name = cut(params.getName().cStr(), kProgramNameBytesMax);
    const std::string who = cut(cat("client \"", name, "\""), kQuotedBytesMax);
    std::shared_ptr<ClientSessions::Session> session = impl_.sessions.find_detached(owner_, name);
    auto peer = std::make_shared<ClientRpc>(impl_.reactor, impl_.frames_of_client(who));
    impl_.core.programs().open(session->id).attach(*peer);
    ++session->attachment;
    add_client(session, std::move(peer), params);
    return session;
  }

  void add_client(const std::shared_ptr<ClientSessions::Session>& session,
                  std::shared_ptr<ClientRpc> peer, ConnectParams::Reader params) {
    const std::string who = cut(cat("client \"", params.getName().cStr(), "\""), kQuotedBytesMax);
    listen_to(*peer->stream(), session->id, who);
    session->key = impl_.expect_frames(peer->stream(), owner_);
    session->nonce = params.getNonce();
    session->peer = std::move(peer);
    session->process = process_of(read(params.getMachine()), params.getProcess());
    impl_.sessions.add(session);
  }

  void listen_to(PeerStream& stream, SessionId id, const std::string& who) {
    stream.on_message = [&core = impl_.core, id](Message message) {
      core.on_message(id, std::move(message));
    };
    stream.on_closed = [&impl = impl_, id, owner = owner_, from = connection_->from(),
                        who](const Error& why) {
      if (breaks_rules(why))
        impl.log.warn("a client's connection is closed",
                      {{"client", who},
                       {"owner", owner},
                       {"from", from},
                       {"why", cut(why.message(), kTextBytesMax)}});
      impl.sessions.stream_ended(id, why);
    };
  }

  wire::Session::Client session_over_this(SessionId id, uint64_t attachment) {
    connection_->joined(id, attachment);
    connection_->disconnected().on_ready(
        [&sessions = impl_.sessions, id, attachment](const Result<void>&) {
          sessions.lost(id, attachment);
        });
    return make_session_server({impl_.core, impl_.sessions, connection_, impl_.frames.pacer}, id,
                               attachment);
  }

  Impl& impl_;
  const std::shared_ptr<ClientConnection> connection_;
  const std::string& owner_;     // The user at its other end.
  size_t waiting_for_logs_ = 0;  // Calls over this connection that wait for lines of a log.
};

}  // namespace

ControllerService::ControllerService(Reactor& reactor, Network& network,
                                     ControllerServiceOptions options)
    : impl_(std::make_unique<Impl>(reactor, network, options)) {
  Impl& impl = *impl_;
  impl.server = std::make_unique<Server>(
      reactor, network, options.address,
      ServerOptions{
          .bootstrap = [&impl](const Peer& peer) -> capnp::Capability::Client {
            return kj::heap<ControllerServer>(
                impl, std::make_shared<ClientConnection>(peer, impl.sessions, impl.calls,
                                                         impl.core.tables().owner_use, impl.log));
          },
          .frames_of = [&impl](uint64_t key,
                               const std::string& user) { return impl.frames_of(key, user); },
          .has_room_for =
              [&impl](const std::string& user) {
                const OwnerUse& use = impl.core.tables().owner_use;
                return use.used(user, OwnerResource::kConnections) <
                       use.max(user, OwnerResource::kConnections);
              },
          .user_of = [&impl](const AccessToken& token) { return impl.owner_of(token); },
          .on_refused = [&impl](const std::string& from,
                                const std::string& why) { impl.refused(from, why); },
          .on_trouble = [&impl](const Error& why) { impl.out_of_descriptors(why); },
          .budget_of = [&impl](const Peer& peer) -> std::shared_ptr<MessageBudget> {
            return std::make_shared<OwnersMessages>(
                impl.core.tables().owner_use, peer,
                [&impl, from = peer.from](const Error& why) { impl.refused(from, why.message()); });
          }});
  if (!options.metrics_address.empty()) {
    impl.metrics = std::make_unique<MetricsServer>(
        reactor, network, options.metrics_address,
        MetricsServerOptions{.user = own_user_name(),
                             .tokens = impl.tokens,
                             .page = [&impl] { return impl.metrics_text(); },
                             .is_ready = [&impl] { return !impl.is_ending; },
                             .log = impl.log});
  }
  impl.fibers.spawn("watch health", [&impl] { impl.watch(); });
}

ControllerService::~ControllerService() {
  // Programs that end with this controller go on with the next one, so their files stay.
  if (impl_->state_writer) impl_->state_writer->leave_programs();
  impl_->resumed.reset();
  impl_->metrics.reset();
  impl_->is_over = true;
  impl_->sessions.close_all();  // Before the hosts go, so that no client gets errors of that.
  impl_->server.reset();        // Drops every capability, and the hosts with them.
}

void ControllerService::end_in_order(int64_t grace_ms, const StopToken& at_once) {
  Impl& impl = *impl_;
  impl.is_ending = true;
  const int64_t deadline_ns = impl.reactor.clock().now_ns() + grace_ms * 1'000'000;
  impl.sessions.stop_all(
      {.by = "the controller, which ends,", .grace_ms = grace_ms, .controller_ends = true},
      [&](SessionId id) {
        return impl.state != nullptr && impl.core.programs().record_of(id).has_value();
      },
      at_once);
  impl.core.checkpoints().begin_no_more();
  const auto now_ns = [&] { return impl.reactor.clock().now_ns(); };
  while (impl.core.checkpoints().under_way() > 0 && now_ns() < deadline_ns &&
         !at_once.stop_requested())
    WaitQueue().wait_until_ns("for checkpoints to be written", now_ns() + kLookAgainNs);
}

void ControllerService::set_quotas(Quotas quotas) {
  impl_->core.tables().quotas.set(std::move(quotas));
}

const std::string& ControllerService::address() const { return impl_->server->address(); }
const std::string& ControllerService::metrics_address() const {
  static const std::string nowhere;
  return impl_->metrics == nullptr ? nowhere : impl_->metrics->address();
}
Controller& ControllerService::controller() { return impl_->core; }
bool ControllerService::is_ready() const { return !impl_->is_ending; }

}  // namespace gangway
