#include "controller/programs/checkpoints.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <set>
#include <span>

#include "checkpoint/checkpoint_dir.h"
#include "controller/programs/program_table.h"
#include "runtime/base/align.h"
#include "runtime/base/cut.h"
#include "runtime/base/hash.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/os/random_bytes.h"

namespace gangway {
namespace {

constexpr int64_t kAlignment = 64;
// Pause after a checkpoint that could not be written. It doubles with each further failure.
constexpr int64_t kPauseFirstNs = 1'000'000'000, kPauseMaxNs = 60'000'000'000;
constexpr size_t kFolderNameBytesMax = 200;  // File systems take 255, and some is added.

std::string hash_of(const std::string& text) {
  Hasher hasher;
  hasher.add(text);
  return to_string(hasher.finish());
}

// Random, since sessions of an earlier controller had the same numbers. In a simulation it is the
// session's number, so that the simulation repeats itself.
std::string new_program_id(const Reactor& reactor, SessionId session) {
  uint64_t id = session.value;
  if (!reactor.simulated()) fill_random(std::as_writable_bytes(std::span(&id, 1)));
  return std::to_string(id);
}

}  // namespace

struct Checkpoints::Kept {
  SessionId session;
  SliceId slice;
  RecoveryOptions options;
  StateVersion done;                // No checkpoint of this or an earlier version begins any more.
  std::optional<StateVersion> due;  // To be kept next: this version, or the first possible later.
  std::optional<StateVersion> newest;
  std::string program_id;
  // Time and version when `due` was set, from which the time that a version takes is computed.
  int64_t since_ns = 0;
  StateVersion since;
  bool is_changed = false;   // The slice's states have changed since the layout was made.
  int64_t pause_ns = 0;      // Pause after the last failure; 0: the last checkpoint was written.
  bool is_watching = false;  // keep() may return: runs submitted from now on are not missed.
  StopSource stop;           // The slice has gone.
  WaitQueue changed;

  // The number in its folder's name.
  uint64_t number_of(StateVersion version) const { return options.first + version.value; }
  void begin_watching() {
    is_watching = true;
    changed.wake_all();
  }
};

// A segment of one host, while this lives.
class Checkpoints::Memory {
 public:
  // Suspends until its owner may have one more segment there, and it is created.
  Memory(Checkpoints& of, SessionId session, HostId host, Use use, uint64_t bytes)
      : of_(of), host_(host), turn_(of, {host, of.tables_.names.owner(session), use}) {
    segment_ = peer().make_segment(bytes).take(gone());
  }
  ~Memory() {
    const HostRecord* const host = of_.tables_.hosts.find(host_);
    if (host != nullptr && !host->lost) host->peer->checkpoints()->close_segment(segment_.number);
  }
  Memory(const Memory&) = delete;

  const SegmentDescriptor& descriptor() const { return segment_.descriptor; }
  bool is_gone() const {
    const HostRecord* const host = of_.tables_.hosts.find(host_);
    return host == nullptr || host->lost.has_value();
  }
  StopToken gone() const {
    of_.tables_.hosts.require_alive(host_);
    return of_.tables_.hosts.at(host_).gone.token();
  }
  // Both suspend.
  void write(const CheckpointFiles& files) {
    peer().write_checkpoint(segment_.number, files).await(gone());
  }
  // Returns the tensors that are missing, of those that may be.
  std::vector<std::string> read(const CheckpointFiles& files) {
    return peer().read_checkpoint(segment_.number, files).take(gone());
  }

 private:
  // One of the segments that an owner may have on a host. Waits until there is one.
  struct Turn {
    Turn(Checkpoints& in, SegmentsKey key) : of(in), of_whom(std::move(key)) {
      while (of.is_full(of_whom))
        of.segment_closed_.wait("for memory to restore from, of which its owner has much");
      ++of.segments_[of_whom];
    }
    ~Turn() {
      if (--of.segments_[of_whom] == 0) of.segments_.erase(of_whom);
      of.segment_closed_.wake_all();
    }
    Turn(const Turn&) = delete;

    Checkpoints& of;
    const SegmentsKey of_whom;
  };

  CheckpointPeer& peer() const {
    of_.tables_.hosts.require_alive(host_);
    return *of_.tables_.hosts.at(host_).peer->checkpoints();
  }

