#include "controller/recovery/checkpoints.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <span>

#include "checkpoint/checkpoint_dir.h"
#include "runtime/base/align.h"
#include "runtime/base/cut.h"
#include "runtime/base/hash.h"
#include "runtime/fibers/kj_error.h"
#include "runtime/os/random_bytes.h"

namespace gangway {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kPauseNs = 1'000'000'000;  // After one that could not be written.
constexpr size_t kFolderNameBytesMax = 200;  // File systems take 255, and some is added.

std::string hash_of(const std::string& text) {
  Hasher hasher;
  hasher.add(text);
  return to_string(hasher.finish());
}

// Sessions of an earlier controller had the same numbers. A simulation is to repeat itself.
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
  StateVersion tried;  // Nothing is written of it any more, nor of earlier ones.
  std::optional<StateVersion> newest;
  std::string program_id;
  bool is_watching = false;  // The version that comes next is waited for, or was tried before.
  StopSource stop;           // The slice has gone.
  WaitQueue changed;

  // Which its folder has.
  uint64_t number_of(StateVersion version) const { return options.first + version.value; }
  void begin_watching() {
    is_watching = true;
    changed.wake_all();
  }
};

// A segment of one host, while this lives.
class Checkpoints::Memory {
 public:
  // Suspends.
  Memory(HostTable& hosts, HostId host, uint64_t bytes)
      : hosts_(hosts), host_(host), segment_(peer().make_segment(bytes).take(gone())) {}
  ~Memory() {
    const HostRecord* const host = hosts_.find(host_);
    if (host != nullptr && !host->lost) host->peer->checkpoints()->close_segment(segment_.number);
  }
  Memory(const Memory&) = delete;

  const SegmentDescriptor& descriptor() const { return segment_.descriptor; }
  bool is_gone() const {
    const HostRecord* const host = hosts_.find(host_);
    return host == nullptr || host->lost.has_value();
  }
  StopToken gone() const {
    hosts_.require_alive(host_);
    return hosts_.at(host_).gone.token();
  }
  // Both suspend.
  void write(const CheckpointFiles& files) {
    peer().write_checkpoint(segment_.number, files).await(gone());
  }
  void read(const CheckpointFiles& files) {
    peer().read_checkpoint(segment_.number, files).await(gone());
  }

 private:
  CheckpointPeer& peer() const {
    hosts_.require_alive(host_);
    return *hosts_.at(host_).peer->checkpoints();
  }

  HostTable& hosts_;
  const HostId host_;
  const CheckpointPeer::Segment segment_;
};

Checkpoints::Checkpoints(Reactor& reactor, HostTable& hosts, SliceTable& slices, RunTable& runs,
                         CopyTable& copies, Callbacks callbacks, Options options)
    : reactor_(reactor),
      hosts_(hosts),
      slices_(slices),
      runs_(runs),
      copies_(copies),
      callbacks_(std::move(callbacks)),
      options_(std::move(options)),
      fibers_(reactor) {}

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

void Checkpoints::keep(SessionId session, SliceId slice, RecoveryOptions options) {
  require_recovery(options);
  GW_REQUIRE(!options_.folder.empty(), "keep_checkpoints: this controller has no folder for them: ",
             "expected one that was started with --checkpoint-dir or --state-dir");
  SliceRecord& record = slices_.at(slice, session);
  GW_REQUIRE(!record.placed_states.empty(), "keep_checkpoints: no program that has states is ",
             "compiled on the slice yet");
  for (const SliceRecord* other : slices_.all_of(session)) {
    GW_REQUIRE(other == &record || !other->recovery,
               "keep_checkpoints: those of another slice of this program are kept already");
  }
  const KeptPtr known = kept_of(session);
  GW_REQUIRE(
      known == nullptr || known->options.first == options.first,
      "keep_checkpoints: those of this program are numbered from another version on: expected ",
      known->options.first, ", got ", options.first);
  record.recovery = options;
  if (const auto found = kept_.find(slice); found != kept_.end()) {
    found->second->options = std::move(options);
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
  // Runs that are submitted from now on come behind the place that is watched for.
  while (!kept->is_watching) kept->changed.wait("for checkpoints to begin");
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
}

SliceRecord& Checkpoints::at(SliceId slice) {
  SliceRecord* const record = slices_.find(slice);
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
    if (!state.stacked) {
      layout.tensors.push_back({name, state.type, offset});
      continue;
    }
    Type layer = state.type;
    layer.dims.erase(layer.dims.begin());
    for (int64_t row = 0; row < state.stacked->count; ++row)
      layout.tensors.push_back(
          {layer_name(name, *state.stacked, row), layer, offset + row * layer.bytes()});
  }
  layout.bytes = static_cast<uint64_t>(std::max<int64_t>(end, 1));
  return layout;
}

HostId Checkpoints::worker(const SliceRecord& slice) const {
  for (const DeviceRef& device : slice.devices) {
    const HostRecord* const host = hosts_.find(device.host);
    if (host != nullptr && !host->lost && host->peer->checkpoints() != nullptr) return device.host;
  }
  throw Error(ErrorKind::kUnavailable, "checkpoint: no host of the slice is left to write it");
}

