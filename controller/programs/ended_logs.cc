#include "controller/programs/ended_logs.h"

#include <utility>

namespace gangway {

void EndedLogs::add(SessionId program, Ended ended) {
  const auto at = ended_.insert_or_assign(program, std::move(ended)).first;
  forget_older(at->second);
}

// The map is in the order in which programs began, which is near enough to that of their ends.
void EndedLogs::forget_older(const Ended& newest) {
  size_t ended = 0;
  for (auto at = ended_.end(); at != ended_.begin();) {
    --at;
    const Ended& one = at->second;
    if (&one == &newest || one.owner != newest.owner) continue;
    if (one.name == newest.name || ++ended >= kEndedMax) at = ended_.erase(at);
  }
}

std::optional<SessionId> EndedLogs::find(const std::string& owner, const std::string& name,
                                         uint64_t only) const {
  std::optional<SessionId> last;
  for (const auto& [id, one] : ended_) {
    if (one.owner == owner && one.name == name && (only == 0 || id.value == only)) last = id;
  }
  return last;
}

std::shared_ptr<LogBuffer> EndedLogs::log_of(SessionId program) const {
  const auto found = ended_.find(program);
  return found == ended_.end() ? nullptr : found->second.log;
}

}  // namespace gangway