  Checkpoints& of_;
  const HostId host_;
  const Turn turn_;
  CheckpointPeer::Segment segment_;
};

Checkpoints::Checkpoints(Reactor& reactor, SharedTables& tables, ProgramTable& programs,
                         Options options)
    : reactor_(reactor),
      tables_(tables),
      programs_(programs),
      options_(std::move(options)),
      fibers_(reactor) {}

Checkpoints::~Checkpoints() {
  is_ending_ = true;
  fibers_.cancel();
}

std::string Checkpoints::escaped(const std::string& text) {
  std::string name;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_')) {
      name += c;
    } else {
      char code[4];
      std::snprintf(code, sizeof(code), "%%%02X", byte);
      name += code;
    }
  }
  if (name.size() <= kFolderNameBytesMax) return name;
  return cat(name.substr(0, kFolderNameBytesMax), "~", hash_of(text));
}

std::string Checkpoints::place_of(SessionId session) const {
  const ProgramNames::Name* const name = tables_.names.find(session);
  return name == nullptr ? std::string() : cat(escaped(name->owner), "/", escaped(name->program));
}

void Checkpoints::try_memory(SessionId session, SliceId slice) {
  const SliceRecord& record = tables_.slices.at(slice, session);
  if (kept_.contains(slice) || record.given_up || record.placed_states.empty()) return;
  const Memory memory(*this, session, worker(record, Use::kRestore), Use::kRestore,
                      lay_out(record).bytes);
}

void Checkpoints::keep(SessionId session, SliceId slice, RecoveryOptions options) {
  require_recovery(options);
  GW_REQUIRE(!options_.folder.empty(), "keep_checkpoints: this controller has no folder for them: ",
             "expected one that was started with --checkpoint-dir or --state-dir");
  SliceRecord& record = tables_.slices.at(slice, session);
  if (record.given_up) throw Error(*record.given_up);
  GW_REQUIRE(!record.placed_states.empty(), "keep_checkpoints: no program that has states is ",
             "compiled on the slice yet");
  for (const SliceRecord* other : tables_.slices.all_of(session)) {
    GW_REQUIRE(other == &record || !other->recovery || other->given_up,
               "keep_checkpoints: those of another slice of this program are kept already");
  }
  drop_given_up(session);
  const KeptPtr known = kept_of(session);
  GW_REQUIRE(
      known == nullptr || known->options.first == options.first,
      "keep_checkpoints: those of this program are numbered from another version on: expected ",
      known->options.first, ", got ", options.first);
  record.recovery = options;
  if (const auto found = kept_.find(slice); found != kept_.end()) {
    found->second->options = std::move(options);
    if (far_.contains(session)) {
      found->second->due.reset();
      found->second->changed.wake_all();
    }
    return;
  }
  const auto kept = std::make_shared<Kept>();
  kept->session = session;
  kept->slice = slice;
  kept->program_id = new_program_id(reactor_, session);
  kept->options = std::move(options);
  kept_.emplace(slice, kept);
  fibers_.spawn("checkpoints", [this, kept] {
    serve(kept);
    kept->begin_watching();
  });
  // Waits until serve() watches for a version, so that runs which are submitted afterwards do not
  // pass it unseen.
  while (!kept->is_watching) kept->changed.wait("for checkpoints to begin");
}

// Counts all folders: those of programs that have ended stay until somebody removes them, also if a
// later program has the name.
void Checkpoints::require_room_for_folder(SessionId session) const {
  if (options_.folder.empty() || kept_of(session) != nullptr) return;
  const std::filesystem::path owners =
      (std::filesystem::path(options_.folder) / place_of(session)).parent_path();
  size_t count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(owners, error), end;
       !error && at != end && count < kFoldersOfOwnerMax; at.increment(error))
    ++count;
  if (count < kFoldersOfOwnerMax) return;
  throw Error(
      ErrorKind::kOverloaded,
      cat("keep_checkpoints: ", owners.string(), " has ", count,
          " folders of checkpoints: expected at most ", kFoldersOfOwnerMax, " of one owner"),
      {}, "remove those of programs that have ended (gangway checkpoint rm)");
}

std::optional<StateVersion> Checkpoints::newest(SliceId slice) const {
  const auto found = kept_.find(slice);
  return found == kept_.end() ? std::nullopt : found->second->newest;
}

