#include "runtime/net/sim_network.h"

#include <kj/debug.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <string_view>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"
#include "runtime/os/user.h"

namespace gangway {
namespace {

using Pair = std::pair<std::string, std::string>;

Pair ordered(const std::string& a, const std::string& b) { return a < b ? Pair{a, b} : Pair{b, a}; }

// A writer waits when this many bytes are under way, as with a full socket.
constexpr size_t kInFlightBytesMax = 1 << 20;

class SimStream;

// Between two endpoints.
struct Way {
  SimSpeed speed;
  bool cut = false;
};

// State of the process at an endpoint, which its streams read.
struct Party {
  bool stopped = false;
  bool vanished = false;
};

// One end of a pipe; shared with the writes that are still under way when the stream is closed.
struct PipeEnd : kj::Refcounted {
  explicit PipeEnd(Stream s) : pipe(kj::mv(s)) {}
  Stream pipe;
};

}  // namespace

struct SimNetwork::Core final : private kj::TaskSet::ErrorHandler {
  Core(Reactor& r, SimNetworkOptions o)
      : reactor(r), options(o), rng(r.rng().fork(0x6e6574)), tasks(*this) {}

  Way& way(const Pair& pair) {
    return ways.try_emplace(pair, Way{.speed = {.delay = options.delay, .jitter = options.jitter}})
        .first->second;
  }
  const std::shared_ptr<Party>& party(const std::string& name) {
    std::shared_ptr<Party>& found = parties[name];
    if (found == nullptr) found = std::make_shared<Party>();
    return found;
  }
  std::string user_at(const std::string& endpoint) const {
    const auto found = users.find(endpoint);
    return found == users.end() ? own_user_name() : found->second;
  }
  Duration draw_delay(const SimSpeed& speed) {
    Duration delay = speed.delay;
    if (speed.jitter.count() > 0)
      delay +=
          Duration(static_cast<int64_t>(rng.below(static_cast<uint64_t>(speed.jitter.count()))));
    return delay;
  }
  // Ready when the flag is false. The waiter keeps the flag alive.
  kj::Promise<void> until_clear(const bool& flag) {
    if (!flag) return kj::READY_NOW;
    auto waiting = kj::newPromiseAndFulfiller<void>();
    cleared.push_back(kj::mv(waiting.fulfiller));
    return waiting.promise.then([this, &flag] { return until_clear(flag); });
  }
  // Some flag was cleared.
  void look_again() {
    changed.wake_all();
    auto waiting = std::exchange(cleared, {});
    for (auto& fulfiller : waiting) fulfiller->fulfill();
  }
  void break_if(const std::function<bool(const SimStream&)>& chosen);

  // A write failed because its peer is gone; the stream itself reports that to the writer.
  void taskFailed(kj::Exception&&) override {}

  Reactor& reactor;
  SimNetworkOptions options;
  Rng rng;
  DrawFrameFault frame_fault;
  Meddle meddle;
  struct Listening {
    OnConnection on_connection;
    std::shared_ptr<bool> open = std::make_shared<bool>(true);
  };
  std::map<std::string, Listening> listeners;
  WaitQueue changed;  // Woken when a listener is added or a partition heals.
  std::map<Pair, Way> ways;
  std::map<std::string, std::shared_ptr<Party>> parties;
  std::map<std::string, std::string> users;  // Keyed by endpoint; only those that set_user() set.
  std::vector<std::shared_ptr<Party>> vanished;
  std::vector<kj::Own<PipeEnd>> silent;  // Ends of vanished endpoints, kept open for their peers.
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> cleared;
  std::list<SimStream*> streams;
  kj::TaskSet tasks;
};

namespace {

// State that the two streams of a connection share.
struct SimConnection {
  bool has_frames = false;
};

class SimStream final : public kj::AsyncIoStream {
 public:
  SimStream(std::shared_ptr<SimNetwork::Core> core, std::shared_ptr<SimConnection> connection,
            Pair from_to, Stream pipe)
      : core_(std::move(core)),
        connection_(std::move(connection)),
        from_to_(std::move(from_to)),
        pair_(ordered(from_to_.first, from_to_.second)),
        way_(core_->way(pair_)),
        party_(core_->party(from_to_.first)),
        replay_id_(ReplayHash::of(from_to_.first + ">" + from_to_.second)),
        end_(kj::refcounted<PipeEnd>(kj::mv(pipe))) {
    at_ = core_->streams.insert(core_->streams.end(), this);
  }
  ~SimStream() {
    core_->streams.erase(at_);
    if (party_->vanished) core_->silent.push_back(kj::mv(end_));
  }

