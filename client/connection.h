// ControllerConnection: a client's way to its session at the controller, over one RPC connection
// after another.
//
// When the connection is lost it dials again, with pauses that grow, and attaches to the session
// with the key that it was given at first; calls that were under way are asked again. The session
// waits for it as long as its lease (protocol/control.capnp), and so does every caller.
//
// Threads: the reactor's thread; functions whose comment says so suspend.
// Ownership: the network outlives it. on_warning and on_gone are called in a fiber of its own, and
// must not suspend.
// Errors: ask() throws the controller's error, and, once the session is lost for good, the reason.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "protocol/rpc_values.h"
#include "protocol/share.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/fiber_group.h"
#include "runtime/fibers/lost_connection.h"
#include "runtime/net/server.h"
#include "runtime/os/process_identity.h"

namespace gangway::internal {

// A request that the program end: who asks, and how long the end may take.
struct StopAsked {
  std::string by;
  int64_t grace_ms = 0;
  bool controller_ends = false;  // The controller ends, so all programs are asked.
};

class ControllerConnection {
 public:
  struct Options {
    std::string name;
    bool number_name = false;  // See ConnectOptions.
    bool attaches = false;     // Attaches to the detached program of the name.
    Share share;
    int64_t timeout_ms = 10'000;  // Limit for the first connection.
    std::string token_file;       // See ConnectOptions.
    std::function<void(const std::string& line)> on_warning;
    std::function<void(const Error&)> on_gone;  // Called once, unless it is closed before.
    // Returns whether the client's user looks at the request.
    std::function<bool(const StopAsked&)> on_stop = {};
  };
  // Connects. Suspends.
  ControllerConnection(Reactor& reactor, Network& network, const std::string& address,
                       Options options);
  ~ControllerConnection() noexcept;  // A capability may throw when it is dropped: end there.
  ControllerConnection(const ControllerConnection&) = delete;

  struct Granted {
    uint64_t id = 0, key = 0;
    int64_t run_credits = 0, transfer_credits = 0;
    int64_t lease_ms = 0;
    std::string name;
  };
  const Granted& granted() const { return granted_; }
  // The session's frame stream, which outlives its connections for as long as the lease. Suspends.
  std::unique_ptr<FrameStream> open_frames();

  // Returns the answer to what send(session) asks, over as many connections as it takes. Suspends.
  template <class Results, class Send>
  capnp::Response<Results> ask(const Send& send) {
    return over_any<Results>([&] { return send(session_); });
  }
  // The same for send(controller).
  template <class Results, class Send>
  capnp::Response<Results> ask_controller(const Send& send) {
    return over_any<Results>([&] { return send(controller_); });
  }

  // Sends over the present connection, if any, ahead of later calls, and waits for nothing.
  template <class Send>
  void tell(const Send& send) {
    if (connection_ && !gone_) send(session_).ignoreResult().detach([](const kj::Exception&) {});
  }

  // Ends all calls with `why`, since the session's frame stream says that the session is over.
  void give_up(const Error& why);
  // Closes the session, if there is a connection, and drops the connection. Ends all calls with
  // `why`. Suspends.
  void close(const Error& why);
  // The session goes on without this client: drops the connection alone. Suspends.
  void leave(const Error& why);

 private:
  template <class Results>
  using Answer = kj::Maybe<capnp::Response<Results>>;

  // Null if the connection was lost. Suspends.
  template <class Results>
  static Answer<Results> answer_of(kj::Promise<capnp::Response<Results>> promise) {
    return await<Answer<Results>>(promise.then(
        [](capnp::Response<Results>&& response) -> Answer<Results> { return kj::mv(response); },
        [](kj::Exception&& exception) -> Answer<Results> {
          if (!is_lost_connection(exception)) kj::throwFatalException(kj::mv(exception));
          return nullptr;
        }));
  }

  template <class Results, class Send>
  capnp::Response<Results> over_any(const Send& send) {
    while (true) {
      if (gone_) throw Error(*gone_);
      const uint64_t number = number_;
      Answer<Results> answer = answer_of<Results>(send());
      KJ_IF_MAYBE (response, answer) return kj::mv(*response);
      while (number_ == number && !gone_) changed_.wait("for the connection to come back");
    }
  }

  uint64_t new_nonce() const;
  // Takes what the controller says over one connection.
  wire::ClientWatch::Client watch();
  void connect();
  void dial_at_first(bool is_first);
  DialOptions dial_for(Duration time_limit) const;
  void stay_attached();
  void come_back();
  std::optional<Error> try_to_attach(Duration time_limit);
  void lose(const Error& why);
  void wait_to_be_back();

  Reactor& reactor_;
  Network& network_;
  const std::string address_;
  const Options options_;
  const int64_t connect_until_ns_;
  std::optional<Connection> connection_;
  wire::Controller::Client controller_ = nullptr;
  wire::Session::Client session_ = nullptr;
  Granted granted_;
  ProcessIdentity controller_process_;
  uint64_t number_ = 1;        // The connection's number.
  std::optional<Error> gone_;  // Why the session is lost for good.
  // Called when the program is to end; empty once nobody wants to know.
  std::shared_ptr<std::function<bool(const StopAsked&)>> on_stop_;
  WaitQueue changed_;
  FiberGroup fibers_;
};

}  // namespace gangway::internal
