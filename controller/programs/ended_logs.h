// EndedLogs: logs of programs that have ended, so that their users can read why.
//
// The log of a program is kept until a newer program of its owner and name ends, or kEndedMax other
// programs of its owner have ended since.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: shared with readers that wait.
// Errors: none.
// Cost: O(all logs) when a program ends; at most kLogBytesMax a log.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "controller/programs/log_buffer.h"
#include "runtime/base/ids.h"

namespace gangway {

class EndedLogs {
 public:
  static constexpr size_t kEndedMax = 64;  // Logs of each owner.

  struct Ended {
    std::string owner, name;  // The program's.
    std::shared_ptr<LogBuffer> log;
  };
  void add(SessionId program, Ended ended);
  // The program of this owner and name that began last. `only`: the program must be this one; 0:
  // any.
  std::optional<SessionId> find(const std::string& owner, const std::string& name,
                                uint64_t only = 0) const;
  // Null: its log is kept no longer.
  std::shared_ptr<LogBuffer> log_of(SessionId program) const;
  size_t size() const { return ended_.size(); }

 private:
  void forget_older(const Ended& newest);

  std::map<SessionId, Ended> ended_;
};

}  // namespace gangway
