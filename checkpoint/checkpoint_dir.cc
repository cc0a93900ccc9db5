#include "checkpoint/checkpoint_dir.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatest = "latest";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartialPrefix = ".partial-";
constexpr size_t kStepDigits = 8;

std::string step_name(int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, kStepDigits - std::min(kStepDigits, digits.size()), '0');
  return std::string(kStepPrefix) + digits;
}

// Returns the step of a folder's name; empty for names that step_name() would not return.
std::optional<int64_t> parse_step(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* end = name.data() + name.size();
  auto [rest, error] = std::from_chars(name.data() + kStepPrefix.size(), end, step);
  if (error != std::errc() || rest != end || step < 0 || step_name(step) != name) {
    return std::nullopt;
  }
  return step;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    names.push_back(entries->path().filename().string());
  }
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) fail_file("list", folder, error.value());
  return names;
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail_file("rename to", to, errno);
}

// Returns a path with a random name. A process that is stopped while it writes, and goes on after
// another one has taken its place, therefore renames only its own folder.
fs::path partial_path(const fs::path& root, std::string_view name) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number))
    fail_file("name a new folder in", root, errno);
  return root / cat(kPartialPrefix, name, "-", number);
}

// A copy of the checkpoints may have a folder in the link's place.
void move_latest_folder_away(const fs::path& root) {
  std::error_code error;
  const fs::path latest = root / kLatest;
  if (fs::symlink_status(latest, error).type() != fs::file_type::directory) return;
  const fs::path doomed = partial_path(root, kLatest);
  rename_path(latest, doomed);
  fs::remove_all(doomed, error);
  if (error) fail_file("remove", doomed, error.value());
}

}  // namespace

// The library's recursive iterator is not used: it ends at a folder that has been removed
// meanwhile, and all files behind that one would count as nothing.
uint64_t bytes_below(const fs::path& folder) {
  std::error_code error;
  uint64_t bytes = 0;
  fs::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    std::error_code gone;
    const fs::file_status status = fs::symlink_status(entries->path(), gone);
    if (fs::is_directory(status)) bytes += bytes_below(entries->path());
    if (!fs::is_regular_file(status)) continue;
    const uintmax_t size = fs::file_size(entries->path(), gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

PendingCheckpoint::PendingCheckpoint(fs::path root, int64_t step)
    : root_(std::move(root)), step_(step) {
  fs::path folder = partial_path(root_, step_name(step));
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    fail_file("create", folder, error ? error.value() : EEXIST);
  }
  folder_ = folder;
}

PendingCheckpoint::PendingCheckpoint(PendingCheckpoint&& other) noexcept
    : root_(std::move(other.root_)),
      folder_(std::exchange(other.folder_, {})),
      step_(other.step_) {}

PendingCheckpoint::~PendingCheckpoint() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

fs::path PendingCheckpoint::commit() {
  GW_ASSERT(!folder_.empty());
  sync_folder(folder_);
  fs::path to = root_ / step_name(step_);
  std::error_code error;
  if (fs::exists(to, error)) {
    // The old folder gets the partial name, so that a whole folder has the step's name all the
    // time. The destructor removes the old one.
    if (renameat2(AT_FDCWD, folder_.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
      fail_file("replace", to, errno);
    }
  } else {
    rename_path(folder_, to);
    folder_.clear();
  }
  sync_folder(root_);

  const fs::path link = partial_path(root_, kLatest);
  fs::create_directory_symlink(step_name(step_), link, error);
  if (error) fail_file("create", link, error.value());
  move_latest_folder_away(root_);
  rename_path(link, root_ / kLatest);
  sync_folder(root_);
  fs::remove_all(std::exchange(folder_, {}), error);
  return to;
}

PendingCheckpoint CheckpointDir::begin(int64_t step) {
  GW_REQUIRE(step >= 0, "checkpoint: expected a step of at least 0, got ", step);
  std::error_code error;
  fs::create_directories(root_, error);
  if (error) fail_file("create", root_, error.value());
  for (const std::string& name : names_in(root_)) {
    if (name.starts_with(kPartialPrefix)) fs::remove_all(root_ / name, error);
    if (error) fail_file("remove", root_ / name, error.value());
  }
  return PendingCheckpoint(root_, step);
}

std::optional<fs::path> CheckpointDir::latest() const {
  std::error_code error;
  fs::path link = root_ / kLatest;  // Not const, so that it can be returned by moving.
  const fs::file_type type = fs::symlink_status(link, error).type();
  if (type == fs::file_type::not_found) {
    const std::vector<int64_t> all = steps();
    return all.empty() ? std::nullopt : std::optional(folder_of(all.back()));
  }
  if (type == fs::file_type::directory) return link;
  const fs::path target = fs::read_symlink(link, error);
  if (error) fail_file("read the link", link, error.value());
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::kInvalid, cat(link.string(), ": ", what), {},
                "remove the link to have the checkpoint of the highest step taken");
  };
  if (!parse_step(target.string()))
    refuse(cat("the link does not name a checkpoint beside it: got ", target.string()));
  if (!fs::is_directory(root_ / target, error))
    refuse(cat("the checkpoint ", target.string(), " is missing"));
  return root_ / target;
}

std::vector<int64_t> CheckpointDir::steps() const {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(root_)) {
    if (std::optional<int64_t> step = parse_step(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

fs::path CheckpointDir::folder_of(int64_t step) const { return root_ / step_name(step); }

void CheckpointDir::prune(int keep, std::optional<int64_t> needed) {
  GW_REQUIRE(keep >= 1, "checkpoint: expected to keep at least 1, got ", keep);
  const std::optional<fs::path> newest = latest();
  const std::optional<int64_t> newest_step =
      newest ? parse_step(newest->filename().string()) : std::nullopt;
  const std::vector<int64_t> all = steps();
  const auto places = static_cast<size_t>(keep);
  // Steps above the newest one are from before a training went back, and may be the damaged ones
  // that made it go back. They take no place of those that led to the newest.
  const auto led = static_cast<size_t>(
      newest_step ? std::ranges::upper_bound(all, *newest_step) - all.begin() : std::ssize(all));
  for (size_t i = 0; i + places < all.size(); ++i) {
    fs::path folder = folder_of(all[i]);
    if (all[i] == needed || (i < led && i + places >= led)) continue;
    // The rename comes first, so that a crash half-way leaves no folder that looks whole.
    const fs::path doomed = partial_path(root_, step_name(all[i]));
    rename_path(folder, doomed);
    std::error_code error;
    fs::remove_all(doomed, error);
    if (error) fail_file("remove", doomed, error.value());
  }
}

}  // namespace gangway
