#include "controller/programs/shared_states.h"

#include <algorithm>
#include <utility>

#include "protocol/owner.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"

namespace gangway {
namespace {

constexpr const char* kEveryone = "*";

Error program_ended() {
  return {ErrorKind::kUnavailable,
          "states: their program has ended, or does not let this client read them",
          {},
          "open them again when it runs again"};
}

// Only its owner sees what it waits for.
Error being_resumed(const std::string& program, bool is_own) {
  return {
      ErrorKind::kOverloaded,
      cat("states: the ", program, " is brought back behind a restart of its controller"),
      {},
      is_own ? "try again later; \"gangway ps\" may show what it waits for" : "try again later"};
}

}  // namespace

bool SharedStateTable::may_read(SessionId reader, SessionId program,
                                const std::set<std::string>& readers) const {
  const std::string owner = names_.owner(reader);
  return owner == names_.owner(program) || readers.contains(owner) || readers.contains(kEveryone);
}

void SharedStateTable::begin_resuming(SessionId program, std::set<std::string> readers) {
  resuming_[program] = std::move(readers);
}

void SharedStateTable::allow_read(SessionId session, SliceId slice, const std::string& owner) {
  SliceRecord& record = slices_.at(slice, session);
  GW_REQUIRE(owner == kEveryone || is_owner_name(owner), "allow_read: \"",
             cut(owner, kQuotedBytesMax), "\" is no owner: expected \"", kEveryone, "\", or 1 to ",
             kOwnerBytesMax, " letters, digits, '-', '_' and '.'");
  for (const SliceRecord* other : slices_.all_of(session)) {
    GW_REQUIRE(other == &record || other->readers.empty() || other->given_up,
               "allow_read: others may read the states of another slice of this program already");
  }
  GW_REQUIRE(record.readers.contains(owner) || record.readers.size() < kReadersMax,
             "allow_read: expected at most ", kReadersMax, " owners");
  record.readers.insert(owner);
}

// Among the slices that the reader may read: the one that has readers, or else the only one that
// has states. A slice that was given up counts where there is no other. Null if there is none.
SliceRecord* SharedStateTable::shared_slice(SessionId reader, SessionId program,
                                            const std::string& text) {
  std::vector<SliceRecord*> candidates;
  SliceRecord* given_up = nullptr;
  for (SliceRecord* slice : slices_.all_of(program)) {
    if (!may_read(reader, program, slice->readers)) continue;
    if (slice->given_up) {
      given_up = slice;
      continue;
    }
    if (!slice->readers.empty()) return slice;
    if (!slice->placed_states.empty()) candidates.push_back(slice);
  }
  GW_REQUIRE(candidates.size() <= 1, "program \"", text, "\" has states in ", candidates.size(),
             " slices: say which is meant, by allowing somebody to read it (Slice::allow_read)");
  return candidates.empty() ? given_up : candidates[0];
}

SharedStateTable::Opened SharedStateTable::open(SessionId reader, const std::string& program) {
  const std::string text = cut(program, kTextBytesMax);
  const size_t slash = text.find('/');
  const bool is_own = slash == std::string::npos;
  const auto session = names_.find(is_own ? names_.owner(reader) : text.substr(0, slash),
                                   is_own ? text : text.substr(slash + 1));
  const auto resuming = session ? resuming_.find(*session) : resuming_.end();
  if (resuming != resuming_.end() && may_read(reader, *session, resuming->second))
    throw being_resumed(cat("program \"", text, "\""),
                        names_.owner(reader) == names_.owner(*session));
  const SliceRecord* const slice = session ? shared_slice(reader, *session, text) : nullptr;
  GW_REQUIRE(slice != nullptr, "there is no program \"", text,
             "\" whose states this client may read: expected \"owner/name\" of one that has some");
  if (slice->given_up) throw Error(*slice->given_up);
  Opened opened{.slice = slice->id};
  for (const auto& [name, state] : slice->placed_states) opened.states.emplace(name, state.type);
  return opened;
}

// A slice that the reader may not read gives the same error as one that is not there.
const SliceRecord& SharedStateTable::readable(SessionId reader, SliceId slice) const {
  const SliceRecord* const record = slices_.find(slice);
  if (record == nullptr || !may_read(reader, record->owner, record->readers)) throw program_ended();
  return *record;
}

void SharedStateTable::require_fits(const SliceRecord& slice, const Request& request) {
  std::set<std::string> names;
  for (const Part& part : request.parts) {
    const auto state = slice.placed_states.find(part.name);
    GW_REQUIRE(state != slice.placed_states.end() && names.insert(part.name).second, "state \"",
               cut(part.name, kQuotedBytesMax),
               "\": the program that is read has none of this name, or it is asked for twice");
    const Type& type = state->second.type;
    GW_REQUIRE(part.bytes == type.bytes(), "state \"", cut(part.name, kQuotedBytesMax),
               "\": expected ", type.bytes(), " bytes for ", to_string(type), ", got ", part.bytes);
  }
}

const SliceRecord& SharedStateTable::require_may_ask(SessionId reader,
                                                     const Request& request) const {
  const SliceRecord& slice = readable(reader, request.slice);
  if (resuming_.contains(slice.owner) && request.is_counted)
    throw being_resumed("program that is read", names_.owner(reader) == names_.owner(slice.owner));
  if (slice.given_up) throw Error(*slice.given_up);
  require_fits(slice, request);
  const auto asked = std::count_if(reads_.begin(), reads_.end(), [&](const ReadPtr& other) {
    return other->reader == reader && other->request.is_counted;
  });
  if (request.is_counted && static_cast<size_t>(asked) >= kReadsMax) {
    throw Error(ErrorKind::kOverloaded,
                cat("states: this client waits for ", asked, " versions already"), {},
                "wait for one of them first");
  }
  return slice;
}

StatesRead SharedStateTable::read(SessionId reader, Request request, const StopToken& stop) {
  const SliceRecord* slice = nullptr;
  const Result<void> accepted = result_of([&] { slice = &require_may_ask(reader, request); });
  // No host knows of the reader's memory yet, so the result is settled.
  if (!accepted.ok()) return {.how = StatesRead::How::kFailed, .error = accepted.error()};
  const auto read = std::make_shared<Read>();
  read->reader = reader;
  read->request = std::move(request);
  const auto at = reads_.insert(reads_.end(), read);
  const SessionId program = slice->owner;
  const StateScope scope{slice->id.value};
  struct Leaves {
    SharedStateTable& table;
    std::list<ReadPtr>::iterator at;
    SessionId program;
    StateScope scope;
    ~Leaves() {
      (*at)->has_ended = true;
      table.reads_.erase(at);
      if (!table.reads_of(SliceId(scope.id)).empty()) return;
      table.runs_.unwatch_states(program, scope);
      table.served_before_.erase(SliceId(scope.id));
    }
  } const leaves{*this, at, program, scope};
  const StopRegistration on_stop =
      stop.on_stop([this, &read](const Error& why) { fail(*read, why); });
  runs_.watch_states(program, scope);
  while (!read->has_ended) read->changed.wait("for a version of states");
  return outcome(*read);
}

StatesRead SharedStateTable::outcome(const Read& read) {
  StatesRead came{.is_settled = read.is_settled};
  if (read.error) {
    came.how = StatesRead::How::kFailed;
    came.error = read.error;
  } else if (read.again) {
    came.how = StatesRead::How::kAgain;
  } else if (read.past) {
    came.how = StatesRead::How::kPast;
    came.version = *read.past;
  } else {
    came.version = read.version;
  }
  return came;
}

std::vector<SharedStateTable::ReadPtr> SharedStateTable::reads_of(SliceId slice) const {
  std::vector<ReadPtr> reads;
  for (const ReadPtr& read : reads_) {
    if (read->request.slice == slice && !read->has_ended) reads.push_back(read);
  }
  return reads;
}

void SharedStateTable::at_sequence_point(const SequencePoint& point) {
  const SliceRecord* const slice = slices_.find(SliceId(point.scope));
  const auto waits = [&](const ReadPtr& read) {
    return read->request.slice.value == point.scope && read->waits();
  };
  if (slice == nullptr || slice->is_moving || std::none_of(reads_.begin(), reads_.end(), waits))
    return;
  const std::set<RunId> ahead = runs_.may_commit(*slice->runs);
  const StateVersion here(slice->version->value + ahead.size());
  for (const ReadPtr& read : reads_of(slice->id)) {
    if (!waits(read)) continue;
    if (const auto wanted = read->request.version) {
      if (*wanted < here && !read->request.or_later) {
        read->past = here;
        settle(*read);
      }
      if (read->past || *wanted > here) continue;
    } else {
      if (here < slice->comes_again) continue;  // Somebody may have seen a later version before.
      RunId& served = served_before_[slice->id];
      if (point.behind != RunId() && served == point.behind) continue;
      served = point.behind;
    }
    read->version = *slice->version;
    read->ahead = ahead;
    take(read, *slice, point);
  }
}

void SharedStateTable::take(const ReadPtr& read, const SliceRecord& slice,
                            const SequencePoint& point) {
  read->is_taken = true;
  if (read->tenant == 0) read->tenant = transfers_.new_tenant();
  ++read->transfers;  // Keeps the read from being settled before all of them have been started.
  const auto one_ended = [this, read](const HostTransferDoneFrame& done) {
    --read->transfers;
    if (done.error && !read->of_transfers) read->of_transfers = done.error;
    read->is_settled = read->is_settled && done.is_settled;
    settle(*read);
  };
  for (const Part& part : read->request.parts) {
    ++read->transfers;
    transfers_.transfer_for(read->reader, slice,
                            {.kind = HostTransferKind::kReadState,
                             .at = {read->request.segment, part.offset, part.bytes},
                             .scope = {slice.id.value},
                             .name = part.name,
                             .ticket = point.take()},
                            read->tenant, one_ended);
  }
  one_ended({.is_settled = true});
}

void SharedStateTable::run_ended(const RunRecord& run, bool committed) {
  const SliceId slice(run.plan->scope);
  std::optional<std::set<RunId>> may_commit;
  for (const ReadPtr& read : reads_of(slice)) {
    if (!read->is_taken) continue;
    const bool was_ahead = read->ahead.erase(run.id) > 0;
    if (was_ahead && committed) {
      read->version = read->version.next();
    } else if (!committed) {  // Runs that depend on it can't commit either.
      if (!may_commit) may_commit = runs_.may_commit(*run.plan->scope_runs);
      std::erase_if(read->ahead, [&](RunId id) { return !may_commit->contains(id); });
    }
    const auto wanted = read->request.version;
    if (wanted && read->expected() < wanted->value) {
      read->is_taken = false;  // Transfers that are under way will be made again.
      runs_.watch_states_again(run.session, {slice.value});
    }
    settle(*read);
  }
}

void SharedStateTable::slice_gone(SliceId slice) {
  for (const ReadPtr& read : reads_of(slice)) {
    if (!read->is_taken) fail(*read, program_ended());
  }
}

void SharedStateTable::withdraw(SliceId slice) {
  for (const ReadPtr& read : reads_of(slice)) {
    if (read->request.is_counted) continue;
    read->is_withdrawn = true;
    settle(*read);
  }
}

void SharedStateTable::slice_moves(SliceId slice) {
  for (const ReadPtr& read : reads_of(slice)) {
    if (!read->is_taken && read->transfers == 0) continue;
    read->again = true;
    settle(*read);
  }
}

void SharedStateTable::slice_is_back(SliceId slice) {
  served_before_.erase(slice);
  const SliceRecord* const record = slices_.find(slice);
  if (record == nullptr) return;
  for (const ReadPtr& read : reads_of(slice)) {
    if (record->given_up) fail(*read, *record->given_up);
  }
  if (!reads_of(slice).empty()) runs_.watch_states_again(record->owner, {slice.value});
}

void SharedStateTable::session_closed(SessionId reader) {
  resuming_.erase(reader);
  for (const ReadPtr& read : reads_) {
    if (read->reader == reader)
      fail(*read, Error(ErrorKind::kUnavailable, "states: the client's session is closed", {},
                        "connect again"));
  }
}

void SharedStateTable::fail(Read& read, const Error& why) {
  if (!read.error) read.error = why;
  settle(read);
}

// Ends the read if its outcome is known and no transfer is under way, since hosts may write to
// the reader's memory until then. Lost hosts may write even later: then nothing is copied into that
// memory again, and the reader has to ask with other memory.
void SharedStateTable::settle(Read& read) {
  if (read.has_ended || read.transfers > 0) return;
  if (read.again && read.is_settled) {
    read.again = read.is_taken = false;
    read.ahead.clear();
    read.of_transfers.reset();
  }
  if (read.is_withdrawn && !read.is_taken) read.again = true;
  if (!read.error && !read.again) read.error = read.of_transfers;
  if (!read.error && !read.again && !read.past && !(read.is_taken && read.ahead.empty())) return;
  read.has_ended = true;
  read.changed.wake_all();
}

}  // namespace gangway