  const Pair& pair() const { return pair_; }
  const SimConnection* connection() const { return connection_.get(); }
  void break_now() {
    broken_ = true;
    try {
      end_->pipe->abortRead();
    } catch (const kj::Exception&) {  // The peer was gone already.
    }
  }

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    // The process may be stopped while it waits for bytes; it then reads them when it is resumed.
    return end_->pipe->tryRead(buffer, min_bytes, max_bytes)
        .then([core = core_.get(), party = party_](size_t bytes) -> kj::Promise<size_t> {
          if (!party->stopped) return bytes;
          return core->until_clear(party->stopped).then([party, bytes] { return bytes; });
        });
  }

  kj::Promise<void> write(const void* buffer, size_t size) override {
    const kj::ArrayPtr<const kj::byte> piece(static_cast<const kj::byte*>(buffer), size);
    return write(kj::arrayPtr(&piece, 1));
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    if (broken_) return broken();
    if (party_->vanished) return kj::Promise<void>(kj::NEVER_DONE);
    if (std::exchange(first_, false)) {
      look_at_preamble(pieces);
    } else if (connection_->has_frames && (core_->frame_fault || core_->meddle)) {
      return write_changed(joined(pieces));
    }
    size_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    const Duration delay = time_for(bytes);
    if (delay.count() == 0 && in_flight_ == 0 && !way_.cut && !party_->stopped)
      return end_->pipe->write(pieces);
    return send_later(joined(pieces), delay);
  }
  kj::Promise<void> whenWriteDisconnected() override { return end_->pipe->whenWriteDisconnected(); }
  void shutdownWrite() override {
    if (broken_ || party_->vanished) return;
    if (in_flight_ == 0) return end_->pipe->shutdownWrite();
    core_->tasks.add(tail_.addBranch().then(
        [end = kj::addRef(*end_)]() mutable { end->pipe->shutdownWrite(); }));
  }
  void abortRead() override {
    if (!party_->vanished) end_->pipe->abortRead();
  }

 private:
  static kj::Array<kj::byte> joined(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
    size_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    auto all = kj::heapArray<kj::byte>(bytes);
    kj::byte* at = all.begin();
    for (const auto& piece : pieces) at = std::copy(piece.begin(), piece.end(), at);
    return all;
  }

  // The first bytes of the side that dials name the kind of connection (server.h).
  void look_at_preamble(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
    constexpr std::string_view kMagic = "GWAY";
    constexpr size_t kKind = 5;
    const auto bytes = pieces.size() > 0 ? pieces[0] : nullptr;
    connection_->has_frames |= bytes.size() > kKind && bytes[kKind] == 1 &&
                               std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
  }

  kj::Promise<void> write_changed(kj::Array<kj::byte> bytes) {
    if (core_->meddle) {
      const auto changed = core_->meddle(from_to_.first, from_to_.second, bytes);
      bytes = kj::heapArray<kj::byte>(changed.data(), changed.size());
    }
    if (core_->frame_fault) return write_with_faults(kj::mv(bytes));
    if (bytes.size() == 0) return kj::READY_NOW;
    const Duration delay = time_for(bytes.size());
    return send_later(kj::mv(bytes), delay);
  }

  kj::Promise<void> write_with_faults(kj::Array<kj::byte> bytes) {
    const auto outcome =
        faults_.pass(bytes, [this] { return core_->frame_fault(from_to_.first, from_to_.second); });
    kj::Promise<void> sent = kj::READY_NOW;
    for (const auto& piece : outcome.pieces) {
      auto copy = kj::heapArray<kj::byte>(piece.bytes.data(), piece.bytes.size());
      sent = sent.then(
          [next = send_later(kj::mv(copy), time_for(piece.bytes.size()) + piece.delay)]() mutable {
            return kj::mv(next);
          });
    }
    if (!outcome.broken) return sent;
    core_->break_if([this](const SimStream& s) { return s.connection() == connection_.get(); });
    return broken();
  }