Checkpoints::KeptPtr Checkpoints::kept_of(SessionId session) const {
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& kept) {
    return kept.second->session == session;
  });
  return found == kept_.end() ? nullptr : found->second;
}

std::optional<StateVersion> Checkpoints::newest_number_of(SessionId session) const {
  const KeptPtr kept = kept_of(session);
  if (kept == nullptr || !kept->newest) return std::nullopt;
  return StateVersion(kept->number_of(*kept->newest));
}

void Checkpoints::slice_is_back(SliceId slice) {
  if (const auto found = kept_.find(slice); found != kept_.end()) found->second->changed.wake_all();
}

void Checkpoints::slice_gone(SliceId slice) {
  const auto found = kept_.find(slice);
  if (found == kept_.end()) return;
  const KeptPtr kept = found->second;
  kept_.erase(found);
  kept->stop.request_stop(Error(ErrorKind::kUnavailable, "checkpoint: its slice has gone"));
  kept->changed.wake_all();
  segment_closed_.wake_all();
}

// Nothing is written of such a slice any more, and its client may keep checkpoints of another.
void Checkpoints::drop_given_up(SessionId session) {
  const KeptPtr kept = kept_of(session);
  if (kept != nullptr && at(kept->slice).given_up) slice_gone(kept->slice);
}

void Checkpoints::states_changed(SliceId slice) {
  const auto found = kept_.find(slice);
  if (found == kept_.end()) return;
  found->second->is_changed = true;
  tables_.shared_states.withdraw(slice);
}

bool Checkpoints::is_full(const SegmentsKey& of_whom) const {
  const auto found = segments_.find(of_whom);
  return found != segments_.end() && found->second >= kSegmentsOfOwnerMax;
}

SliceRecord& Checkpoints::at(SliceId slice) {
  SliceRecord* const record = tables_.slices.find(slice);
  GW_REQUIRE(record != nullptr, "checkpoint: there is no slice ", slice);
  return *record;
}

Checkpoints::Layout Checkpoints::lay_out(const SliceRecord& slice) {
  Layout layout;
  int64_t end = 0;
  for (const auto& [name, state] : slice.placed_states) {
    const int64_t offset = align_up(end, kAlignment);
    end = offset + state.type.bytes();
    layout.parts.push_back({name, offset, state.type.bytes()});
    if (state.stacked) {
      Type layer = state.type;
      layer.dims.erase(layer.dims.begin());
      for (int64_t row = 0; row < state.stacked->count; ++row)
        layout.tensors.push_back(
            {layer_name(name, *state.stacked, row), layer, offset + row * layer.bytes()});
    } else {
      layout.tensors.push_back({name, state.type, offset});
    }
    layout.tensors_end.push_back(layout.tensors.size());
  }
  layout.bytes = static_cast<uint64_t>(std::max<int64_t>(end, 1));
  return layout;
}

void Checkpoints::allow_missing(Layout& layout, const SliceRecord& slice, StateVersion version) {
  size_t tensor = 0;
  for (size_t i = 0; i < layout.parts.size(); ++i) {
    const PlacedState& state = slice.placed_states.at(layout.parts[i].name);
    for (; tensor < layout.tensors_end[i]; ++tensor)
      layout.tensors[tensor].may_be_missing = version <= state.since;
  }
}

std::vector<Checkpoints::Part> Checkpoints::found_parts(const Layout& layout,
                                                        const std::vector<std::string>& missing,
                                                        StateVersion version) {
  const std::set<std::string> absent(missing.begin(), missing.end());
  std::vector<Part> found;
  size_t begin = 0;
  for (size_t i = 0; i < layout.parts.size(); begin = layout.tensors_end[i++]) {
    const auto there =
        std::count_if(layout.tensors.begin() + static_cast<ptrdiff_t>(begin),
                      layout.tensors.begin() + static_cast<ptrdiff_t>(layout.tensors_end[i]),
                      [&](const StoredTensor& tensor) { return !absent.contains(tensor.name); });
    if (there == 0) continue;
    GW_REQUIRE(static_cast<size_t>(there) == layout.tensors_end[i] - begin,
               "checkpoint: that of version ", version, " has ", there, " of ",
               layout.tensors_end[i] - begin, " layers of state \"", layout.parts[i].name, "\"");
    found.push_back(layout.parts[i]);
  }
  return found;
}

