#include "checkpoint/checkpoint_dir.h"

#include <fcntl.h>
#include <stdio.h>

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

// The step of a folder's name; nothing for names that step_name() would not return.
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
  if (error) fail_file("list", folder, error.value());
  return names;
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (rename(from.c_str(), to.c_str()) != 0) fail_file("rename to", to, errno);
}

}  // namespace

PendingCheckpoint::PendingCheckpoint(fs::path root, int64_t step)
    : root_(std::move(root)), step_(step) {
  fs::path folder = root_ / (std::string(kPartialPrefix) + step_name(step));
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
    // The old folder gets the partial name: there is a whole one under the step's name all the
    // time, and the destructor removes the other.
    if (renameat2(AT_FDCWD, folder_.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
      fail_file("replace", to, errno);
    }
  } else {
    rename_path(folder_, to);
    folder_.clear();
  }
  sync_folder(root_);

  fs::path link = root_ / (std::string(kPartialPrefix) + kLatest);
  fs::create_directory_symlink(step_name(step_), link, error);
  if (error) fail_file("create", link, error.value());
  rename_path(link, root_ / kLatest);
  sync_folder(root_);
  fs::remove_all(std::exchange(folder_, {}), error);
  return to;
}

CheckpointDir::CheckpointDir(fs::path root) : root_(std::move(root)) {
  std::error_code error;
  fs::create_directories(root_, error);
  if (error) fail_file("create", root_, error.value());
}

PendingCheckpoint CheckpointDir::begin(int64_t step) {
  GW_REQUIRE(step >= 0, "checkpoint: expected a step of at least 0, got ", step);
  for (const std::string& name : names_in(root_)) {
    std::error_code error;
    if (name.starts_with(kPartialPrefix)) fs::remove_all(root_ / name, error);
    if (error) fail_file("remove", root_ / name, error.value());
  }
  return PendingCheckpoint(root_, step);
}

std::optional<fs::path> CheckpointDir::latest() const {
  std::error_code error;
  fs::path link = root_ / kLatest;
  fs::path target = fs::read_symlink(link, error);
  if (error == std::errc::no_such_file_or_directory) return std::nullopt;
  if (error) fail_file("read the link", link, error.value());
  GW_REQUIRE(parse_step(target.string()), link.string(),
             ": the link does not name a checkpoint beside it: got ", target.string());
  GW_REQUIRE(fs::is_directory(root_ / target, error), link.string(), ": the checkpoint ",
             target.string(), " is missing");
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
  std::optional<fs::path> kept = latest();
  std::vector<int64_t> all = steps();
  for (size_t i = 0; i + static_cast<size_t>(keep) < all.size(); ++i) {
    fs::path folder = folder_of(all[i]);
    if (all[i] == needed || (kept && folder == *kept)) continue;
    // Renamed first: a crash half-way leaves no folder that looks whole.
    fs::path doomed = root_ / (std::string(kPartialPrefix) + step_name(all[i]));
    rename_path(folder, doomed);
    std::error_code error;
    fs::remove_all(doomed, error);
    if (error) fail_file("remove", doomed, error.value());
  }
}

}  // namespace gangway
