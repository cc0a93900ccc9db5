// Failed runs that nobody has waited for, and who is told of them.
//
// A run that updates states and fails takes those behind it along (Chain): they compute nothing. A
// user who enqueues a hundred and waits for none would never hear of it, and read states of long
// ago. So the next call that depends on them throws why: a run or a repetition of an executable
// that names one of the states that the failed run updates, and a read or write of one. Each chain
// is told of once; then it is as if the user had waited for the run.
//
// A read comes behind the runs that were enqueued before it, and may be answered before the client
// has heard of their ends: behind_runs() waits for these too.
//
// Threads: a user's, or a fiber of the client's reactor; those that say so, with notify.mutex held.
// Errors: the failed run's kind, place and hint.
// Cost: while there is no chain whose user is still to be told, a look at one number for each run.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "client/client_impl.h"

namespace gangway::internal {

std::set<std::string> states_of(const Program& program);

// What the runs of a chain update.
struct UpdatedStates {
  std::string program;
  std::set<std::string> names;
  std::shared_ptr<std::atomic<int64_t>> untold_chains;  // The client's.
};
// Null: the program updates none, and its runs do not depend on one another.
std::shared_ptr<const UpdatedStates> updated_states(const ExecutableImpl& executable);

// A new chain for the executable, of which calls on its slice are told. With the mutex held.
void begin_chain(ExecutableImpl& executable);
// A run of the chain has failed. Ends may come in another order than the runs: one that is stopped
// while it waits ends at once. When one before those that the user was told of fails too, for a
// reason of its own, the user is told again. With the mutex held.
void note_failed(Chain& chain, RunId run, const Error& error);
// The user was told of a run of the chain that failed. With the mutex held.
void note_told(Chain& chain);

// Throws what is to be told to who runs the executable.
void tell_of_failed_runs(const ExecutableImpl& executable);
// The same to who reads or writes these states.
void tell_of_failed_runs(SliceImpl& slice, const std::set<std::string>& states);

// The last runs that update these states, of those that have not ended.
std::vector<std::shared_ptr<Outcome>> last_runs(SliceImpl& slice,
                                                const std::set<std::string>& states);
// Waits, and sends nothing again.
void wait_for_ends(Notify& notify, const std::vector<std::shared_ptr<Outcome>>& runs);

// What read() returns, which reads these states behind all runs so far. Suspends.
template <class Read>
auto behind_runs(SliceImpl& slice, const std::set<std::string>& states, Read read) {
  tell_of_failed_runs(slice, states);
  const std::vector<std::shared_ptr<Outcome>> before = last_runs(slice, states);
  auto result = read();
  wait_for_ends(slice.client->notify, before);
  tell_of_failed_runs(slice, states);
  return result;
}

}  // namespace gangway::internal
