#include "client/connection.h"

#include <unistd.h>

#include <algorithm>
#include <span>

#include "protocol/token_file.h"
#include "runtime/base/units.h"
#include "runtime/os/random_bytes.h"

namespace gangway::internal {
namespace {

constexpr int64_t kPauseFirstNs = 10'000'000;
constexpr int64_t kPauseMaxNs = 500'000'000;
constexpr int64_t kTryTimes = 8;  // A try may take so many times the pause before it.
constexpr Duration kCloseTimeLimit = std::chrono::seconds(1);
constexpr int64_t kStreamMsMin = 10'000, kStreamMsMore = 1000;

class ClientWatcher final : public wire::ClientWatch::Server {
 public:
  using OnStop = std::function<bool(const StopAsked&)>;
  explicit ClientWatcher(std::shared_ptr<OnStop> on_stop) : on_stop_(std::move(on_stop)) {}

  kj::Promise<void> stop(StopContext context) override {
    const auto params = context.getParams();
    if (*on_stop_)
      context.getResults().setActs((*on_stop_)({.by = params.getBy().cStr(),
                                                .grace_ms = params.getGraceMs(),
                                                .controller_ends = params.getControllerEnds()}));
    return kj::READY_NOW;
  }

 private:
  std::shared_ptr<OnStop> on_stop_;
};

// The caller may try again.
Error not_now() { return {ErrorKind::kOverloaded, "attach: not now"}; }

}  // namespace

ControllerConnection::ControllerConnection(Reactor& reactor, Network& network,
                                           const std::string& address, Options options)
    : reactor_(reactor),
      network_(network),
      address_(address),
      options_(std::move(options)),
      connect_until_ns_(reactor.clock().now_ns() + options_.timeout_ms * 1'000'000),
      on_stop_(std::make_shared<ClientWatcher::OnStop>(options_.on_stop)),
      fibers_(reactor) {
  connect();
  fibers_.spawn("stay attached", [this] { stay_attached(); });
}

ControllerConnection::~ControllerConnection() noexcept {
  close(Error(ErrorKind::kCancelled, "client: closed"));
  *on_stop_ = nullptr;
}

wire::ClientWatch::Client ControllerConnection::watch() {
  return kj::heap<ClientWatcher>(on_stop_);
}

DialOptions ControllerConnection::dial_for(Duration time_limit) const {
  return {.time_limit = time_limit, .token = shown_at(address_, options_.token_file)};
}

// Different for each client of an owner. A simulation takes no draw of the reactor's, which would
// change what follows.
uint64_t ControllerConnection::new_nonce() const {
  if (reactor_.simulated()) {
    const auto now = static_cast<uint64_t>(reactor_.clock().now_ns());
    return reactor_.rng().fork(now).next_u64() ^ std::hash<std::string>()(options_.name);
  }
  uint64_t nonce = 0;
  fill_random(std::as_writable_bytes(std::span(&nonce, 1)));
  return nonce;
}

// A connection that breaks, even in its first bytes, is no reason to give up before the time is
// over. Then the user is told the first error.
void ControllerConnection::dial_at_first(bool is_first) {
  std::optional<Error> why;
  while (true) {
    const int64_t now_ns = reactor_.clock().now_ns();
    // The first try has the limit that the user gave, since its error names it.
    const int64_t left_ns =
        is_first && !why ? options_.timeout_ms * 1'000'000 : connect_until_ns_ - now_ns;
    const Duration left(std::max<int64_t>(left_ns, 1));
    Result<Connection> dialled = result_of(
        [&] { return Connection::connect(reactor_, network_, address_, dial_for(left)); });
    if (dialled.ok()) {
      connection_ = dialled.take();
      return;
    }
    if (dialled.error().kind() != ErrorKind::kUnavailable) throw Error(dialled.error());
    if (!why) why = dialled.error();
    const int64_t again_ns = reactor_.clock().now_ns() + kPauseFirstNs;
    if (again_ns >= connect_until_ns_) throw Error(*why);
    changed_.wait_until_ns("to dial again", again_ns);
  }
}

// A connection that breaks meanwhile is replaced: the controller knows the client by its nonce.
void ControllerConnection::connect() {
  using Results = wire::Controller::ConnectResults;
  const uint64_t nonce = new_nonce();
  for (bool is_first = true;; is_first = false) {
    dial_at_first(is_first);
    controller_ = connection_->bootstrap<wire::Controller>();
    auto request = controller_.connectRequest();
    write(request.initVersion(), Version{});
    write(request.initMachine(), this_machine());
    request.setName(options_.name);
    request.setNumberName(options_.number_name);
    request.setNonce(nonce);
    request.setAttach(options_.attaches);
    request.setWatch(watch());
    write(request.initShare(), options_.share);
    request.setProcess(reactor_.simulated() ? 0 : getpid());
    Answer<Results> answer = answer_of<Results>(request.send());
    KJ_IF_MAYBE (response, answer) {
      session_ = response->getSession();
      granted_ = {.id = response->getId(),
                  .key = response->getFrameKey(),
                  .run_credits = response->getRunCredits(),
                  .transfer_credits = response->getCopyCredits(),
                  .lease_ms = response->getLeaseMs(),
                  .name = response->getName().cStr()};
      controller_process_ = identity_of(response->getProcess());
      return;
    }
    if (reactor_.clock().now_ns() >= connect_until_ns_) {
      throw Error(ErrorKind::kUnavailable,
                  cat("connect: ", address_, " accepted, and the connection was lost"), {},
                  "is the controller still there?");
    }
  }
}

std::unique_ptr<FrameStream> ControllerConnection::open_frames() {
  // The stream dials longer than the RPC connection does, which says why it ends.
  const FrameOptions options{
      .name = "controller",
      .reconnect_ms = std::max<int64_t>(granted_.lease_ms, kStreamMsMin) + kStreamMsMore};
  while (true) {
    const Duration left(std::max<int64_t>(connect_until_ns_ - reactor_.clock().now_ns(), 1));
    Result<std::unique_ptr<FrameStream>> opened = result_of([&] {
      return connect_frames(reactor_, network_, address_, granted_.key, options, dial_for(left));
    });
    if (opened.ok()) return opened.take();
    const bool is_lost = opened.error().kind() == ErrorKind::kUnavailable;
    if (!is_lost || gone_ || reactor_.clock().now_ns() >= connect_until_ns_)
      throw Error(opened.error());
  }
}

void ControllerConnection::stay_attached() {
  while (!gone_) {
    const Future<void> disconnected = connection_->disconnected();
    disconnected.await();
    if (!gone_) come_back();
  }
}

void ControllerConnection::come_back() {
  const int64_t deadline_ns = reactor_.clock().now_ns() + granted_.lease_ms * 1'000'000;
  const std::string lease = format_duration_ns(granted_.lease_ms * 1'000'000);
  int64_t pause_ns = kPauseFirstNs;
  bool has_reported = false;
  while (true) {
    // Pauses before the first try, too: a controller that ends in an orderly way says so on the
    // frame stream.
    changed_.wait_until_ns("to dial again", reactor_.clock().now_ns() + pause_ns);
    if (gone_) return;
    const int64_t left_ns = deadline_ns - reactor_.clock().now_ns();
    if (has_ended(controller_process_) == HasEnded::kYes) {
      return lose(Error(ErrorKind::kUnavailable,
                        "client: the controller is gone: its process has ended", {},
                        "connect again, and restore state from a checkpoint"));
    }
    if (left_ns <= 0) {
      return lose(Error(ErrorKind::kUnavailable,
                        cat("client: the connection to the controller was lost and did not come "
                            "back within the lease of ",
                            lease, ": what this client held is freed"),
                        {}, "connect again, and restore state from a checkpoint"));
    }
    if (!std::exchange(has_reported, true)) {
      options_.on_warning(cat("the connection to the controller at ", address_,
                              " was lost: trying to attach again for ", lease));
    }
    const std::optional<Error> failed =
        try_to_attach(Duration(std::min(left_ns, kTryTimes * pause_ns)));
    if (!failed) return;
    if (failed->kind() != ErrorKind::kOverloaded) return lose(*failed);
    pause_ns = std::min(2 * pause_ns, kPauseMaxNs);
  }
}

// Returns none once attached, and not_now() where it may be tried again.
std::optional<Error> ControllerConnection::try_to_attach(Duration time_limit) {
  Result<Connection> dialled = result_of(
      [&] { return Connection::connect(reactor_, network_, address_, dial_for(time_limit)); });
  if (!dialled.ok()) {
    const ErrorKind kind = dialled.error().kind();
    if (kind == ErrorKind::kCancelled) throw Error(dialled.error());
    const bool is_final = kind != ErrorKind::kUnavailable && kind != ErrorKind::kOverloaded;
    return is_final ? dialled.error() : not_now();
  }
  Connection connection = dialled.take();
  wire::Controller::Client controller = connection.bootstrap<wire::Controller>();
  auto request = controller.attachRequest();
  write(request.initVersion(), Version{});
  request.setId(granted_.id);
  request.setKey(granted_.key);
  request.setWatch(watch());
  using Results = wire::Controller::AttachResults;
  Result<Answer<Results>> answer = result_of([&] { return answer_of<Results>(request.send()); });
  if (!answer.ok()) {
    if (answer.error().kind() == ErrorKind::kCancelled) throw Error(answer.error());
    // The session is still there, as long as its lease: calls under way end, and make room.
    if (answer.error().kind() == ErrorKind::kOverloaded) return not_now();
    return Error(ErrorKind::kUnavailable, cat("client: ", answer.error().message()), {},
                 answer.error().hint());
  }
  KJ_IF_MAYBE (response, answer.value()) {
    session_ = response->getSession();
    controller_ = kj::mv(controller);
    connection_ = std::move(connection);
    ++number_;
    changed_.wake_all();
    return std::nullopt;
  }
  return not_now();
}

void ControllerConnection::lose(const Error& why) {
  if (gone_) return;
  give_up(why);
  options_.on_gone(why);
}

void ControllerConnection::give_up(const Error& why) {
  if (gone_) return;
  gone_ = why;
  changed_.wake_all();
}

void ControllerConnection::close(const Error& why) {
  if (!connection_) return;
  // Otherwise the session would go on without a client.
  if (options_.attaches) wait_to_be_back();
  const bool was_attached = !gone_ && !connection_->disconnected().ready();
  give_up(why);
  fibers_.cancel();
  if (was_attached) {
    await_end(session_.closeRequest().send().ignoreResult(),
              reactor_.clock().now_ns() + kCloseTimeLimit.count());
  }
  connection_.reset();
}

void ControllerConnection::wait_to_be_back() {
  const int64_t deadline_ns = reactor_.clock().now_ns() + kCloseTimeLimit.count();
  static_cast<void>(result_of([&] {
    while (!gone_ && connection_->disconnected().ready() &&
           changed_.wait_until_ns("for the connection, to close the session", deadline_ns)) {
    }
  }));
}

void ControllerConnection::leave(const Error& why) {
  give_up(why);
  fibers_.cancel();
  connection_.reset();
}

}  // namespace gangway::internal
