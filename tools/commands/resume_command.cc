#include "tools/commands/resume_command.h"

#include <optional>

#include "runtime/base/environment.h"

namespace gangway::tool {
namespace {

// Returns a word that any shell reads as one word.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace

std::string resume_command(const std::vector<std::string>& command_line,
                           const ResumeOptions& options) {
  std::vector<std::string> words = command_line;
  const std::optional<std::string> script = environment_value("GANGWAY_STARTED_AS");
  if (script && words.size() >= 3) {
    words.erase(words.begin(), words.begin() + 2);
    words[0] = *script;
  }
  if (!options.out.empty()) words.insert(words.end(), {"--out", options.out});
  if (options.resume) {
    std::erase(words, "--replace");
    words.emplace_back("--resume");
  }
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + quoted(word);
  return out;
}

}  // namespace gangway::tool
