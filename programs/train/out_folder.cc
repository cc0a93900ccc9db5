#include "programs/train/out_folder.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

#include "checkpoint/checkpoint_dir.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"

namespace gangway::programs {
namespace {

namespace fs = std::filesystem;

constexpr int kNumberMax = 100'000;
constexpr const char* kLock = ".lock";
constexpr const char* kReplaced = "checkpoints.replaced";

// Returns "out/quickstart", "out/quickstart-2", "out/quickstart-3" ...
fs::path numbered(const fs::path& path, int number) {
  return number == 1 ? path : fs::path(cat(path.string(), "-", number));
}

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_file("create the folder", folder, error.value());
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail_file("remove", folder, error.value());
}

void rename_folder(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_file("rename to", to, error.value());
}

bool has_any(const fs::path& checkpoints) {
  return CheckpointDir(checkpoints).latest().has_value();
}

bool has_checkpoints(const fs::path& out) {
  return has_any(out / "checkpoints") || has_any(out / kReplaced);
}

// A training that was killed before its first checkpoint was written has replaced no other.
void put_replaced_back(const fs::path& out) {
  const fs::path checkpoints = out / "checkpoints", aside = out / kReplaced;
  if (has_any(checkpoints) || !has_any(aside)) return;
  remove_folder(checkpoints);
  rename_folder(aside, checkpoints);
}

[[noreturn]] void refuse_foreign_checkpoints(const fs::path& out) {
  throw Error(ErrorKind::kInvalid,
              cat("train: ", out.string(), " has checkpoints of another training, the newest in ",
                  CheckpointDir(out / "checkpoints").latest().value_or("").string()),
              {},
              "go on from them with --resume, choose another folder with --out, or have them "
              "removed with --replace, once the first new checkpoint is written");
}

// Returns N for "quickstart-N", 1 for "quickstart" itself, and 0 for other names.
int number_of(const std::string& name, const std::string& usual) {
  if (name == usual) return 1;
  if (!name.starts_with(usual + "-")) return 0;
  int number = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + usual.size() + 1, end, number);
  const bool is_number = error == std::errc() && rest == end && number > 1;
  return is_number && name == cat(usual, "-", number) ? number : 0;
}

}  // namespace

OutFolder::OutFolder(const OutOptions& options) {
  GW_REQUIRE(!options.resume || !options.replace, "train: ", options.path.string(),
             ": checkpoints that are gone on from can't be replaced: expected one of the two");
  for (int number = 1; number <= kNumberMax; ++number) {
    path_ = numbered(options.path, number);
    if (options.take_next_free && has_checkpoints(path_)) continue;
    create_folder(path_);
    lock_.emplace(path_ / kLock);
    // Checks again, since another training may have ended here meanwhile.
    if (lock_->is_held() && !(options.take_next_free && has_checkpoints(path_))) break;
    if (options.take_next_free) continue;
    throw Error(ErrorKind::kInvalid,
                cat("train: ", path_.string(), " is being written to by ", lock_->holder()), {},
                "wait until it has ended, or choose another folder with --out");
  }
  GW_REQUIRE(lock_ && lock_->is_held(), "train: ", options.path.string(), " to ", path_.string(),
             " all have checkpoints: say which folder to take with --out");
  put_replaced_back(path_);
  const bool is_taken = has_checkpoints(path_);
  GW_REQUIRE(is_taken || !options.resume, "train: there is no checkpoint to go on from under ",
             checkpoints().string());
  if (is_taken && !options.resume && !options.replace) refuse_foreign_checkpoints(path_);
  replaces_ = is_taken && options.replace;
}

fs::path OutFolder::save(const std::function<fs::path()>& write) {
  if (!replaces_) return write();
  const fs::path aside = path_ / kReplaced;
  remove_folder(aside);
  rename_folder(checkpoints(), aside);
  try {
    fs::path written = write();
    replaces_ = false;
    remove_folder(aside);
    return written;
  } catch (...) {
    if (replaces_) {
      remove_folder(checkpoints());
      rename_folder(aside, checkpoints());
    }
    throw;
  }
}

std::vector<fs::path> folders_with_checkpoints(const fs::path& path) {
  const std::string usual = path.filename().string();
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::pair<int, fs::path>> found;
  std::error_code error;
  fs::directory_iterator entries(parent, error), end;
  for (; !error && entries != end; entries.increment(error)) {
    const int number = number_of(entries->path().filename().string(), usual);
    if (number > 0 && has_checkpoints(numbered(path, number)))
      found.emplace_back(number, numbered(path, number));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    fail_file("list", parent, error.value());
  std::ranges::sort(found);
  std::vector<fs::path> folders;
  for (auto& [number, folder] : found) folders.push_back(std::move(folder));
  return folders;
}

}  // namespace gangway::programs
