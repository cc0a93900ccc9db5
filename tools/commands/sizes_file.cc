#include "tools/commands/sizes_file.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "protocol/text_limits.h"
#include "runtime/base/cut.h"
#include "runtime/base/durable_file.h"
#include "runtime/base/line_counter.h"

namespace gangway::tool {
namespace {

using programs::SaidSize;
using programs::SizeKind;
using programs::SizeName;
using programs::SizeValue;

// Takes the parser's events. A key's event comes right behind the key, so the count of lines so far
// gives the key's line.
class SizesReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  SizesReader(std::string file, const int& line) : file_(std::move(file)), line_(line) {}

  std::vector<SaidSize> take() { return std::move(said_); }

  bool start_object(size_t) override {
    GW_REQUIRE(depth_ == 0, here(), ": expected a size, got an object");
    ++depth_;
    return true;
  }
  bool end_object() override { return true; }
  bool key(string_t& name) override {
    where_ = cat(file_, ":", line_, ": \"", cut(name, kQuotedBytesMax), "\"");
    const SizeName* known = programs::find_size(name);
    GW_REQUIRE(known != nullptr, where_, ": there is no such key: expected one of ", all_names());
    GW_REQUIRE(std::ranges::count(said_, name, &SaidSize::name) == 0, where_,
               ": this key stands twice");
    kind_ = known->kind;
    name_ = name;
    return true;
  }
  bool start_array(size_t) override {
    GW_REQUIRE(depth_ == 1 && !list_ && kind_ == SizeKind::kList, here(), ": expected ", expected(),
               ", got a list");
    list_.emplace();
    return true;
  }
  bool end_array() override {
    GW_REQUIRE(!list_->empty(), here(), ": an empty list: expected a number for each layer");
    const std::vector<int64_t> all = *std::exchange(list_, std::nullopt);
    return say(all);
  }

  bool null() override { return refuse("null"); }
  bool boolean(bool value) override {
    return kind_ == SizeKind::kBool && !list_ ? say(value) : refuse(value ? "true" : "false");
  }
  bool number_integer(number_integer_t value) override { return whole(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return refuse(std::to_string(value));
    return whole(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return kind_ == SizeKind::kReal ? say(value) : refuse(text);
  }
  bool string(string_t& value) override {
    return refuse(cat("\"", cut(value, kQuotedBytesMax), "\""));
  }
  bool binary(binary_t&) override { return refuse("bytes"); }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    throw Error(ErrorKind::kInvalid, cat(file_, ":", line_, ": no JSON object: ", error.what()));
  }

 private:
  bool whole(int64_t value) {
    GW_REQUIRE(depth_ == 1, here(), ": expected an object of sizes, got ", value);
    if (list_) {
      constexpr size_t kLayersMax = 1 << 16;
      GW_REQUIRE(list_->size() < kLayersMax, here(), ": more than ", kLayersMax, " layers");
      list_->push_back(value);
      return true;
    }
    return kind_ == SizeKind::kBool ? refuse(std::to_string(value)) : say(value);
  }
  bool say(SizeValue value) {
    GW_REQUIRE(depth_ == 1, here(), ": expected an object of sizes");
    said_.push_back({name_, std::move(value), where_});
    return true;
  }
  bool refuse(const std::string& got) const {
    throw Error(ErrorKind::kInvalid, cat(here(), ": expected ", expected(), ", got ", got));
  }
  std::string here() const { return where_.empty() ? cat(file_, ":", line_) : where_; }
  const char* expected() const {
    if (where_.empty()) return "an object of sizes";
    switch (kind_) {
      case SizeKind::kWhole: return "a whole number";
      case SizeKind::kReal: return "a number";
      case SizeKind::kBool: return "true or false";
      case SizeKind::kList: return "a whole number, or a list of them, one for each layer";
    }
    return "";
  }
  static std::string all_names() {
    std::string text;
    for (const SizeName& size : programs::size_names())
      text += cat(text.empty() ? "" : ", ", size.name);
    return text;
  }

  std::string file_;
  const int& line_;
  int depth_ = 0;
  std::string name_, where_;
  SizeKind kind_ = SizeKind::kWhole;
  std::optional<std::vector<int64_t>> list_;
  std::vector<SaidSize> said_;
};

}  // namespace

std::vector<SaidSize> parse_sizes(const std::string& text, const std::string& file) {
  int line = 1;
  SizesReader reader(file, line);
  nlohmann::json::sax_parse(LineCounter(text.data(), line),
                            LineCounter(text.data() + text.size(), line), &reader);
  return reader.take();
}

std::vector<SaidSize> read_sizes(const std::string& file) {
  return parse_sizes(read_whole(file, kSizesBytesMax), file);
}

}  // namespace gangway::tool
