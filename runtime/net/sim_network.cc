#include "runtime/net/sim_network.h"

#include <kj/debug.h>

#include <algorithm>
#include <list>
#include <set>
#include <string_view>
#include <vector>

#include "runtime/base/units.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/port.h"

namespace gangway {
namespace {

using Pair = std::pair<std::string, std::string>;

Pair ordered(const std::string& a, const std::string& b) { return a < b ? Pair{a, b} : Pair{b, a}; }

// A writer waits when this much is under way, as for a full socket.
constexpr size_t kInFlightBytesMax = 1 << 20;

class SimStream;

}  // namespace

struct SimNetwork::Core final : private kj::TaskSet::ErrorHandler {
  Core(Reactor& r, SimNetworkOptions o)
      : reactor(r), options(o), rng(r.rng().fork(0x6e6574)), tasks(*this) {}

  bool reachable(const Pair& pair) const { return !partitions.contains(pair); }
  Duration draw_delay() {
    Duration delay = options.delay;
    if (options.jitter.count() > 0)
      delay +=
          Duration(static_cast<int64_t>(rng.below(static_cast<uint64_t>(options.jitter.count()))));
    return delay;
  }
  kj::Promise<void> until_reachable(const Pair& pair) {
    if (reachable(pair)) return kj::READY_NOW;
    auto waiting = kj::newPromiseAndFulfiller<void>();
    healed.push_back(kj::mv(waiting.fulfiller));
    return waiting.promise.then([this, pair] { return until_reachable(pair); });
  }
  void break_if(const std::function<bool(const SimStream&)>& chosen);

  // A write whose peer is gone: the writer learns it from the stream itself.
  void taskFailed(kj::Exception&&) override {}

  Reactor& reactor;
  SimNetworkOptions options;
  Rng rng;
  DrawFrameFault frame_fault;
  struct Listening {
    std::function<void(Stream)> on_connection;
    std::shared_ptr<bool> open = std::make_shared<bool>(true);
  };
  std::map<std::string, Listening> listeners;
  WaitQueue changed;  // A listener came, or a partition healed.
  std::set<Pair> partitions;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> healed;
  std::list<SimStream*> streams;
  kj::TaskSet tasks;
};

namespace {

// One end of a pipe; shared with the writes that are still under way when the stream is closed.
struct PipeEnd : kj::Refcounted {
  explicit PipeEnd(Stream s) : pipe(kj::mv(s)) {}
  Stream pipe;
};

// What the two streams of a connection share.
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
        end_(kj::refcounted<PipeEnd>(kj::mv(pipe))) {
    at_ = core_->streams.insert(core_->streams.end(), this);
  }
  ~SimStream() { core_->streams.erase(at_); }

  const Pair& pair() const { return pair_; }
  const SimConnection* connection() const { return connection_.get(); }
  void break_now() {
    broken_ = true;
    try {
      end_->pipe->abortRead();
    } catch (const kj::Exception&) {  // It was gone already.
    }
  }

  kj::Promise<size_t> tryRead(void* buffer, size_t min_bytes, size_t max_bytes) override {
    return end_->pipe->tryRead(buffer, min_bytes, max_bytes);
  }

  kj::Promise<void> write(const void* buffer, size_t size) override {
    const kj::ArrayPtr<const kj::byte> piece(static_cast<const kj::byte*>(buffer), size);
    return write(kj::arrayPtr(&piece, 1));
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    if (broken_) return broken();
    if (std::exchange(first_, false)) {
      look_at_preamble(pieces);
    } else if (core_->frame_fault && connection_->has_frames) {
      return write_with_faults(joined(pieces));
    }
    const Duration delay = core_->draw_delay();
    if (delay.count() == 0 && in_flight_ == 0 && core_->reachable(pair_))
      return end_->pipe->write(pieces);
    return send_later(joined(pieces), delay);
  }
  kj::Promise<void> whenWriteDisconnected() override { return end_->pipe->whenWriteDisconnected(); }
  void shutdownWrite() override {
    if (broken_) return;
    if (in_flight_ == 0) return end_->pipe->shutdownWrite();
    core_->tasks.add(tail_.addBranch().then(
        [end = kj::addRef(*end_)]() mutable { end->pipe->shutdownWrite(); }));
  }
  void abortRead() override { end_->pipe->abortRead(); }

