#include "controller/service/client_sessions.h"

#include <algorithm>
#include <set>
#include <utility>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

// Time between looks whether a client's process has ended: the first one, doubled each time up to
// the maximum.
constexpr int64_t kLookFirstNs = 2'000'000;
constexpr int64_t kLookMaxNs = 500'000'000;

}  // namespace

bool breaks_rules(const Error& why) {
  return why.kind() != ErrorKind::kUnavailable && why.kind() != ErrorKind::kCancelled;
}

void ClientSessions::add(std::shared_ptr<Session> session) {
  session->is_attached = true;
  session->is_detached = false;
  session->attached_at_ns = reactor_.clock().now_ns();
  sessions_[session->id] = std::move(session);
}

void ClientSessions::add_detached(const std::shared_ptr<Session>& session) {
  add(session);
  session->is_attached = false;
  session->is_detached = session->goes_on = true;
}

std::shared_ptr<ClientSessions::Session> ClientSessions::find_detached(
    const std::string& owner, const std::string& name) const {
  const std::optional<SessionId> id = controller_.programs().find(owner, name);
  const auto found = id ? sessions_.find(*id) : sessions_.end();
  GW_REQUIRE(found != sessions_.end(), "attach: there is no program \"", name, "\" of ", owner);
  const Session& session = *found->second;
  if (!session.not_yet.empty())
    throw Error(ErrorKind::kOverloaded,
                cat("attach: the program \"", name, "\" of ", owner, " ", session.not_yet), {},
                "try again later; \"gangway ps\" shows what it waits for");
  if (session.is_detached) return found->second;
  const std::string for_long =
      format_duration_ns(reactor_.clock().now_ns() - session.attached_at_ns);
  const std::string who =
      session.process.pid == 0 ? "a client" : cat("process ", session.process.pid);
  throw Error(
      ErrorKind::kInvalid,
      cat("attach: the program \"", name, "\" of ", owner, " has a client: ", who, ", for ",
          for_long, session.is_attached ? "" : "; its connection is lost, and may come back"),
      {}, "detach there first");
}

void ClientSessions::detach(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->is_detached) return;
  Session& session = *found->second;
  session.is_attached = false;
  session.is_detached = session.goes_on = true;
  session.nonce = 0;
  session.changed.wake_all();
  fewer_->wake_all();
  controller_.detach(id);
  options_.log.info("program goes on without its client", {{"client", id}});
  options_.forget(session.peer->stream());
}

bool ClientSessions::is_detached(SessionId id) const {
  const auto found = sessions_.find(id);
  return found != sessions_.end() && found->second->is_detached;
}

std::shared_ptr<ClientSessions::Session> ClientSessions::opened_with(
    uint64_t nonce, const std::string& owner) const {
  for (const auto& [id, session] : sessions_) {
    if (nonce != 0 && session->nonce == nonce && session->owner == owner) return session;
  }
  return nullptr;
}

uint64_t ClientSessions::attach(SessionId id, uint64_t key, const std::string& owner) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->key != key || found->second->owner != owner) {
    throw Error(ErrorKind::kUnavailable,
                cat("attach: there is no session ", id,
                    " of this key: its lease is over, or another controller had it"),
                {}, "connect again, and restore state from a checkpoint");
  }
  Session& session = *found->second;
  // The client has detached, and the answer was lost.
  if (session.is_detached) return ++session.attachment;
  if (!std::exchange(session.is_attached, true)) {
    options_.log.info("client is back", {{"client", id}});
    controller_.programs().say(id, "its client is back");
  }
  session.changed.wake_all();
  return ++session.attachment;
}

void ClientSessions::require_current(SessionId id, uint64_t attachment) const {
  if (is_current(id, attachment)) return;
  throw Error(ErrorKind::kUnavailable,
              cat("client ", id, ": its session is closed, or goes on over another connection"), {},
              "connect again");
}

bool ClientSessions::is_current(SessionId id, uint64_t attachment) const {
  const auto found = sessions_.find(id);
  return found != sessions_.end() && found->second->attachment == attachment;
}

void ClientSessions::goes_on_over(SessionId id, std::function<void()> hang_up) {
  if (const auto found = sessions_.find(id); found != sessions_.end())
    found->second->hang_up = std::move(hang_up);
}

void ClientSessions::lost(SessionId id, uint64_t attachment) {
  const auto found = sessions_.find(id);
  if (is_over_ || found == sessions_.end() || found->second->attachment != attachment) return;
  if (found->second->is_detached) return;
  found->second->is_attached = false;
  fibers_.spawn("lease of a client", [this, session = found->second, attachment] {
    wait_for_client(session, attachment);
  });
}

