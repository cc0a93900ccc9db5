#include "controller/service/client_connection.h"

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"

namespace gangway {

ClientConnection::ClientConnection(Peer peer, ClientSessions& sessions, FiberGroup& calls,
                                   OwnerUse& use, Logger log)
    : peer_(std::move(peer)),
      sessions_(sessions),
      calls_(calls),
      use_(use),
      connection_(use.take(peer_.user, OwnerResource::kConnections, 1, "connect")),
      log_(std::move(log)) {
  peer_.disconnected.on_ready([gone = gone_](const Result<void>&) mutable {
    gone.request_stop(Error(ErrorKind::kCancelled, "call: the connection of who asked has ended"));
  });
}

void ClientConnection::require_at_most(size_t got, size_t max, const char* what) {
  if (got <= max) return;
  const Error why(ErrorKind::kInvalid, cat(what, ": expected at most ", max, ", got ", got));
  close(why);
  throw Error(why);
}

void ClientConnection::joined(SessionId session, uint64_t attachment) {
  joined_.emplace_back(session, attachment);
  sessions_.goes_on_over(session, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->hang_up();
  });
  require_at_most(joined_.size(), kJoinsMax, "sessions over one connection");
}

void ClientConnection::close(const Error& why) {
  if (is_closed_) return;
  log_.warn(
      "a client's connection is closed",
      {{"owner", peer_.user}, {"from", peer_.from}, {"why", cut(why.message(), kTextBytesMax)}});
  for (const auto& [session, attachment] : joined_) {
    if (sessions_.is_current(session, attachment)) sessions_.stream_ended(session, why);
  }
  hang_up();
}

void ClientConnection::hang_up() {
  if (!std::exchange(is_closed_, true) && peer_.hang_up) peer_.hang_up();
}

}  // namespace gangway
