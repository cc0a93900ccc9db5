// Rules on the characters and words of a line.
#include <array>
#include <cctype>
#include <set>

#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

constexpr size_t kLineMax = 100;

// Addresses that may stand in the tree: names of standards and licences, never a place to fetch
// from.
const std::set<std::string, std::less<>> kKnownHosts = {"www.apache.org", "example.com",
                                                        "127.0.0.1", "localhost"};

// Written in two halves, so that this file passes its own rule.
constexpr std::array kBannedWords = {
    "FIX"
    "ME",
    "XX"
    "X",
    "HA"
    "CK"};  // clang-format off
constexpr std::string_view kTodo = "TO" "DO";
constexpr std::array kMachinePaths = {"/wo" "rk/", "/ro" "ot/", "/ho" "me/", "\"/t" "mp"};
// clang-format on

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

size_t find_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_name(text[at - 1])) && (end == text.size() || !is_name(text[end])))
      return at;
  }
  return text.npos;
}

// A folder of the tree may have such a name too, and be in the middle of a path.
bool has_path_from_root(std::string_view text, std::string_view path) {
  for (size_t at = text.find(path); at != text.npos; at = text.find(path, at + 1)) {
    if (at == 0 || !(is_name(text[at - 1]) || text[at - 1] == '.')) return true;
  }
  return false;
}

// In characters, not bytes: "µs" is two long.
size_t width(std::string_view line) {
  size_t count = 0;
  for (const char c : line) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

bool has_kind(std::string_view todo) {
  for (const char* kind : {"(perf)", "(cleanup)", "(port)"}) {
    if (todo.starts_with(kind)) return true;
  }
  return false;
}

class Line {
 public:
  Line(const SourceFile& file, size_t index, Findings& findings)
      : file_(file), text_(file.lines[index]), number_(index + 1), findings_(findings) {}

  void check_layout() {
    if (width(text_) > kLineMax && has_line_limit())
      add("line-length", "is " + std::to_string(width(text_)) +
                             " characters wide: expected at most " + std::to_string(kLineMax));
    if (text_.find('\t') != text_.npos) add("tab", "contains a tab: indent with spaces");
    if (!text_.empty() && std::isspace(static_cast<unsigned char>(text_.back())))
      add("trailing-space", "ends in white space");
  }

  void check_words() {
    for (const char* word : kBannedWords) {
      if (find_word(text_, word) != text_.npos)
        add("banned-word", std::string("says ") + word + ": do it, or open an issue");
    }
    const size_t todo = find_word(text_, kTodo);
    if (todo != text_.npos && !file_.has_suffix(".md") &&
        !has_kind(std::string_view(text_).substr(todo + kTodo.size())))
      add("todo", "is without its kind: expected (perf), (cleanup) or (port) after it");
    for (const char* path : kMachinePaths) {
      if (has_path_from_root(text_, path))
        add("machine-path", std::string("names a folder of one machine: ") + path);
    }
  }

  void check_addresses() {
    for (size_t at = text_.find("://"); at != text_.npos; at = text_.find("://", at + 1)) {
      if (at < 4 || (text_.substr(at - 4, 4) != "http" && text_.substr(at - 4, 4) != "ttps"))
        continue;
      size_t end = at + 3;
      while (end < text_.size() && (is_name(text_[end]) || text_[end] == '.' || text_[end] == '-'))
        ++end;
      const std::string host = text_.substr(at + 3, end - at - 3);
      if (!host.empty() && !kKnownHosts.contains(host))
        add("url", "names the host " + host + ": the tree fetches nothing and cites by name");
    }
  }

 private:
  bool has_line_limit() const {
    return file_.is_cpp() || file_.has_suffix(".capnp") || file_.has_suffix(".sh") ||
           file_.has_suffix(".cmake") || file_.has_suffix("CMakeLists.txt");
  }
  void add(const char* rule, std::string message) {
    findings_.push_back({rule, file_.path, number_, std::move(message)});
  }

  const SourceFile& file_;
  const std::string& text_;
  size_t number_;
  Findings& findings_;
};

}  // namespace

void check_text(const Tree& tree, Findings& findings) {
  for (const SourceFile& file : tree) {
    if (file.path == "LICENSE" || file.path.find("_corpus/") != file.path.npos) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      Line line(file, i, findings);
      line.check_layout();
      line.check_words();
      line.check_addresses();
    }
    if (!file.ends_with_newline)
      findings.push_back({"final-newline", file.path, file.lines.size(), "ends without a newline"});
  }
}

void check_calls(const Tree& tree, Findings& findings) {
  struct Ban {
    const char* call;
    const char* instead;
  };
  static constexpr Ban kEverywhere[] = {
      {"std::runtime_error", "throw gangway::Error"},
      {"std::logic_error", "throw gangway::Error"},
      {"usleep(", "wait for the event itself"},
  };
  static constexpr Ban kOutsideRuntime[] = {
      {"std::thread ", "threads are started by runtime/"},
      {"std::thread>", "threads are started by runtime/"},
      {"std::thread(", "threads are started by runtime/"},
      {"std::jthread", "threads are started by runtime/"},
      {"std::async", "threads are started by runtime/"},
      {"sleep_for", "time comes from Clock"},
      {"sleep_until", "time comes from Clock"},
      {"system_clock", "time comes from Clock"},
      {"std::random_device", "randomness comes from a seeded Rng"},
      {"std::rand(", "randomness comes from a seeded Rng"},
      {" rand(", "randomness comes from a seeded Rng"},
      {" srand(", "randomness comes from a seeded Rng"},
  };
  static constexpr Ban kInProduct[] = {
      {"getenv(", "environment_value() reads it, and takes an empty value for none"},
  };
  for (const SourceFile& file : tree) {
    const bool in_runtime = file.path.starts_with("runtime/");
    const bool in_product = !file.path.starts_with("tests/") &&
                            file.path.find("_test.") == file.path.npos &&
                            file.path != "runtime/base/environment.cc";
    const bool in_backend = file.path.find("/devices/") != file.path.npos ||
                            file.path.find("/collectives/") != file.path.npos;
    for (size_t i = 0; i < file.code.size(); ++i) {
      const std::string& line = file.code[i];
      const auto check = [&](const Ban& ban) {
        if (line.find(ban.call) != line.npos)
          findings.push_back({"banned-call", file.path, i + 1,
                              std::string("uses ") + ban.call + ": " + ban.instead});
      };
      for (const Ban& ban : kEverywhere) check(ban);
      if (!in_runtime) {
        for (const Ban& ban : kOutsideRuntime) check(ban);
      }
      if (in_product) {
        for (const Ban& ban : kInProduct) check(ban);
      }
      if (!in_backend && (line.starts_with("#if") || line.starts_with("#elif")))
        findings.push_back({"ifdef", file.path, i + 1,
                            "compiles conditionally: only devices/ and collectives/ may, elsewhere "
                            "CMake chooses the file"});
    }
  }
}

}  // namespace gangway::tidy