StateVersion Checkpoints::next_version(const Kept& kept, const SliceRecord& slice) {
  const uint64_t reached = std::max(slice.version->value, kept.tried.value);
  return StateVersion((reached / kept.options.every + 1) * kept.options.every);
}

void Checkpoints::serve(const KeptPtr& kept) {
  while (true) {
    const SliceRecord* const slice = slices_.find(kept->slice);
    if (slice == nullptr || kept->stop.stop_requested()) return;
    if (slice->is_moving) {
      kept->changed.wait("for a program that lost a host");
      continue;
    }
    const StateVersion version = next_version(*kept, *slice);
    const Result<Outcome> outcome = result_of([&] { return write(*kept, version); });
    if (outcome.ok()) {
      if (outcome.value() != Outcome::kHostGone) kept->tried = std::max(kept->tried, version);
      continue;
    }
    const Error& why = outcome.error();
    if (why.kind() == ErrorKind::kCancelled || kept->stop.stop_requested() ||
        callbacks_.place_of(kept->session).empty())
      return;
    if (slices_.find(kept->slice)->is_moving) continue;
    kept->tried = std::max(kept->tried, version);
    kept->begin_watching();
    callbacks_.warn(kept->session,
                    cat("checkpoint of version ", version, " was not written: ", why.message(),
                        "; the program goes ", "on, and the next one is tried"));
    kept->changed.wait_until_ns("after a checkpoint that failed",
                                reactor_.clock().now_ns() + kPauseNs);
  }
}

Checkpoints::Outcome Checkpoints::write(Kept& kept, StateVersion version) {
  const SliceRecord& slice = at(kept.slice);
  Layout layout = lay_out(slice);
  Memory memory(hosts_, worker(slice), layout.bytes);
  StopSource stop;
  const auto end = [&stop](const Error& why) { stop.request_stop(why); };
  const StopRegistration on_slice = kept.stop.token().on_stop(end);
  const StopRegistration on_host = memory.gone().on_stop(end);
  kept.begin_watching();
  const Result<StatesRead> came = result_of([&] {
    return callbacks_.read(kept.session,
                           {kept.slice, version, memory.descriptor(), std::move(layout.parts)},
                           stop.token());
  });
  // What was copied is lost with its host; another one may do it.
  if (!came.ok() && memory.is_gone() && !kept.stop.stop_requested() &&
      came.error().kind() != ErrorKind::kCancelled)
    return Outcome::kHostGone;
  if (!came.ok()) throw Error(came.error());
  if (came.value().how == StatesRead::How::kPast) return Outcome::kPast;
  if (came.value().how == StatesRead::How::kAgain) return Outcome::kHostGone;
  const std::string place = callbacks_.place_of(kept.session);
  if (place.empty()) throw Error(ErrorKind::kCancelled, "checkpoint: its program has ended");
  if (is_ending_) throw Error(ErrorKind::kCancelled, "checkpoint: its controller ends");
  CheckpointFiles files{.folder = cat(options_.folder, "/", place),
                        .version = kept.number_of(version),
                        .tensors = std::move(layout.tensors),
                        .keep = kept.options.keep,
                        .known = kept.newest ? kept.number_of(*kept.newest) : 0,
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
  callbacks_.written(kept.session, version);
  if (on_written_ && !kept.stop.stop_requested()) on_written_(kept.slice, version);
  return Outcome::kWritten;
}

void Checkpoints::put_states(const SliceRecord& slice, const Layout& layout,
                             const SegmentDescriptor& from) {
  struct Puts {
    size_t under_way = 0;
    std::optional<Error> failed;
    WaitQueue changed;
  };
  const auto puts = std::make_shared<Puts>();
  const SliceId id = slice.id;
  const SessionId session = slice.owner;
  const auto one_ended = [puts](const CopyDoneFrame& done) {
    --puts->under_way;
    if (done.error && !puts->failed) puts->failed = done.error;
    puts->changed.wake_all();
  };
  puts->under_way = layout.parts.size();
  for (const Part& part : layout.parts) {
    runs_.in_order(session, {id.value}, [=, this](Ticket ticket) {
      const SliceRecord* const there = slices_.find(id);
      if (there == nullptr)
        return one_ended(
            {.error = Error(ErrorKind::kUnavailable, "checkpoint: its slice has gone")});
      copies_.copy_for(session, *there,
                       {.kind = CopyKind::kPutState,
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
    const Layout layout = lay_out(record);
    Memory memory(hosts_, worker(record), layout.bytes);
    memory.read({.folder = cat(options_.folder, "/", callbacks_.place_of(kept->session)),
                 .version = kept->number_of(version),
                 .tensors = layout.tensors});
    put_states(at(slice), layout, memory.descriptor());
  }
  *at(slice).version = version;
  kept->tried = version;
  // What lies beside it is of this program, also where an earlier controller kept it.
  if (version != StateVersion() && !kept->newest) kept->newest = version;
}

std::vector<StateVersion> Checkpoints::on_disk(SessionId session) const {
  const std::string folder = cat(options_.folder, "/", callbacks_.place_of(session));
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
