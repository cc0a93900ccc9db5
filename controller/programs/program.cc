#include "controller/programs/program.h"

#include <utility>

#include "runtime/base/cat.h"

namespace gangway {

LiveProgram::LiveProgram(Identity identity, const Share& asked, ClientPeer& peer, const Uses& uses,
                         Callbacks callbacks)
    : id(identity.id),
      name(std::move(identity.name)),
      owner(std::move(identity.owner)),
      holder(cat("client ", id, " of ", owner)),
      since_ns(identity.since_ns),
      has_chosen_name(identity.has_chosen_name),
      share(asked),
      client(peer),
      log(std::make_shared<LogBuffer>(uses.clock, id)),
      calls(std::make_shared<CallTable>(std::move(callbacks.let_go))),
      run_memory(uses.owner_use, owner),
      executables(id, uses.records.plans),
      repeats(uses.fibers, std::move(callbacks.submit_step),
              [this](const std::string& line) { log->say(line); }),
      record_keeper(*this, uses.records),
      suspension(std::make_shared<Suspension>(id, holder, uses.suspensions)),
      controller_log_(uses.log),
      record_changed_(std::move(callbacks.record_changed)) {}

LiveProgram::~LiveProgram() { suspension->close(); }

void LiveProgram::warn(const std::string& line) {
  controller_log_.warn(line, {{"client", holder}, {"program", name}});
  log->say(line);
  client.send(WarningFrame{line});
}

void LiveProgram::count_names(const RunFrame& run) {
  client.note_names(run);
  executables.count_position(run);
}

}  // namespace gangway
