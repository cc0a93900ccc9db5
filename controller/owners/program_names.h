// ProgramNames: how programs are called, by their owners and in messages about what they hold.
//
// Tables that know a program by its session alone look its names up here. A program's names do not
// change, and are here from its begin until its end.
//
// Threads: the reactor's thread; nothing suspends.
// Ownership: an Entry is its program's; the table outlives it.
// Errors: none: a program that has ended has an empty owner.
// Cost: O(log programs) a look-up by session; O(programs) by name.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/base/ids.h"

namespace gangway {

class ProgramNames {
 public:
  struct Name {
    std::string owner, program;
    // Its name in messages about memory; kept, as each run that reserves uses it. Without the
    // program's name: messages to other owners name holders.
    std::string holder;
  };
  // A program's names, as long as it lives.
  class Entry {
   public:
    Entry(ProgramNames& names, SessionId session, std::string owner, std::string program);
    ~Entry() { names_.names_.erase(session_); }
    Entry(const Entry&) = delete;
    const Name& name() const { return name_; }

   private:
    ProgramNames& names_;
    const SessionId session_;
    const Name& name_;
  };
  ProgramNames() = default;
  ProgramNames(const ProgramNames&) = delete;

  // Null: it has ended.
  const Name* find(SessionId session) const;
  // The oldest session of that owner and program name.
  std::optional<SessionId> find(const std::string& owner, const std::string& program) const;
  std::string owner(SessionId session) const;
  // "client 3 of ada"; "client 3" if it has ended.
  std::string holder(SessionId session) const;
  const std::map<SessionId, Name>& all() const { return names_; }

 private:
  std::map<SessionId, Name> names_;
};

}  // namespace gangway