  static kj::Promise<void> broken() {
    return KJ_EXCEPTION(DISCONNECTED, "the simulated connection was broken");
  }

  // Time until this many bytes, after those written before, have arrived.
  Duration time_for(size_t bytes) {
    const SimSpeed& speed = way_.speed;
    const int64_t now_ns = core_->reactor.clock().now_ns();
    if (speed.bytes_per_s > 0) {
      left_ns_ = std::max(now_ns, left_ns_) +
                 std::llround(static_cast<double>(bytes) / speed.bytes_per_s * 1e9);
    }
    const Duration time =
        Duration(std::max<int64_t>(left_ns_ - now_ns, 0)) + core_->draw_delay(speed);
    if (core_->options.replay != nullptr)
      core_->options.replay->add(replay_id_, now_ns + time.count());
    return time;
  }

  // Bytes leave in order: each write waits for the one before it, then for its own time of arrival.
  kj::Promise<void> send_later(kj::Array<kj::byte> bytes, Duration delay) {
    const int64_t arrival_ns = core_->reactor.clock().now_ns() + delay.count();
    const size_t size = bytes.size();
    in_flight_ += size;
    auto sent =
        tail_.addBranch()
            .then([core = core_.get(), arrival_ns] {
              return core->reactor.port().timer().atTime(internal::to_kj_time(arrival_ns));
            })
            .then([core = core_.get(), party = party_, held = party_->stopped] {
              return held ? core->until_clear(party->stopped).attach(party)
                          : kj::Promise<void>(kj::READY_NOW);
            })
            .then([core = core_.get(), &way = way_] { return core->until_clear(way.cut); })
            .then([end = kj::addRef(*end_), data = kj::mv(bytes)]() mutable {
              return end->pipe->write(data.begin(), data.size()).attach(kj::mv(data), kj::mv(end));
            });
    tail_ = sent.fork();
    core_->tasks.add(tail_.addBranch());
    const bool full = in_flight_ > kInFlightBytesMax;
    auto landed = tail_.addBranch().then([this, size] { in_flight_ -= size; });
    if (full) return landed;
    landing_ = landing_.then([l = kj::mv(landed)]() mutable { return kj::mv(l); })
                   .eagerlyEvaluate([](kj::Exception&&) {});
    return kj::READY_NOW;
  }

  std::shared_ptr<SimNetwork::Core> core_;
  std::shared_ptr<SimConnection> connection_;
  Pair from_to_, pair_;
  Way& way_;
  const std::shared_ptr<Party> party_;
  const uint64_t replay_id_;
  kj::Own<PipeEnd> end_;
  std::list<SimStream*>::iterator at_;
  bool broken_ = false;
  bool first_ = true;  // Whether nothing was written yet.
  internal::FaultyFrames faults_;
  size_t in_flight_ = 0;
  int64_t left_ns_ = 0;  // When the last byte written so far has left, on a way with a speed.
  kj::ForkedPromise<void> tail_ = kj::Promise<void>(kj::READY_NOW).fork();
  kj::Promise<void> landing_ = kj::READY_NOW;
};

class SimListener final : public Listener {
 public:
  SimListener(std::shared_ptr<SimNetwork::Core> core, std::string address)
      : core_(std::move(core)), address_(std::move(address)) {}
  ~SimListener() override {
    const auto at = core_->listeners.find(address_);
    *at->second.open = false;
    core_->listeners.erase(at);
  }
  const std::string& address() const override { return address_; }

 private:
  std::shared_ptr<SimNetwork::Core> core_;
  std::string address_;
};

class Endpoint final : public Network {
 public:
  Endpoint(std::shared_ptr<SimNetwork::Core> core, std::string name)
      : core_(std::move(core)), name_(std::move(name)) {}

  // Calls neither on_trouble nor on_refused: its connections need no descriptors, and no TLS.
  std::unique_ptr<Listener> listen(const std::string& address, OnConnection on_connection,
                                   ListenOptions) override {
    GW_REQUIRE(address == "sim:" + name_, "listen: the endpoint \"", name_,
               "\" of a simulated network has the address sim:", name_, ", got ", address);
    GW_REQUIRE(!core_->listeners.contains(address), "listen: ", address, " is in use");
    core_->listeners[address] = {.on_connection = std::move(on_connection)};
    core_->changed.wake_all();
    return std::make_unique<SimListener>(core_, address);
  }

