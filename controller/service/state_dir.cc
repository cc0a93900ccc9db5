#include "controller/service/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "controller/hosts/host_names.h"
#include "controller/programs/checkpoints.h"
#include "protocol/owner.h"
#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kHosts = "hosts.jsonl";
constexpr const char* kPrograms = "programs.jsonl";
constexpr const char* kRecords = "programs";
constexpr const char* kOlderPrograms = "programs.1.jsonl";
constexpr const char* kSetAside = "set_aside";
constexpr size_t kLineBytesMax = 16 << 10;
constexpr size_t kShownMax = 64;  // Bytes of a line that messages quote.
constexpr size_t kFileBytesMax = 64 << 20;
constexpr size_t kRecordNameBytesMax = 240;  // File systems take 255; replace_whole() adds 13.

bool is_there(const fs::path& path) {
  std::error_code error;
  const bool is_known = fs::exists(path, error);
  if (error) fail_file("look at", path, error.value());
  return is_known;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& hint,
                         ErrorKind kind = ErrorKind::kInvalid) {
  throw Error(kind, cat("state folder: ", where, " ", what), {}, hint);
}

[[noreturn]] void corrupt(const std::string& file, size_t line, const std::string& what) {
  refuse(cat(file, ":", line), cat("is corrupt: ", what),
         "put a copy of the file back before the controller is started again");
}

// Parses a line as a JSON object.
Json object_at(const std::string& file, size_t line, std::string_view text) {
  if (text.size() > kLineBytesMax) corrupt(file, line, "the line is too long");
  Json object = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    corrupt(file, line, cat("expected a JSON object, got ", cut(std::string(text), kShownMax)));
  return object;
}

std::string text_at(const std::string& file, size_t line, const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    corrupt(file, line, cat("expected a text \"", key, "\""));
  return found->get<std::string>();
}

// Parses the first line, and checks that it has this kind and the version of this controller.
Json header_of(const std::string& file, std::string_view first, const char* kind) {
  Json header = object_at(file, 1, first);
  if (text_at(file, 1, header, "gangway") != kind)
    corrupt(file, 1, cat("expected a file of ", kind));
  const auto version = header.find("version");
  if (version == header.end() || !version->is_number_integer())
    corrupt(file, 1, "expected a whole number \"version\"");
  if (*version != StateDir::kVersion) {
    refuse(file,
           cat("is of version ", version->dump(), ": this controller reads and writes version ",
               StateDir::kVersion),
           "start the Gangway that wrote it, or choose another folder with --state-dir",
           ErrorKind::kUnimplemented);
  }
  return header;
}

std::string header(const char* kind) {
  return cat(R"({"gangway":")", kind, R"(","version":)", StateDir::kVersion);
}

std::string record_name(const std::string& owner, const std::string& name) {
  std::string whole = cat(Checkpoints::escaped(owner), ".", Checkpoints::escaped(name));
  if (whole.size() <= kRecordNameBytesMax) return whole;
  const std::string hash = content_hash(cat(owner, "/", name));
  return cat(whole.substr(0, kRecordNameBytesMax - hash.size() - 1), "~", hash);
}

// Why the file can't be read. None: `read` succeeded. Throws for a file of another version, since
// that is not corrupt: the user has to choose another folder, or another controller.
std::optional<Error> why_unreadable(const std::function<void()>& read) {
  try {
    read();
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kUnimplemented) throw;
    return error;
  }
}

struct Closes {
  int file;
  ~Closes() { ::close(file); }
};

