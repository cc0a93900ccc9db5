// Attachment: a client's way to its session at the controller: one RPC connection after another.
//
// When the connection is lost it dials again, with pauses that grow, and attaches to the session
// with the key that it was given at first; calls that were under way are asked again. The session
// waits for it as long as its lease (protocol/control.capnp), and so does whoever asks.
//
// Threads: the reactor's thread; what says so suspends.
// Ownership: the network outlives it. on_warning and on_gone are called in a fiber of its own, and
// must not suspend.
// Errors: ask() throws what the controller says, and, once the way is lost for good, why.
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

// That the program end: who asks, and how long it may take.
struct StopAsked {
  std::string by;
  int64_t grace_ms = 0;
  bool controller_ends = false;  // So all programs are asked.
};

class Attachment {
 public:
  struct Options {
    std::string name;
    bool number_name = false;  // As ConnectOptions.
    bool attaches = false;     // To the detached program of the name.
    Share share;
    int64_t timeout_ms = 10'000;  // To connect at first.
    std::string token_file;       // As ConnectOptions.
    std::function<void(const std::string& line)> on_warning;
    std::function<void(const Error&)> on_gone;  // Once, unless it is closed before.
    // Whether the client's user looks at it.
    std::function<bool(const StopAsked&)> on_stop = {};
  };
  // Connects. Suspends.
  Attachment(Reactor& reactor, Network& network, const std::string& address, Options options);
  ~Attachment() noexcept;  // A capability may throw when it is dropped: end there.
  Attachment(const Attachment&) = delete;

  struct Granted {
    uint64_t id = 0, key = 0;
    int64_t run_credits = 0, copy_credits = 0;
    int64_t lease_ms = 0;
    std::string name;
  };
  const Granted& granted() const { return granted_; }
  // The session's frame stream, which outlives its connections for as long as the lease. Suspends.
  std::unique_ptr<FrameStream> open_frames();

  // The answer to what send(session) asks, over as many connections as it takes. Suspends.
  template <class Results, class Send>
  capnp::Response<Results> ask(const Send& send) {
    return over_any<Results>([&] { return send(session_); });
  }
  // The same of send(controller).
  template <class Results, class Send>
  capnp::Response<Results> ask_controller(const Send& send) {
    return over_any<Results>([&] { return send(controller_); });
  }

  // Sends over the connection that there is, ahead of what is asked later, and waits for nothing.
  template <class Send>
  void tell(const Send& send) {
    if (connection_ && !gone_) send(session_).ignoreResult().detach([](const kj::Exception&) {});
  }

  // The session is over, as its frame stream says: whoever asks is told why.
  void give_up(const Error& why);
  // Closes the session, if there is a connection, and drops that; whoever asks is told why.
  // Suspends.
  void close(const Error& why);
  // The session goes on without this client: drops the connection alone.
  void leave(const Error& why);

 private:
  template <class Results>
  using Answer = kj::Maybe<capnp::Response<Results>>;

  // Null: the connection was lost. Suspends.
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
  // Of what the controller says over one connection.
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
  uint64_t number_ = 1;        // Of the connection.
  std::optional<Error> gone_;  // For good.
  // What is called of a program that is to end; empty once nobody wants to know.
  std::shared_ptr<std::function<bool(const StopAsked&)>> on_stop_;
  WaitQueue changed_;
  FiberGroup fibers_;
};

}  // namespace gangway::internal