// The host of the slice on which its owner has the fewest segments.
HostId Checkpoints::worker(const SliceRecord& slice, Use use) const {
  std::optional<std::pair<int, HostId>> best;
  const std::string owner = tables_.names.owner(slice.owner);
  for (const DeviceRef& device : slice.devices) {
    const HostRecord* const host = tables_.hosts.find(device.host);
    if (host == nullptr || host->lost || host->peer->checkpoints() == nullptr) continue;
    const auto held = segments_.find({device.host, owner, use});
    const int segments = held == segments_.end() ? 0 : held->second;
    if (!best || segments < best->first) best = {segments, device.host};
  }
  if (best) return best->second;
  throw Error(ErrorKind::kUnavailable,
              "checkpoint: no host of the slice is left to write or read it");
}

void Checkpoints::serve(const KeptPtr& kept) {
  while (true) {
    const SliceRecord* const slice = tables_.slices.find(kept->slice);
    if (slice == nullptr || kept->stop.stop_requested()) return;
    if (slice->is_moving || slice->given_up) {  // If given up, it waits until the slice goes.
      kept->changed.wait("for a program that lost a host");
      continue;
    }
    if (!kept->due) {
      const uint64_t reached = std::max(*slice->version, kept->done).value;
      kept->due = StateVersion((reached / kept->options.every + 1) * kept->options.every);
      kept->since_ns = reactor_.clock().now_ns();
      kept->since = *slice->version;
    }
    if (!is_near(*kept, *slice)) {
      wait_until_near(kept, *slice);
      continue;
    }
    const Result<void> written = result_of([&] { write(*kept); });
    if (written.ok()) {
      kept->pause_ns = 0;
    } else if (!goes_on_after(kept, written.error())) {
      return;
    }
  }
}

// Counts from the next version, since the run that is ending may make one more than is there.
bool Checkpoints::is_near(const Kept& kept, const SliceRecord& slice) const {
  const uint64_t next = slice.version->value + 1;
  uint64_t ahead = kAheadVersions;
  if (*slice.version > kept.since) {
    const auto took_ns = static_cast<uint64_t>(reactor_.clock().now_ns() - kept.since_ns);
    const uint64_t each_ns =
        std::max<uint64_t>(1, took_ns / (slice.version->value - kept.since.value));
    ahead = std::max(ahead, static_cast<uint64_t>(kAheadNs) / each_ns);
  }
  return kept.due->value <= next || kept.due->value - next <= ahead;
}

void Checkpoints::wait_until_near(const KeptPtr& kept, const SliceRecord& slice) {
  struct Far {
    std::map<SessionId, KeptPtr>& far;
    const KeptPtr& kept;
    ~Far() {
      const auto found = far.find(kept->session);  // The session's next slice may be there by now.
      if (found != far.end() && found->second == kept) far.erase(found);
    }
  } const leaves{far_, kept};
  far_[kept->session] = kept;
  kept->begin_watching();
  while (kept->due && !kept->stop.stop_requested() && !slice.is_moving && !is_near(*kept, slice))
    kept->changed.wait("for a version that is to be kept");
}

void Checkpoints::look_whether_near(SessionId session) {
  const auto found = far_.find(session);
  if (found == far_.end()) return;
  const Kept& kept = *found->second;
  const SliceRecord* const slice = tables_.slices.find(kept.slice);
  if (slice != nullptr && kept.due && is_near(kept, *slice)) found->second->changed.wake_all();
}

// Returns whether the next checkpoint is to be tried. Suspends for a while first.
bool Checkpoints::goes_on_after(const KeptPtr& kept, const Error& why) {
  const auto is_over = [&] {
    return is_ending_ || kept->stop.stop_requested() || place_of(kept->session).empty() ||
           tables_.slices.find(kept->slice) == nullptr;
  };
  if (is_over()) return false;
  const SliceRecord& slice = *tables_.slices.find(kept->slice);
  if (slice.is_moving || slice.given_up) return true;
  kept->begin_watching();
  programs_.warn(
      kept->session,
      kept->due ? cat("a checkpoint of version ", *kept->due, " can't be made yet: ", why.message(),
                      "; the program goes on, and a later version is ", "tried")
                : cat("checkpoint of version ", kept->done, " was not written: ", why.message(),
                      "; the program goes on, and the next one is ", "tried"));
  kept->pause_ns = std::clamp(2 * kept->pause_ns, kPauseFirstNs, kPauseMaxNs);
  const int64_t until_ns = reactor_.clock().now_ns() + kept->pause_ns;
  while (!is_over() && kept->changed.wait_until_ns("after a checkpoint that failed", until_ns)) {
  }
  return !is_over();
}

