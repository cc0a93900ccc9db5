// CallTable: calls of one session that create something (a slice, a plan, a copy of a version of
// states), by the client's numbers.
//
// Why: when a connection is lost, the client does not know whether the controller has done a call.
// The client calls again over its next connection, under the same number, and gets the result of
// the first call, or waits for it. The table drops a result when the client releases it, so that
// the table is as large as what the session holds.
//
// A call that waits for the result of another one has a fiber, and the client may call over one
// connection after another. The wait of a call therefore ends with its connection.
//
// Threads: the reactor's thread; once() suspends.
// Ownership: shared by the session and by its calls under way, which may outlive it.
// Errors: once() throws what make() throws, to all calls that wait under the number; a later call
// runs make() again. kUnavailable if the session was closed meanwhile; kCancelled if the client
// released the number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "controller/scheduler/states_read.h"
#include "controller/slices/slices.h"
#include "runtime/base/error.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class CallTable {
 public:
  static constexpr size_t kCallsMax = 16384;    // Calls that are not released.
  static constexpr size_t kUnderWayMax = 1024;  // Calls whose make() has not returned.

  using Created = std::variant<SliceId, PlanId, StatesRead>;
  struct Call {
    uint64_t number = 0;
    uint64_t releases = 0;  // Number of release messages that the client sent before it.
  };

  // `release_created` gets each result that the client has released, to free it.
  explicit CallTable(std::function<void(const Created&)> release_created)
      : release_(std::move(release_created)) {}

  // The token is stopped when nobody waits for the result any more.
  using Make = std::function<Created(const StopToken&)>;
  // Calls make() once for each number, and returns its result to all calls of the number. Suspends.
  // `asker` ends this call's wait for releases and for another call's make(), but no make().
  Created once(const Call& call, const Make& make, const StopToken& asker = {});
  // A number that is not known yet is released as soon as its call comes.
  void release(const std::vector<uint64_t>& numbers) {
    release_has_come();
    release_later(numbers);
  }
  // The two halves of release(), apart while a program is brought back. once() waits for both.
  void release_has_come();
  void release_later(const std::vector<uint64_t>& numbers);
  // Suspends until this number of release messages has come, or `asker` is stopped.
  void come_behind(uint64_t releases, const StopToken& asker = {});
  // Releases all calls under way, since nobody waits for their results.
  void release_under_way();
  // Results that are not released, in the order of their numbers.
  std::vector<Created> all_created() const;
  // Counts a number that the client has used for something else.
  void note_number(uint64_t number) { last_number_ = std::max(last_number_, number); }
  uint64_t last_number() const { return last_number_; }  // 0 before the first one.
  uint64_t releases() const { return releases_come_; }
  // The session is over. Its slices and plans are freed elsewhere.
  void close();
  size_t size() const { return calls_.size(); }

 private:
  struct Entry {
    bool ended = false;
    bool released = false;
    Created created;
    std::optional<Error> error;
    StopSource stop;
    WaitQueue changed;
  };
  Created created_by(const Entry& entry) const;
  void require_open() const;

  const std::function<void(const Created&)> release_;
  std::map<uint64_t, std::shared_ptr<Entry>> calls_;
  std::set<uint64_t> released_early_;
  uint64_t releases_come_ = 0, releases_done_ = 0, last_number_ = 0;
  size_t under_way_ = 0;
  bool is_closed_ = false;
  WaitQueue released_;
};

}  // namespace gangway
