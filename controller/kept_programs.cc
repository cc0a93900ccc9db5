// The part of Controller that serves programs of an earlier controller (resumed_programs.h), and
// the records from which they go on.
#include "controller/controller.h"

namespace gangway {

void Controller::note_asked(SessionId session, SliceId slice, const SliceShape& asked) {
  slices_.at(slice, session).asked = asked;
}

void Controller::note_resuming(SessionId session, std::set<std::string> readers) {
  shared_states_.begin_resuming(session, std::move(readers));
}

void Controller::note_restored(SessionId session, SliceId slice, StateVersion version) {
  shared_states_.resumed(session);
  recovery_.keep(session, slice, version);
}

void Controller::note_lost_states(SessionId session, SliceId slice,
                                  const std::vector<std::string>& names) {
  if (names.empty()) return;
  slices_.at(slice, session).lost_states.insert(names.begin(), names.end());
  warn(session, goes_on_without(names, "its controller was started again"));
}

SliceTable::Elsewhere Controller::leave_hosts(SessionId session, SliceId slice,
                                              const std::set<HostId>& hosts) {
  return slice_queue_.leave_hosts(slices_.at(slice, session).id, hosts);
}

std::optional<ProgramRecord> Controller::record_of(SessionId id) {
  LiveProgram* const program = live(id);
  return program == nullptr ? std::nullopt : program->record_keeper.record();
}

}  // namespace gangway