void write_whole(int file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail_file("write", path, count < 0 ? errno : ENOSPC);
    text.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace

std::string print_hosts(std::span<const KeptHost> hosts) {
  std::string text = cat(header("hosts"), ",\"hosts\":", hosts.size(), "}\n");
  for (const KeptHost& host : hosts) {
    const Json line = {{"name", host.name}, {"owner", host.owner}};
    text += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  return text;
}

std::vector<KeptHost> parse_hosts(std::string_view text, const std::string& file) {
  std::vector<KeptHost> hosts;
  std::set<std::string> names;
  size_t line = 0;
  uint64_t promised = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = text.find('\n');
    if (end == text.npos) corrupt(file, line, "the line has no end");
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line == 1) {
      const Json header = header_of(file, one, "hosts");
      const auto count = header.find("hosts");
      if (count == header.end() || !count->is_number_unsigned())
        corrupt(file, line, "expected a number of \"hosts\"");
      promised = count->get<uint64_t>();
      continue;
    }
    const Json object = object_at(file, line, one);
    KeptHost host{.name = text_at(file, line, object, "name"),
                  .owner = text_at(file, line, object, "owner")};
    if (host.name.empty() || host.name.size() > kTextBytesMax)
      corrupt(file, line, "expected a name of a host");
    if (!is_owner_name(host.owner)) corrupt(file, line, "expected an owner's name");
    if (!names.insert(host.name).second)
      corrupt(file, line, cat("the name \"", cut(host.name, kQuotedBytesMax), "\" is there twice"));
    hosts.push_back(std::move(host));
  }
  if (line == 0) corrupt(file, 1, "it is empty");
  if (hosts.size() != promised)
    corrupt(file, line, cat("expected ", promised, " hosts, got ", hosts.size()));
  return hosts;
}

StateDir::StateDir(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  fs::create_directories(folder_, error);
  std::error_code unread;
  if (!fs::is_directory(folder_, unread)) {
    refuse(folder_.string(), cat("can't be made a folder: ", error.message()),
           "choose another one with --state-dir");
  }
  lock();
  try {
    read_hosts();
    read_log_header();
    read_programs();
    require_writable(folder_);
    if (is_there(folder_ / kRecords)) require_writable(folder_ / kRecords);
    set_aside_files();
    remove_left_over_files();
  } catch (...) {
    ::close(folder_fd_);
    throw;
  }
}

StateDir::~StateDir() { ::close(folder_fd_); }

void StateDir::lock() {
  folder_fd_ = ::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_fd_ < 0) fail_file("open the state folder", folder_, errno);
  if (flock(folder_fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int number = errno;
  ::close(folder_fd_);
  if (number != EWOULDBLOCK) fail_file("lock the state folder", folder_, number);
  refuse(folder_.string(), "is in use by another controller",
         "end that one, or choose another folder with --state-dir");
}

void StateDir::read_hosts() {
  const fs::path file = folder_ / kHosts;
  if (!is_there(file)) return;
  const auto why =
      why_unreadable([&] { hosts_ = parse_hosts(read_whole(file, kFileBytesMax), file.string()); });
  if (why) set_aside_.push_back({file, {}, why->message()});
}

void StateDir::read_log_header() {
  const fs::path file = folder_ / kPrograms;
  if (!is_there(file)) return;
  const auto why = why_unreadable([&] {
    errno = 0;
    std::ifstream in(file);
    std::string first;
    if (!std::getline(in, first) && !in.eof()) fail_file("read", file, errno != 0 ? errno : EIO);
    header_of(file.string(), first, "programs");
  });
  if (why) set_aside_.push_back({file, {}, why->message()});
}

ProgramRecord StateDir::read_program(const fs::path& file) const {
  ProgramRecord program = parse_record(read_whole(file, ProgramRecord::kBytesMax), file.string());
  if (record_name(program.owner, program.name) != file.filename())
    refuse(file.string(), cat("is of the program \"", program.name, "\" of ", program.owner),
           "give it back the name that it had");
  return program;
}

// Sorted, so that the order does not depend on the file system.
void StateDir::read_programs() {
  const fs::path folder = folder_ / kRecords;
  if (!is_there(folder)) return;
  std::error_code error;
  std::vector<fs::path> files;
  fs::directory_iterator entries(folder, error), end;
  for (; !error && entries != end; entries.increment(error)) files.push_back(entries->path());
  if (error) fail_file("read the folder", folder, error.value());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (is_left_over(file.filename().string()) || file.filename() == ".trial") continue;
    const auto why = why_unreadable([&] { programs_.push_back(read_program(file)); });
    if (why) set_aside_.push_back({file, {}, why->message()});
  }
}

