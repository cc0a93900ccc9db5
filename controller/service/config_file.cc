#include "controller/service/config_file.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "protocol/owner.h"
#include "runtime/base/cut.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/line_counter.h"

namespace gangway {
namespace {

constexpr size_t kQuotedMax = 64;
constexpr size_t kConfigBytesMax = size_t{16} << 20;

// Takes the file's keys and numbers as they are read. Depth 1 holds sections, depth 2 owners or, in
// quota_of_others, sizes, and depth 3 the sizes of an owner.
class ConfigReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  ConfigReader(std::string file, const int& line) : file_(std::move(file)), line_(line) {}

  ControllerConfig config;

  bool start_object(size_t) override {
    if (depth_ > 0 && !is_object_key()) wrong("a number");
    if (Quota* quota = quota_at(depth_)) quota_ = quota;
    ++depth_;
    seen_.emplace_back();
    return true;
  }
  bool end_object() override {
    --depth_;
    seen_.pop_back();
    path_.resize(depth_ == 0 ? 0 : depth_ - 1);
    return true;
  }
  bool key(string_t& name) override {
    key_line_ = line_;
    path_.resize(depth_ - 1);
    path_.push_back(name);
    if (!seen_.back().insert(name).second) fail("is there twice");
    if (!is_known()) fail(cat("is not known: expected ", expected_keys()));
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (is_object_key()) wrong("an object");
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) wrong("a smaller number");
    take(static_cast<int64_t>(value));
    return true;
  }
  bool number_integer(number_integer_t) override { return wrong(expected_value()); }
  bool number_float(number_float_t, const string_t&) override { return wrong(expected_value()); }
  bool null() override { return wrong(expected_value()); }
  bool boolean(bool) override { return wrong(expected_value()); }
  bool string(string_t&) override { return wrong(expected_value()); }
  bool binary(binary_t&) override { return wrong(expected_value()); }
  bool start_array(size_t) override { return wrong(expected_value()); }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& why) override {
    throw Error(ErrorKind::kInvalid,
                cat("config: ", file_, ":", line_, ": is no JSON: ", cut(why.what(), 256)));
  }

 private:
  bool is_object_key() const {
    return path_.size() == 1 || (path_.size() == 2 && path_[0] == "quotas");
  }
  bool is_known() const {
    if (path_.size() == 1) return path_[0] == "quotas" || path_[0] == "quota_of_others";
    if (path_.size() == 2 && path_[0] == "quotas") return is_owner_name(path_[1]);
    return path_.back() == "devices" || path_.back() == "memory_bytes" ||
           path_.back() == "programs" || path_.back() == "controller_bytes" ||
           path_.back() == "checkpoint_bytes";
  }
  std::string expected_keys() const {
    if (path_.size() == 1) return "\"quotas\" or \"quota_of_others\"";
    if (path_.size() == 2 && path_[0] == "quotas") return "an owner's name";
    return "\"devices\", \"memory_bytes\", \"programs\", \"controller_bytes\" or "
           "\"checkpoint_bytes\"";
  }
  std::string expected_value() const {
    return path_.empty() || is_object_key() ? "an object" : "a whole number, 0 or more";
  }
  // The quota that the object at this depth of keys fills. Null if it is not a quota.
  Quota* quota_at(size_t depth) {
    if (depth == 1 && path_[0] == "quota_of_others") return &config.quotas.others;
    if (depth == 2 && path_[0] == "quotas") return &config.quotas.owners[path_[1]];
    return nullptr;
  }
  void take(int64_t value) {
    Quota& quota = *quota_;
    const std::string& size = path_.back();
    (size == "devices"            ? quota.devices
     : size == "memory_bytes"     ? quota.memory_bytes
     : size == "programs"         ? quota.programs
     : size == "controller_bytes" ? quota.controller_bytes
                                  : quota.checkpoint_bytes) = value;
    require_agree(quota);
  }
  // The error names the line of the key that completes the contradiction.
  void require_agree(const Quota& quota) const {
    const auto some = [](const std::optional<int64_t>& size) { return size && *size > 0; };
    if (quota.programs == 0 && (some(quota.devices) || some(quota.memory_bytes)))
      fail("contradicts its neighbours: no program may run, but devices or memory are for one");
    if (quota.devices == 0 && some(quota.memory_bytes))
      fail("contradicts its neighbours: memory is of devices, of which there are 0");
  }
  std::string path() const {
    std::string text;
    for (const std::string& key : path_) text += cat(text.empty() ? "" : ".", key);
    return text;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInvalid, cat("config: ", file_, ":", path_.empty() ? line_ : key_line_,
                                         ": key \"", cut(path(), kQuotedMax), "\" ", what));
  }
  [[noreturn]] bool wrong(const std::string& expected) const {
    fail(cat("has a value of the wrong kind: expected ", expected));
  }

  const std::string file_;
  const int& line_;
  int key_line_ = 1;
  size_t depth_ = 0;
  std::vector<std::string> path_;
  std::vector<std::set<std::string>> seen_;
  Quota* quota_ = nullptr;  // The one that is being read.
};

}  // namespace

ControllerConfig parse_config(const std::string& text, const std::string& file) {
  int line = 1;
  ConfigReader reader(file, line);
  const char* const begin = text.data();
  nlohmann::json::sax_parse(LineCounter(begin, line), LineCounter(begin + text.size(), line),
                            &reader);
  return std::move(reader.config);
}

ControllerConfig read_config(const std::string& path) {
  return parse_config(read_whole(path, kConfigBytesMax), path);
}

}  // namespace gangway
