// CallTable: calls of one session that make something (a slice, a plan, a copy of a version of
// states), by the client's numbers.
//
// Why: where a connection is lost, nobody at the client knows whether the controller has done what
// was asked. The client asks again over its next connection, under the same number, and is given
// what the first call made, or waits for it. What a call made is forgotten when the client lets it
// go, so that a table is as large as what the session holds.
//
// A call that waits for what another one makes has a fiber, and the client may ask over one
// connection after another: such a wait ends with the connection that it was asked over.
//
// Threads: the reactor's thread; once() suspends.
// Ownership: shared by the session and by its calls under way, which may outlive it.
// Errors: once() throws what make() throws, to all who asked under the number; whoever asks later
// has it made again. kUnavailable when the session was closed meanwhile; kCancelled when the client
// let go of what it asks for.
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

#include "controller/copies/states_read.h"
#include "controller/resources/slices.h"
#include "runtime/base/error.h"
#include "runtime/fibers/stop.h"
#include "runtime/fibers/wait_queue.h"

namespace gangway {

class CallTable {
 public:
  static constexpr size_t kCallsMax = 16384;    // Not released.
  static constexpr size_t kUnderWayMax = 1024;  // Of these, what is being made.

  using Made = std::variant<SliceId, PlanId, StatesRead>;
  struct Call {
    uint64_t number = 0;
    uint64_t releases = 0;  // It comes behind so many releases.
  };

  // `let_go` is told what nobody needs any more.
  explicit CallTable(std::function<void(const Made&)> let_go) : let_go_(std::move(let_go)) {}

  // Its token is stopped when nobody waits for what is made any more.
  using Make = std::function<Made(const StopToken&)>;
  // What make() made, which is called once for each number. Suspends. `asker` ends the wait of this
  // call for what it comes behind, and for what another one makes; who makes something goes on.
  Made once(const Call& call, const Make& make, const StopToken& asker = {});
  // A number that is not known yet is released as soon as it is.
  void release(const std::vector<uint64_t>& numbers) {
    release_has_come();
    release_later(numbers);
  }
  // The two halves of one that waits while its program is brought back; once() waits for both.
  void release_has_come();
  void release_later(const std::vector<uint64_t>& numbers);
  // Suspends until so many releases have come, or the asker is stopped.
  void come_behind(uint64_t releases, const StopToken& asker = {});
  // Nobody waits for what is under way: what it makes is let go.
  void release_under_way();
  // What calls made that was not released, in the order of their numbers.
  std::vector<Made> all_made() const;
  // A number that the client has used otherwise.
  void note_number(uint64_t number) { last_number_ = std::max(last_number_, number); }
  uint64_t last_number() const { return last_number_; }  // 0: there was none.
  uint64_t releases() const { return releases_come_; }
  // The session is over: its things are freed elsewhere.
  void close();
  size_t size() const { return calls_.size(); }

 private:
  struct Entry {
    bool ended = false;
    bool released = false;
    Made made;
    std::optional<Error> error;
    StopSource stop;
    WaitQueue changed;
  };
  Made made_by(const Entry& entry) const;
  void require_open() const;

  const std::function<void(const Made&)> let_go_;
  std::map<uint64_t, std::shared_ptr<Entry>> calls_;
  std::set<uint64_t> released_early_;
  uint64_t releases_come_ = 0, releases_done_ = 0, last_number_ = 0;
  size_t under_way_ = 0;
  bool is_closed_ = false;
  WaitQueue released_;
};

}  // namespace gangway