// A program that takes no steps keeps its segment until it goes on. The wait therefore ends with an
// error after a while, so that the user learns of it.
void Checkpoints::wait_for_segment(const Kept& kept, const SegmentsKey& of_whom) {
  const int64_t until_ns = reactor_.clock().now_ns() + kPauseMaxNs;
  const auto& [host, owner, use] = of_whom;
  const std::string name = tables_.hosts.at(host).info.name;
  while (is_full(of_whom) && !kept.stop.stop_requested()) {
    if (segment_closed_.wait_until_ns("for memory for a checkpoint, of which its owner has much",
                                      until_ns))
      continue;
    throw Error(ErrorKind::kOverloaded,
                cat("checkpoint: programs of ", owner, " keep memory for ", kSegmentsOfOwnerMax,
                    " checkpoints on host \"", name, "\": expected fewer, so that this program ",
                    "has some too; one that takes no steps keeps it until it goes on or ends"),
                {.host = name});
  }
}

// Writes a checkpoint of the version that is due, or of the one that came in its place. Returns
// without one if the attempt has to begin again.
void Checkpoints::write(Kept& kept) {
  const SliceRecord& slice = at(kept.slice);
  kept.is_changed = false;
  Layout layout = lay_out(slice);
  const HostId host = worker(slice, Use::kWrite);
  const SegmentsKey of_whom(host, tables_.names.owner(kept.session), Use::kWrite);
  if (is_full(of_whom)) {
    kept.begin_watching();
    wait_for_segment(kept, of_whom);
    return;  // Another version may be due by now.
  }
  Memory memory(*this, kept.session, host, Use::kWrite, layout.bytes);
  if (kept.is_changed || !kept.due || at(kept.slice).is_moving) return;
  StopSource stop;
  const auto end = [&stop](const Error& why) { stop.request_stop(why); };
  const StopRegistration on_slice = kept.stop.token().on_stop(end);
  const StopRegistration on_host = memory.gone().on_stop(end);
  kept.begin_watching();
  SharedStateTable::Request request{.slice = kept.slice,
                                    .version = kept.due,
                                    .or_later = true,
                                    .segment = memory.descriptor(),
                                    .parts = std::move(layout.parts),
                                    .is_counted = false};
  const Result<StatesRead> came = result_of([&] {
    StatesRead read = tables_.shared_states.read(kept.session, std::move(request), stop.token());
    if (read.error) throw Error(*read.error);
    return read;
  });
  // The copies are lost with their host; another host may do it.
  if (!came.ok() && memory.is_gone() && !kept.stop.stop_requested() && !is_ending_) return;
  if (!came.ok()) throw Error(came.error());
  if (came.value().how != StatesRead::How::kHere) return;
  const StateVersion version = came.value().version;
  kept.done = std::max(kept.done, version);
  kept.due.reset();
  write_files(kept, memory, version, std::move(layout.tensors));
}

void Checkpoints::write_files(Kept& kept, Memory& memory, StateVersion version,
                              std::vector<StoredTensor> tensors) {
  const std::string place = place_of(kept.session);
  if (place.empty()) throw Error(ErrorKind::kUnavailable, "checkpoint: its program has ended");
  if (is_ending_) throw Error(ErrorKind::kUnavailable, "checkpoint: its controller ends");
  CheckpointFiles files{.folder = cat(options_.folder, "/", place),
                        .version = kept.number_of(version),
                        .tensors = std::move(tensors),
                        .keep = kept.options.keep,
                        .known = kept.newest ? kept.number_of(*kept.newest) : 0,
                        .owner_bytes_max = bytes_max_of(kept.session),
                        .metadata = kept.options.metadata};
  files.metadata["format"] = "pt";
  files.metadata[kProgramKey] = kept.program_id;
  files.metadata["version"] = std::to_string(version.value);
  struct Counts {
    explicit Counts(size_t& of) : count(of) { ++count; }
    ~Counts() { --count; }
    size_t& count;
  } const counts(under_way_);
  memory.write(files);
  kept.newest = version;
  options_.log.info("checkpoint is written",
                    {{"folder", files.folder}, {"version", version.value}});
  programs_.say(kept.session, cat("a checkpoint of version ", version, " is written"));
  if (kept.stop.stop_requested()) return;
  if (on_written_) on_written_(kept.slice, version);
  if (LiveProgram* const program = programs_.find(kept.session))
    program->record_keeper.checkpoint_written();
}