 private:
  static kj::Array<kj::byte> joined(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
    size_t bytes = 0;
    for (const auto& piece : pieces) bytes += piece.size();
    auto all = kj::heapArray<kj::byte>(bytes);
    kj::byte* at = all.begin();
    for (const auto& piece : pieces) at = std::copy(piece.begin(), piece.end(), at);
    return all;
  }

  // The side that dials says first what the connection is for (server.h).
  void look_at_preamble(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
    constexpr std::string_view kMagic = "GWAY";
    constexpr size_t kKind = 5;
    const auto bytes = pieces.size() > 0 ? pieces[0] : nullptr;
    connection_->has_frames |= bytes.size() > kKind && bytes[kKind] == 1 &&
                               std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
  }

  kj::Promise<void> write_with_faults(kj::Array<kj::byte> bytes) {
    const auto outcome =
        faults_.pass(bytes, [this] { return core_->frame_fault(from_to_.first, from_to_.second); });
    kj::Promise<void> sent = kj::READY_NOW;
    for (const auto& piece : outcome.pieces) {
      auto copy = kj::heapArray<kj::byte>(piece.bytes.data(), piece.bytes.size());
      sent =
          sent.then([next = send_later(kj::mv(copy), core_->draw_delay() + piece.delay)]() mutable {
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
            .then([core = core_.get(), pair = pair_] { return core->until_reachable(pair); })
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
  kj::Own<PipeEnd> end_;
  std::list<SimStream*>::iterator at_;
  bool broken_ = false;
  bool first_ = true;  // Nothing was written yet.
  internal::FaultyFrames faults_;
  size_t in_flight_ = 0;
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

  std::unique_ptr<Listener> listen(const std::string& address,
                                   std::function<void(Stream)> on_connection) override {
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
    const Pair pair = ordered(name_, peer);
    const int64_t deadline_ns = core_->reactor.clock().now_ns() + options.time_limit.count();
    while (!core_->listeners.contains(address) || !core_->reachable(pair)) {
      if (core_->changed.wait_until_ns("for a listener", deadline_ns)) continue;
      throw Error(ErrorKind::kUnavailable,
                  cat("connect: nobody answers at ", address, " after ",
                      format_duration_ns(options.time_limit.count())),
                  {}, "is the process running, and is the address right?");
    }
    kj::TwoWayPipe pipe = kj::newTwoWayPipe();
    auto connection = std::make_shared<SimConnection>();
    Stream theirs = kj::heap<SimStream>(core_, connection, Pair{peer, name_}, kj::mv(pipe.ends[0]));
    Stream ours = kj::heap<SimStream>(core_, connection, Pair{name_, peer}, kj::mv(pipe.ends[1]));
    core_->reactor
        .spawn("connection to " + address,
               [listening = core_->listeners.at(address), s = kj::mv(theirs)]() mutable {
                 if (*listening.open) listening.on_connection(kj::mv(s));
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

void SimNetwork::partition(const std::string& a, const std::string& b) {
  core_->partitions.insert(ordered(a, b));
}

void SimNetwork::heal(const std::string& a, const std::string& b) {
  core_->partitions.erase(ordered(a, b));
  core_->changed.wake_all();
  auto healed = std::exchange(core_->healed, {});
  for (auto& fulfiller : healed) fulfiller->fulfill();
}

void SimNetwork::break_connections(const std::string& a, const std::string& b) {
  core_->break_if([pair = ordered(a, b)](const SimStream& s) { return s.pair() == pair; });
}

void SimNetwork::break_connections(const std::string& name) {
  core_->break_if(
      [&](const SimStream& s) { return s.pair().first == name || s.pair().second == name; });
}

void SimNetwork::set_frame_fault(DrawFrameFault draw) { core_->frame_fault = std::move(draw); }

}  // namespace gangway