// Time during which this process does not run counts as one look at most.
void ClientSessions::wait_for_client(const std::shared_ptr<Session>& session, uint64_t attachment) {
  const SessionId id = session->id;
  int64_t left_ns = options_.lease_ms * 1'000'000;
  int64_t look_ns = kLookFirstNs;
  options_.log.info("client lost its connection", {{"client", id}});
  controller_.programs().say(id, "its client has lost the connection");
  while (!session->is_attached && session->attachment == attachment && sessions_.contains(id)) {
    const bool has_gone = has_ended(session->process) == HasEnded::kYes;
    if (has_gone || left_ns <= 0) {
      options_.log.info(has_gone ? "client's process has ended" : "client's lease is over",
                        {{"client", id}});
      if (session->goes_on) return detach(id);
      session->why_closed =
          has_gone ? "its client's process has ended" : "its client's lease is over";
      return close(id);
    }
    const int64_t step_ns = std::min(left_ns, look_ns);
    const int64_t begin_ns = reactor_.clock().now_ns();
    session->changed.wait_until_ns("for a client to come back", begin_ns + step_ns);
    left_ns -= std::min(step_ns, reactor_.clock().now_ns() - begin_ns);
    look_ns = std::min(2 * look_ns, kLookMaxNs);
  }
}

void ClientSessions::stream_ended(SessionId id, const Error& why) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const bool is_gone = why.kind() == ErrorKind::kUnavailable;
  if (is_gone && found->second->goes_on) return detach(id);
  const std::shared_ptr<Session> session = found->second;
  session->why_closed = cut(cat("its connection ended: ", why.message()), kTextBytesMax);
  close(id);
  if (breaks_rules(why) && session->hang_up) session->hang_up();
}

void ClientSessions::tell_of_stops(Session& session, TellStop tell) {
  session.tell_stop = std::move(tell);
  if (session.stop && session.tell_stop) static_cast<void>(session.tell_stop(*session.stop));
}

void ClientSessions::tell_of_stops(SessionId id, TellStop tell) {
  const auto found = sessions_.find(id);
  if (found != sessions_.end()) tell_of_stops(*found->second, std::move(tell));
}

bool ClientSessions::stop(SessionId id, const StopRequest& request) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return false;
  const std::shared_ptr<Session> session = found->second;
  const int64_t deadline_ns = reactor_.clock().now_ns() + request.grace_ms * 1'000'000;
  options_.log.info("program is asked to end", {{"client", id}, {"by", request.by}});
  controller_.programs().say(id, cat(request.by, " asks it to end"));
  session->stop = request;
  session->why_closed = cut(cat(request.by, " asked it to stop"), kTextBytesMax);
  if (!session->is_detached && session->tell_stop) static_cast<void>(session->tell_stop(request));
  controller_.programs().end_repetitions(id, deadline_ns);
  while (sessions_.contains(id) && !session->is_detached &&
         session->changed.wait_until_ns("for a client to end its program", deadline_ns)) {
  }
  const bool by_force = sessions_.contains(id) && !session->is_detached;
  close(id);
  return by_force;
}

void ClientSessions::close(SessionId id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  const std::shared_ptr<Session> session = found->second;
  sessions_.erase(found);
  session->changed.wake_all();
  fewer_->wake_all();
  controller_.session_closed(id, session->why_closed);
  if (session->peer != nullptr) options_.forget(session->peer->stream());
}

void ClientSessions::stop_all(const StopRequest& request,
                              const std::function<bool(SessionId)>& stays,
                              const StopToken& at_once) {
  const int64_t deadline_ns = reactor_.clock().now_ns() + request.grace_ms * 1'000'000;
  const auto awaited = std::make_shared<std::set<SessionId>>();
  for (const auto& [id, session] : sessions_) {
    if (!session->is_attached || !session->tell_stop || stays(id)) continue;
    session->stop = request;
    awaited->insert(id);
    controller_.programs().say(id, cat(request.by, " asks it to end"));
    session->tell_stop(request).on_ready(
        [awaited, fewer = fewer_, asked = id](const Result<bool>& acts) {
          if (acts.ok() && acts.value()) return;
          awaited->erase(asked);
          fewer->wake_all();
        });
  }
  if (!awaited->empty())
    options_.log.info("programs are asked to end", {{"programs", awaited->size()}});
  const StopRegistration hurry =
      at_once.on_stop([fewer = fewer_](const Error&) { fewer->wake_all(); });
  const auto is_there = [&](SessionId id) {
    const auto found = sessions_.find(id);
    return found != sessions_.end() && !found->second->is_detached;
  };
  while (!at_once.stop_requested() && std::ranges::any_of(*awaited, is_there) &&
         fewer_->wait_until_ns("for programs to end", deadline_ns)) {
  }
}

void ClientSessions::close_all() {
  is_over_ = true;
  while (!sessions_.empty()) {
    sessions_.begin()->second->why_closed = "its controller has ended";
    close(sessions_.begin()->first);
  }
}

}  // namespace gangway
