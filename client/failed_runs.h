// Failed runs that nobody has waited for, and how the user is told of them.
//
// A run that updates states and fails takes the runs behind it along (Chain): they compute nothing.
// A user who enqueues a hundred runs and waits for none would never learn of the failure, and would
// read states of long ago. The next call that depends on the states therefore throws the reason: a
// run or a repetition of an executable that names one of the states that the failed run updates,
// and a read or write of one. The user is told of each chain once; then it is as if the user had
// waited for the run.
//
// A read comes behind the runs that were enqueued before it, and may be answered before the client
// knows of their ends: behind_runs() waits for these too.
//
// Threads: a user's, or a fiber of the client's reactor; with notify.mutex held where a comment
// says so.
// Errors: the failed run's kind, place and hint.
// Cost: a look at one number for each run, while there is no chain whose user is still to be told.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/objects.h"

namespace gangway::internal {

std::set<std::string> states_of(const Program& program);

// States that the runs of a chain update.
struct UpdatedStates {
  std::string program;
  std::set<std::string> names;
  std::shared_ptr<std::atomic<int64_t>> untold_chains;  // The session's counter.
};

// Before the executable's first run: finds the states that its runs update
// (ExecutableImpl::updated), and begins their first chain. Takes the mutex.
void begin_first_chain(ExecutableImpl& executable);
// Begins a new chain for the executable, which calls on its slice look at. The mutex is held.
void begin_chain(ExecutableImpl& executable);
// Notes that a run of the chain has failed. Runs may end in another order than that of the chain: a
// run that is stopped while it waits ends at once. If a run before those that the user was told of
// fails too, for a reason of its own, the user is told again. The mutex is held.
void note_failed(Chain& chain, RunId run, const Error& error);
// Notes that the user was told of a failed run of the chain. The mutex is held.
void note_told(Chain& chain);

// Throws the error that a caller who runs the executable is to be told.
void tell_of_failed_runs(const ExecutableImpl& executable);
// The same for a caller who reads or writes these states.
void tell_of_failed_runs(SliceImpl& slice, const std::set<std::string>& states);

// The last run of each chain that updates these states, where that run has not ended.
std::vector<std::shared_ptr<Outcome>> last_runs(SliceImpl& slice,
                                                const std::set<std::string>& states);
// Waits for the ends of these runs, and sends nothing again.
void wait_for_ends(Notify& notify, const std::vector<std::shared_ptr<Outcome>>& runs);

// Returns the result of read(), which reads these states behind all runs so far. Suspends.
template <class Read>
auto behind_runs(SliceImpl& slice, const std::set<std::string>& states, Read read) {
  tell_of_failed_runs(slice, states);
  const std::vector<std::shared_ptr<Outcome>> before = last_runs(slice, states);
  auto result = read();
  wait_for_ends(slice.session->notify, before);
  tell_of_failed_runs(slice, states);
  return result;
}

}  // namespace gangway::internal
