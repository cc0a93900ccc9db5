// What checkpoints (controller/recovery/checkpoints.h) ask of the controller's programs.
#include "controller/service/controller.h"

namespace gangway {

bool Controller::read_for_checkpoint(SessionId session, const Checkpoints::Read& read,
                                     const StopToken& stop) {
  SharedStateTable::Request request{.slice = read.slice,
                                    .version = read.version,
                                    .segment = read.segment,
                                    .parts = {},
                                    .is_counted = false};
  for (const Checkpoints::Part& part : read.parts)
    request.parts.push_back({part.name, part.offset, part.bytes});
  try {
    shared_states_.read(session, std::move(request), stop);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalid) throw;
    return false;
  }
}

std::string Controller::place_of_checkpoints(SessionId id) const {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return {};
  return cat(Checkpoints::escaped(found->second.owner), "/",
             Checkpoints::escaped(found->second.name));
}

}  // namespace gangway
