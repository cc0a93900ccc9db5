#include "controller/owners/program_names.h"

#include <algorithm>
#include <utility>

#include "runtime/base/cat.h"

namespace gangway {

ProgramNames::Entry::Entry(ProgramNames& names, SessionId session, std::string owner,
                           std::string program)
    : names_(names), session_(session), name_(names.names_[session]) {
  std::string holder = cat("client ", session, " of ", owner);
  names.names_[session] = {std::move(owner), std::move(program), std::move(holder)};
}

const ProgramNames::Name* ProgramNames::find(SessionId session) const {
  const auto found = names_.find(session);
  return found == names_.end() ? nullptr : &found->second;
}

std::optional<SessionId> ProgramNames::find(const std::string& owner,
                                            const std::string& program) const {
  const auto found = std::find_if(names_.begin(), names_.end(), [&](const auto& item) {
    return item.second.owner == owner && item.second.program == program;
  });
  return found == names_.end() ? std::nullopt : std::optional(found->first);
}

std::string ProgramNames::owner(SessionId session) const {
  const Name* const name = find(session);
  return name == nullptr ? std::string() : name->owner;
}

std::string ProgramNames::holder(SessionId session) const {
  const Name* const name = find(session);
  return name == nullptr ? cat("client ", session) : name->holder;
}

}  // namespace gangway