// The bound of the files of all programs of the session's owner.
uint64_t Checkpoints::bytes_max_of(SessionId session) const {
  const auto& most = tables_.quotas.of(tables_.names.owner(session)).checkpoint_bytes;
  return most ? static_cast<uint64_t>(*most) : UINT64_MAX;
}

void Checkpoints::put_states(const SliceRecord& slice, const std::vector<Part>& parts,
                             const SegmentDescriptor& from) {
  struct Puts {
    size_t under_way = 0;
    std::optional<Error> failed;
    WaitQueue changed;
  };
  const auto puts = std::make_shared<Puts>();
  const SliceId id = slice.id;
  const SessionId session = slice.owner;
  const auto one_ended = [puts](const HostTransferDoneFrame& done) {
    --puts->under_way;
    if (done.error && !puts->failed) puts->failed = done.error;
    puts->changed.wake_all();
  };
  puts->under_way = parts.size();
  for (const Part& part : parts) {
    tables_.runs.in_order(session, {id.value}, [=, this](Ticket ticket) {
      const SliceRecord* const there = tables_.slices.find(id);
      if (there == nullptr)
        return one_ended(
            {.error = Error(ErrorKind::kUnavailable, "checkpoint: its slice has gone")});
      tables_.transfers.transfer_for(session, *there,
                                     {.kind = HostTransferKind::kWriteState,
                                      .at = {from, part.offset, part.bytes},
                                      .scope = {id.value},
                                      .name = part.name,
                                      .ticket = ticket},
                                     0, one_ended);
    });
  }
  const StopToken gone = kept_.at(id)->stop.token();
  const StopRegistration on_gone = gone.on_stop([puts](const Error&) { puts->changed.wake_all(); });
  while (puts->under_way > 0) {
    gone.throw_if_stopped();
    puts->changed.wait("for restored states");
  }
  if (puts->failed) throw Error(*puts->failed);
}

void Checkpoints::restore(SliceId slice, StateVersion version) {
  const auto found = kept_.find(slice);
  GW_REQUIRE(found != kept_.end(), "checkpoint: none is kept of slice ", slice);
  const KeptPtr kept = found->second;
  if (version != StateVersion()) {
    const SliceRecord& record = at(slice);
    Layout layout = lay_out(record);
    allow_missing(layout, record, version);
    Memory memory(*this, kept->session, worker(record, Use::kRestore), Use::kRestore, layout.bytes);
    const std::vector<std::string> missing =
        memory.read({.folder = cat(options_.folder, "/", place_of(kept->session)),
                     .version = kept->number_of(version),
                     .tensors = layout.tensors});
    put_states(at(slice), found_parts(layout, missing, version), memory.descriptor());
  }
  *at(slice).version = version;
  kept->done = version;
  kept->due.reset();
  // Setting `newest` says that all files in the folder are this program's, also those that it kept
  // under an earlier controller.
  kept->newest.reset();
  if (version != StateVersion()) kept->newest = version;
}

std::vector<StateVersion> Checkpoints::on_disk(SessionId session) const {
  const std::string folder = cat(options_.folder, "/", place_of(session));
  std::error_code error;
  std::vector<StateVersion> versions;
  if (options_.folder.empty() || !std::filesystem::is_directory(folder, error)) return versions;
  const KeptPtr kept = kept_of(session);
  const uint64_t first = kept == nullptr ? 0 : kept->options.first;
  for (const int64_t step : CheckpointDir(folder).steps()) {
    const auto number = static_cast<uint64_t>(step);
    if (number > first) versions.emplace_back(number - first);
  }
  return versions;
}

}  // namespace gangway
