// The part of Controller that serves checkpoints and recovery, and runs that are run again
// (controller/programs/runs_again.h).
#include "controller/controller.h"

namespace gangway {

StatesRead Controller::read_for_checkpoint(SessionId session, const Checkpoints::Read& read,
                                           const StopToken& stop) {
  SharedStateTable::Request request{.slice = read.slice,
                                    .version = read.version,
                                    .or_later = true,
                                    .segment = read.segment,
                                    .parts = {},
                                    .is_counted = false};
  for (const Checkpoints::Part& part : read.parts)
    request.parts.push_back({part.name, part.offset, part.bytes});
  StatesRead read_now = shared_states_.read(session, std::move(request), stop);
  if (read_now.error) throw Error(*read_now.error);
  return read_now;
}

void Controller::keep_checkpoints(SessionId session, SliceId slice, RecoveryOptions options,
                                  const StopToken& asker) {
  recovery_.wait_until_back(session, asker);
  static_cast<void>(open_program(session));
  checkpoints_.require_room_for_folder(session);
  checkpoints_.try_memory(session, slice);
  static_cast<void>(open_program(session));
  checkpoints_.keep(session, slice, std::move(options));
  if (live(session) != nullptr) recovery_.keep(session, slice);
}

Recovery::Callbacks Controller::recovery_callbacks() {
  return {
      .is_suspended =
          [this](SessionId session) {
            const LiveProgram* const program = live(session);
            return program != nullptr && program->suspension->is_suspended();
          },
      .warn = [this](SessionId session, const std::string& line) { warn(session, line); },
      .submit =
          [this](SessionId session, RunFrame&& run, const std::optional<Error>& refused) {
            const bool has_limit = run.time_limit_ms > 0;
            if (!runs_again_.waits(session, run, refused))
              submit_to_table(session, std::move(run), refused);
            else if (has_limit)
              deadline_moved_.wake_all();
          },
      .free = [this](SessionId session, ArrayId array) { runs_again_.free(session, {array}); },
      .ended = [this](SessionId session,
                      RunDoneFrame&& done) { tell_run_ended(session, std::move(done)); },
      .act =
          [this](SessionId id, Message&& message) {
            LiveProgram* const program = live(id);
            if (program == nullptr) return;
            if (const auto* released = std::get_if<ReleaseFrame>(&message)) {
              return program->calls->release_later(released->calls);
            }
            act(*program, std::move(message));
          },
      .moves =
          [this](SliceId slice) {
            shared_states_.slice_moves(slice);
            runs_again_.slice_moves(slice);
          },
      .is_back = [this](SliceId slice) { shared_states_.slice_is_back(slice); },
  };
}

void Controller::submit_to_table(SessionId session, RunFrame&& run,
                                 const std::optional<Error>& refused) {
  const auto before = runs_.next_deadline_ns();
  runs_.submit(session, std::move(run), reactor_.clock().now_ns(), refused);
  if (runs_.next_deadline_ns() != before) deadline_moved_.wake_all();
}

RunsAgain::Callbacks Controller::runs_again_callbacks() {
  return {
      .submit =
          [this](SessionId session, RunFrame&& run, const std::optional<Error>& refused) {
            submit_to_table(session, std::move(run), refused);
          },
      .ended = [this](SessionId session,
                      RunDoneFrame&& done) { run_ended_for_good(session, std::move(done)); },
      .copy = [this](SessionId session, CopyFrame&& copy) { start_copy(session, std::move(copy)); },
      .warn = [this](SessionId session, const std::string& line) { warn(session, line); },
      .may_compile =
          [this](SessionId session) {
            // Shared, since the program may end meanwhile.
            const std::shared_ptr<Suspension> suspension = open_program(session).suspension;
            return suspension->wait_to_compile();
          },
      .freed =
          [this] {
            runs_.pump();
            look_again();
          },
      .is_recovered = [this](SessionId session,
                             RunId run) { return recovery_.runs_again(session, run); },
      .defer = [this](SessionId session,
                      Message&& message) { recovery_.take_over(session, std::move(message)); },
      .are_held = [this](
                      SessionId session,
                      const std::vector<ArrayId>& arrays) { recovery_.are_held(session, arrays); }};
}

}  // namespace gangway
