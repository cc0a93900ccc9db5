// ClientConnection: one RPC connection to the controller, and the bounds of the calls over it.
//
// A call over a limit that a client may reach without meaning harm (its quota, slices, waits) is
// refused, and the connection stays. A bound is something that no client of ours exceeds: such a
// call is refused, its connection and the sessions that use it are closed, and the log says whose
// it was, from where, and why. No other client notices. protocol/README.md lists the bounds.
//
// Threads: the reactor's thread.
// Ownership: shared by the objects that serve the connection, and by calls under way.
// Errors: a call that breaks a bound throws kInvalid after the connection was closed.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controller/service/client_sessions.h"
#include "runtime/fibers/await.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/fibers/stop.h"
#include "runtime/net/server.h"
#include "runtime/observe/log.h"
#include "runtime/os/user.h"

namespace gangway {

// Bounds of one connection: calls under way, and sessions that were opened or attached to.
inline constexpr size_t kCallsUnderWayMax = 1024, kJoinsMax = 4096;
// Bounds of the lists in one call.
inline constexpr size_t kSlicesOfCallMax = size_t{1} << 16;
inline constexpr size_t kInputsOfCallMax = ProgramRecord::kInputsMax;
inline constexpr size_t kStatePartsMax = size_t{1} << 20;

// The memory of an owner's messages while they arrive and their calls are under way.
class OwnersMessages final : public MessageBudget {
 public:
  // `refused` is called once, with why the first message was refused. Messages that are not read
  // count but for executors, which get whole plans: those of the user who runs this process, and
  // those with a host's certificate.
  OwnersMessages(OwnerUse& use, const Peer& peer, std::function<void(const Error&)> refused)
      : held_(use.hold(peer.user, OwnerResource::kMessages)),
        counts_unread_(peer.user != own_user_name() &&
                       !(peer.certificate && is_host(*peer.certificate))),
        refused_(std::move(refused)) {}

  bool take(size_t bytes) override {
    const Result<void> taken = result_of([&] { held_.grow(bytes, "a message"); });
    if (!taken.ok() && refused_) std::exchange(refused_, nullptr)(taken.error());
    return taken.ok();
  }
  void give_back(size_t bytes) override { held_.shrink(bytes); }
  bool counts_unread() const override { return counts_unread_; }
  void too_many_unread(size_t messages) override {
    if (!refused_) return;
    std::exchange(refused_, nullptr)(
        Error(ErrorKind::kOverloaded, cat("it has left ", messages, " messages unread")));
  }

 private:
  OwnerUse::Hold held_;
  const bool counts_unread_;
  std::function<void(const Error&)> refused_;
};

class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  // Throws kOverloaded if the owner may have no more connections.
  ClientConnection(Peer peer, ClientSessions& sessions, FiberGroup& calls, OwnerUse& use,
                   Logger log);

  const std::string& owner() const { return peer_.user; }
  const std::string& from() const { return peer_.from; }
  // The peer's; none: without TLS.
  const std::optional<Certificate>& certificate() const { return peer_.certificate; }
  const Future<void>& disconnected() const { return peer_.disconnected; }
  // Stopped when the connection ends. Calls that only wait for something then stop waiting, since
  // nobody gets their answer.
  StopToken gone() const { return gone_.token(); }

  // Serves a call in a fiber.
  template <class Body>
  kj::Promise<void> serve(const char* what, Body body) {
    return serve(what, std::move(body), use_.hold(peer_.user, OwnerResource::kCalls));
  }
  // Serves a call however many its owner has under way: one that keeps a session, ends it or adds a
  // host. To refuse it would cost more than it takes. Its body waits for nothing.
  template <class Body>
  kj::Promise<void> serve_always(const char* what, Body body) {
    return serve(what, std::move(body), OwnerUse::Hold());
  }
  // The connection is an executor's and does not count as a client's.
  void belongs_to_executor() { connection_ = OwnerUse::Hold(); }
  // `what`: "readStates: parts".
  void require_at_most(size_t got, size_t max, const char* what);
  // A session uses this connection, until a later connection takes the session over.
  void joined(SessionId session, uint64_t attachment);
  // Closes the connection and its sessions. `why`: which bound was broken.
  void close(const Error& why);
  void hang_up();

 private:
  template <class Body>
  kj::Promise<void> serve(const char* what, Body body, OwnerUse::Hold call) {
    try {
      require_at_most(under_way_ + 1, kCallsUnderWayMax, "calls under way over one connection");
      call.grow(1, what);
    } catch (const Error& error) {
      return to_kj(error);
    }
    return in_fiber(calls_, what,
                    [counted = Counted(shared_from_this(), std::move(call)),
                     body = std::move(body)]() mutable { body(); });
  }

  // A call under way.
  class Counted {
   public:
    Counted(std::shared_ptr<ClientConnection> over, OwnerUse::Hold call)
        : over_(std::move(over)), call_(std::move(call)) {
      ++over_->under_way_;
    }
    ~Counted() {
      if (over_ != nullptr) --over_->under_way_;
    }
    Counted(Counted&&) = default;
    Counted& operator=(Counted&&) = delete;

   private:
    std::shared_ptr<ClientConnection> over_;
    OwnerUse::Hold call_;
  };

  const Peer peer_;
  ClientSessions& sessions_;
  FiberGroup& calls_;
  OwnerUse& use_;
  OwnerUse::Hold connection_;
  const Logger log_;
  const StopSource gone_;
  std::vector<std::pair<SessionId, uint64_t>> joined_;
  size_t under_way_ = 0;
  bool is_closed_ = false;
};

}  // namespace gangway
