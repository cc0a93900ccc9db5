#include "checkpoint/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "runtime/base/error.h"

namespace gangway {
namespace {

using Json = nlohmann::json;
using Event = Json::parse_event_t;

// Watches the parser, with one entry for each array and object that is open.
class Watcher {
 public:
  Watcher(const std::string& subject, JsonLimits limits) : subject_(subject), limits_(limits) {}

  void see(Event event, const Json& parsed) {
    bool opens = event == Event::object_start || event == Event::array_start;
    bool closes = event == Event::object_end || event == Event::array_end;
    if (closes) {
      open_.pop_back();
    } else if (event == Event::key) {
      GW_REQUIRE(open_.back().keys.insert(parsed.get<std::string>()).second, subject_,
                 ": bad JSON: the key ", parsed.dump(), " appears twice");
    } else if (!open_.empty()) {
      GW_REQUIRE(++open_.back().values <= limits_.array_max || !open_.back().array, subject_,
                 ": bad JSON: an array is longer than ", limits_.array_max);
    }
    if (!opens) return;
    GW_REQUIRE(open_.size() < limits_.depth_max, subject_, ": bad JSON: nested deeper than ",
               limits_.depth_max, " levels");
    open_.push_back({.array = event == Event::array_start});
  }

 private:
  struct Open {
    bool array = false;
    size_t values = 0;
    std::set<std::string> keys = {};
  };

  const std::string& subject_;
  JsonLimits limits_;
  std::vector<Open> open_;
};

}  // namespace

Json parse_strict_json(std::string_view text, const std::string& subject, JsonLimits limits) {
  Watcher watcher(subject, limits);
  auto callback = [&watcher](int, Event event, Json& parsed) {
    watcher.see(event, parsed);
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), callback);
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kInvalid, cat(subject, ": bad JSON: ", error.what()));
  }
}

}  // namespace gangway
