#include "executor/checkpoints/checkpoint_store.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>

#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/tensor_files.h"
#include "protocol/recovery_options.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;
using Flag = std::shared_ptr<const std::atomic<bool>>;

void require_wanted(const Flag& stop) {
  if (stop->load(std::memory_order_relaxed))
    throw Error(ErrorKind::kCancelled, "checkpoint: the controller has gone");
}

void require_fits(const StoredTensor& tensor, uint64_t segment_bytes) {
  GW_REQUIRE(!tensor.name.empty() && tensor.name.size() <= kTextBytesMax, "checkpoint: tensor \"",
             cut(tensor.name, kQuotedBytesMax), "\": expected a name of 1 to ", kTextBytesMax,
             " bytes, got ", tensor.name.size());
  GW_REQUIRE(is_valid(tensor.type), "checkpoint: tensor \"", cut(tensor.name, kQuotedBytesMax),
             "\": its shape is beyond all bounds");
  const auto bytes = static_cast<uint64_t>(tensor.type.bytes());
  GW_REQUIRE(tensor.offset >= 0 && bytes <= segment_bytes &&
                 static_cast<uint64_t>(tensor.offset) <= segment_bytes - bytes,
             "checkpoint: tensor \"", cut(tensor.name, kQuotedBytesMax), "\", ",
             to_string(tensor.type), ": expected it in a segment of ", segment_bytes,
             " bytes, got it at ", tensor.offset);
}

void require_fits(const CheckpointFiles& files, uint64_t segment_bytes) {
  const fs::path folder(files.folder);
  GW_REQUIRE(folder.is_absolute() && folder.lexically_normal() == folder,
             "checkpoint: expected an absolute path of a folder, got \"",
             cut(files.folder, kQuotedBytesMax), "\"");
  GW_REQUIRE(files.version <= static_cast<uint64_t>(INT64_MAX), "checkpoint: version ",
             files.version, " is beyond all bounds");
  GW_REQUIRE(!files.tensors.empty() && files.tensors.size() <= CheckpointStore::kTensorsMax,
             "checkpoint: expected 1 to ", CheckpointStore::kTensorsMax, " tensors, got ",
             files.tensors.size());
  for (const StoredTensor& tensor : files.tensors) require_fits(tensor, segment_bytes);
}

std::span<std::byte> bytes_of(const StoredTensor& tensor, const SharedSegment& segment) {
  return {segment.data() + tensor.offset, static_cast<size_t>(tensor.type.bytes())};
}

std::vector<std::span<std::byte>> pieces_of(std::span<std::byte> bytes) {
  std::vector<std::span<std::byte>> pieces;
  for (size_t at = 0; at < bytes.size(); at += CheckpointStore::kPieceBytes)
    pieces.push_back(bytes.subspan(at, std::min(CheckpointStore::kPieceBytes, bytes.size() - at)));
  return pieces;
}

// Only the user may read what programs have learnt.
void make_private_folders(const fs::path& folder) {
  fs::path at;
  for (const fs::path& part : folder) {
    at /= part;
    if (mkdir(at.c_str(), 0700) != 0 && errno != EEXIST) fail_file("create", at, errno);
  }
}

// Whether the newest checkpoint there was written by this program: an executor that wrote it may
// have ended before it reported that. A folder that can't be read, because its link `latest` names
// nothing, counts as another program's and is set aside: else the program would never have a
// checkpoint.
bool is_own(const CheckpointFiles& files) {
  const auto own = files.metadata.find(kProgramKey);
  if (own == files.metadata.end()) return false;
  const Result<std::string> theirs = result_of([&]() -> std::string {
    const auto newest = CheckpointDir(files.folder).latest();
    if (!newest) return {};
    const TensorFiles found = TensorFiles::open(*newest);
    const auto at = found.metadata().find(kProgramKey);
    return at == found.metadata().end() ? std::string() : at->second;
  });
  return theirs.ok() && theirs.value() == own->second;
}

// Folders of an owner's programs have one parent folder.
void require_room_of_owner(const CheckpointFiles& files, uint64_t bytes) {
  if (files.owner_bytes_max == UINT64_MAX) return;
  const fs::path owner = fs::path(files.folder).parent_path();
  const uint64_t used = bytes_below(owner);
  if (used <= files.owner_bytes_max && bytes <= files.owner_bytes_max - used) return;
  throw Error(ErrorKind::kOverloaded,
              cat("checkpoint: files below ", owner.string(), " have ", format_bytes(used),
                  ", and this checkpoint ", format_bytes(bytes), ": expected at most ",
                  format_bytes(files.owner_bytes_max), " in all, the owner's quota"),
              {},
              "remove those of programs that have ended (gangway checkpoint rm), or ask who runs "
              "the controller for more (checkpoint_bytes of its --config)");
}

// Sets aside the checkpoints of an earlier program of that name, whose versions were counted from 0
// too. They get a number that no other has: a program that is started again by mistake replaces
// none of them.
void set_aside(const CheckpointFiles& files) {
  const fs::path folder = files.folder;
  std::error_code error;
  if (!fs::exists(folder, error) || CheckpointDir(folder).steps().empty() || is_own(files)) return;
  fs::path aside;
  for (int number = 1; aside.empty() || fs::exists(fs::symlink_status(aside, error)); ++number)
    aside = cat(folder.string(), "~", number);
  fs::rename(folder, aside, error);
  if (error) fail_file("rename to", aside, error.value());
}