  Stream connect(const std::string& address, DialOptions options) override {
    GW_REQUIRE(address.starts_with("sim:"),
               "connect: a simulated network has addresses such as "
               "sim:controller, got ",
               address);
    const std::string peer = address.substr(4);
    const Way& way = core_->way(ordered(name_, peer));
    const int64_t deadline_ns = core_->reactor.clock().now_ns() + options.time_limit.count();
    while (!core_->listeners.contains(address) || way.cut) {
      if (core_->changed.wait_until_ns("for a listener", deadline_ns)) continue;
      throw Error(ErrorKind::kUnavailable,
                  cat("connect: nobody answers at ", address, " after ",
                      format_duration_ns(options.time_limit.count())),
                  {}, "is the process running, and is the address right?");
    }
    kj::TwoWayPipe pipe = kj::newTwoWayPipe();
    auto connection = std::make_shared<SimConnection>();
    Incoming theirs{
        .stream = kj::heap<SimStream>(core_, connection, Pair{peer, name_}, kj::mv(pipe.ends[0])),
        .user = core_->user_at(name_),
        .from = name_};
    Stream ours = kj::heap<SimStream>(core_, connection, Pair{name_, peer}, kj::mv(pipe.ends[1]));
    core_->reactor
        .spawn("connection to " + address,
               [listening = core_->listeners.at(address), in = kj::mv(theirs)]() mutable {
                 if (*listening.open) listening.on_connection(kj::mv(in));
               })
        .detach();
    return ours;
  }

 private:
  std::shared_ptr<SimNetwork::Core> core_;
  std::string name_;
};

}  // namespace

void SimNetwork::Core::break_if(const std::function<bool(const SimStream&)>& chosen) {
  for (SimStream* stream : streams) {
    if (chosen(*stream)) stream->break_now();
  }
}

SimNetwork::SimNetwork(Reactor& reactor, SimNetworkOptions options)
    : core_(std::make_shared<Core>(reactor, options)) {}
SimNetwork::~SimNetwork() = default;

Network& SimNetwork::endpoint(const std::string& name) {
  std::unique_ptr<Network>& found = endpoints_[name];
  if (found == nullptr) found = std::make_unique<Endpoint>(core_, name);
  return *found;
}

void SimNetwork::set_user(const std::string& endpoint, std::string user) {
  core_->users[endpoint] = std::move(user);
}

SimSpeed SimNetwork::speed(const std::string& a, const std::string& b) const {
  return core_->way(ordered(a, b)).speed;
}

void SimNetwork::set_speed(const std::string& a, const std::string& b, SimSpeed speed) {
  core_->way(ordered(a, b)).speed = speed;
}

void SimNetwork::partition(const std::string& a, const std::string& b) {
  core_->way(ordered(a, b)).cut = true;
}

void SimNetwork::heal(const std::string& a, const std::string& b) {
  core_->way(ordered(a, b)).cut = false;
  core_->look_again();
}

void SimNetwork::stop(const std::string& name) { core_->party(name)->stopped = true; }

void SimNetwork::resume(const std::string& name) {
  core_->party(name)->stopped = false;
  core_->look_again();
}

// The next process there is another one.
void SimNetwork::vanish(const std::string& name) {
  const auto at = core_->parties.find(name);
  if (at == core_->parties.end()) return;
  at->second->vanished = true;
  core_->vanished.push_back(std::move(at->second));
  core_->parties.erase(at);
}

void SimNetwork::break_connections(const std::string& a, const std::string& b) {
  core_->break_if([pair = ordered(a, b)](const SimStream& s) { return s.pair() == pair; });
}

void SimNetwork::break_connections(const std::string& name) {
  core_->break_if(
      [&](const SimStream& s) { return s.pair().first == name || s.pair().second == name; });
}

void SimNetwork::set_frame_fault(DrawFrameFault draw) { core_->frame_fault = std::move(draw); }

void SimNetwork::set_meddle(Meddle meddle) { core_->meddle = std::move(meddle); }

}  // namespace gangway