// Files that an earlier start set aside are not overwritten.
void StateDir::set_aside_files() {
  if (set_aside_.empty()) return;
  const fs::path folder = folder_ / kSetAside;
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail_file("create", folder, errno);
  for (SetAside& file : set_aside_) {
    const std::string name = file.was.filename();
    file.is = folder / name;
    for (int number = 2; is_there(file.is); ++number) file.is = folder / cat(name, "~", number);
    if (rename(file.was.c_str(), file.is.c_str()) != 0) fail_file("rename", file.was, errno);
    sync_folder(file.was.parent_path());
  }
  sync_folder(folder);
}

// A controller was killed while it wrote them.
void StateDir::remove_left_over_files() {
  for (const fs::path& folder : {folder_, folder_ / kRecords}) {
    std::error_code error;
    fs::directory_iterator entries(folder, error), end;
    for (; !error && entries != end; entries.increment(error)) {
      if (is_left_over(entries->path().filename().string())) ::unlink(entries->path().c_str());
    }
  }
}

void StateDir::require_writable(const fs::path& folder) const {
  const fs::path trial = folder / ".trial";
  const int file = ::open(trial.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) {
    refuse(folder.string(), cat("can't be written: ", std::strerror(errno)),
           "make it writable for the user who runs the controller, or choose another one with "
           "--state-dir");
  }
  ::close(file);
  ::unlink(trial.c_str());
}

void StateDir::write_hosts(std::span<const KeptHost> hosts) {
  replace_whole(folder_ / kHosts, print_hosts(hosts));
}

void StateDir::write_program(const std::string& owner, const std::string& name,
                             std::string_view text) {
  const fs::path folder = folder_ / kRecords;
  if (mkdir(folder.c_str(), 0700) == 0) {
    sync_folder(folder_);
  } else if (errno != EEXIST) {
    fail_file("create", folder, errno);
  }
  const fs::path path = folder / record_name(owner, name);
  replace_whole(path, text, FileAccess::kOwnerOnly);
}

void StateDir::remove_program(const std::string& owner, const std::string& name) {
  const fs::path path = folder_ / kRecords / record_name(owner, name);
  if (::unlink(path.c_str()) != 0) {
    if (errno == ENOENT) return;
    fail_file("remove", path, errno);
  }
  sync_folder(folder_ / kRecords);
}

void StateDir::append_to_programs(std::string_view lines) {
  const fs::path path = folder_ / kPrograms;
  std::error_code error;
  uintmax_t size = fs::file_size(path, error);
  if (error == std::errc::no_such_file_or_directory) {
    size = 0;
  } else if (error) {
    fail_file("look at", path, error.value());
  }
  if (size + lines.size() > kProgramsBytesMax && size > 0) {
    fs::rename(path, folder_ / kOlderPrograms, error);
    if (error) fail_file("rename", path, error.value());
    size = 0;
  }
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) fail_file("open", path, errno);
  const Closes closes{file};
  char last = '\n';
  if (size > 0 && pread(file, &last, 1, static_cast<off_t>(size) - 1) != 1)
    fail_file("read", path, errno);
  // A controller that was killed, or a full disk, may have left half a line.
  if (last != '\n') write_whole(file, "\n", path);
  if (size == 0) write_whole(file, header("programs") + "}\n", path);
  write_whole(file, lines, path);
  if (fdatasync(file) != 0) fail_file("sync", path, errno);
  if (size == 0) sync_folder(folder_);
}

}  // namespace gangway