std::string write_file(const fs::path& path, const TensorFilePlan& plan,
                       const CheckpointFiles& files,
                       const std::map<std::string, const StoredTensor*>& by_name,
                       const SharedSegment& segment, const Flag& stop) {
  SafetensorsWriter out(path, plan.tensors, files.metadata);
  for (const TensorEntry& tensor : out.tensors()) {
    const std::string& name = tensor.spec.name;
    for (const auto piece : pieces_of(bytes_of(*by_name.at(name), segment))) {
      require_wanted(stop);
      out.append(name, piece);
    }
  }
  return out.finish();
}

void write_files(const CheckpointFiles& files, const SharedSegment& segment, const Flag& stop) {
  std::vector<TensorSpec> specs;
  std::map<std::string, const StoredTensor*> by_name;
  int64_t bytes = 0;
  for (const StoredTensor& tensor : files.tensors) {
    GW_REQUIRE(by_name.emplace(tensor.name, &tensor).second,
               "checkpoint: two tensors are called \"", cut(tensor.name, kQuotedBytesMax), "\"");
    specs.push_back({tensor.name, to_file_dtype(tensor.type.dtype), tensor.type.dims});
    bytes += tensor.type.bytes();
  }
  require_room_of_owner(files, static_cast<uint64_t>(bytes));
  if (files.known == 0) set_aside(files);
  make_private_folders(files.folder);
  CheckpointDir directory(files.folder);
  PendingCheckpoint pending = directory.begin(static_cast<int64_t>(files.version));
  const auto count = static_cast<int>(bytes / CheckpointStore::kFileBytes) + 1;
  std::vector<TensorFilePlan> plan = {TensorFilePlan{kModelFile, specs}};
  if (count > 1) plan = plan_tensor_files(specs, count);
  FileHashes hashes;
  for (const TensorFilePlan& file : plan)
    hashes[file.name] =
        write_file(pending.folder() / file.name, file, files, by_name, segment, stop);
  if (count > 1) write_tensor_index(pending.folder(), plan);
  write_file_hashes(pending.folder(), hashes);
  require_wanted(stop);
  pending.commit();
  directory.prune(files.keep, static_cast<int64_t>(files.known));
}

// Returns the tensors that are missing, of those that may be.
std::vector<std::string> read_files(const CheckpointFiles& files, const SharedSegment& segment,
                                    const Flag& stop) {
  std::error_code error;
  GW_REQUIRE(fs::is_directory(files.folder, error), "checkpoint: there is no folder ",
             files.folder);
  const fs::path folder =
      CheckpointDir(files.folder).folder_of(static_cast<int64_t>(files.version));
  GW_REQUIRE(fs::is_directory(folder, error), "checkpoint: there is no ", folder.string());
  const TensorFiles found = TensorFiles::open(folder);
  std::vector<std::string> missing;
  std::vector<StoredTensor> wanted;
  for (const StoredTensor& tensor : files.tensors) {
    if (tensor.may_be_missing && !found.tensors().contains(tensor.name)) {
      missing.push_back(tensor.name);
    } else {
      wanted.push_back(tensor);
    }
  }
  for (const StoredTensor& tensor : wanted) {
    const TensorView& view = found.at(tensor.name);
    const TensorSpec expected{tensor.name, to_file_dtype(tensor.type.dtype), tensor.type.dims};
    GW_REQUIRE(*view.spec == expected, "checkpoint: ", folder.string(), ": tensor \"", tensor.name,
               "\": expected ", to_string(tensor.type), ", got ", to_string(view.spec->dtype),
               to_string(Dims(view.spec->shape)));
  }
  TensorFiles::Places places;
  for (const StoredTensor& tensor : wanted) places[tensor.name] = bytes_of(tensor, segment);
  found.read(places, [&] { require_wanted(stop); });
  return missing;
}

}  // namespace

CheckpointStore::~CheckpointStore() {
  stop_->store(true, std::memory_order_relaxed);
  background_.stop();
}

CheckpointStore::Segment CheckpointStore::make_segment(uint64_t bytes) {
  GW_REQUIRE(bytes >= 1 && bytes <= kSegmentBytesMax, "checkpoint: expected a segment of 1 to ",
             kSegmentBytesMax, " bytes, got ", bytes);
  if (segments_.size() >= kSegmentsMax)
    throw Error(ErrorKind::kOverloaded,
                cat("checkpoint: this executor has ", segments_.size(), " segments already"), {},
                "try again when other programs' checkpoints are written");
  const auto segment = std::make_shared<const SharedSegment>(SharedSegment::create(bytes));
  segments_.emplace(++last_, segment);
  return {last_, segment->descriptor()};
}

// In the background: giving gigabytes back takes long, too.
void CheckpointStore::close_segment(uint64_t number) {
  const auto found = segments_.find(number);
  if (found == segments_.end()) return;
  static_cast<void>(freeing_.start([memory = std::move(found->second)] {}));
  segments_.erase(found);
}

std::shared_ptr<const SharedSegment> CheckpointStore::find(uint64_t segment) const {
  const auto found = segments_.find(segment);
  GW_REQUIRE(found != segments_.end(), "checkpoint: there is no segment ", segment);
  return found->second;
}

void CheckpointStore::write(uint64_t segment, CheckpointFiles files) {
  auto memory = find(segment);
  require_fits(files, memory->size());
  GW_REQUIRE(files.keep >= 1 && files.keep <= kCheckpointsKeptMax,
             "checkpoint: expected to keep 1 to ", kCheckpointsKeptMax, ", got ", files.keep);
  background_.run([files = std::move(files), memory = std::move(memory), stop = Flag(stop_)] {
    write_files(files, *memory, stop);
  });
}

std::vector<std::string> CheckpointStore::read(uint64_t segment, CheckpointFiles files) {
  auto memory = find(segment);
  require_fits(files, memory->size());
  return background_.run([files = std::move(files), memory = std::move(memory),
                          stop = Flag(stop_)] { return read_files(files, *memory, stop); });
}

}  // namespace gangway
