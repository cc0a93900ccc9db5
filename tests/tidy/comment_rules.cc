// Counts sentences of comments that begin as riddles do, and holds each room to its budget. A
// block's lines are joined first, so that wrapping a comment anew hides nothing.
#include <cctype>
#include <map>
#include <optional>
#include <sstream>

#include "tests/tidy/riddles.h"
#include "tests/tidy/rooms.h"
#include "tests/tidy/rules.h"

namespace gangway::tidy {
namespace {

constexpr char kBudgets[] = "tests/tidy_comments.txt";
constexpr size_t kPlacesShown = 20;

// A line's comment: its column, and its text behind the mark.
struct CommentPart {
  size_t column;
  bool is_alone;  // No code stands before it.
  std::string text;
};

std::optional<CommentPart> part_behind(const std::string& line, size_t at, size_t mark) {
  const size_t first = line.find_first_not_of(' ');
  size_t begin = at + mark;
  while (begin < line.size() && line[begin] == line[at]) ++begin;
  while (begin < line.size() && line[begin] == ' ') ++begin;
  return CommentPart{at, first == at, line.substr(begin)};
}

// None: the line has no comment. Code and comment are told apart in C++ only; elsewhere a comment
// has a line of its own.
std::optional<CommentPart> comment_of(const SourceFile& file, size_t index) {
  const std::string& line = file.lines[index];
  if (!file.is_cpp()) {
    const bool is_script = file.has_suffix(".js") || file.has_suffix(".mjs");
    const bool has_hash =
        file.has_suffix(".capnp") || file.has_suffix(".py") || file.has_suffix(".sh");
    const std::string_view mark = is_script ? "//" : "#";
    const size_t first = line.find_first_not_of(' ');
    if ((!is_script && !has_hash) || first == line.npos || !line.substr(first).starts_with(mark))
      return std::nullopt;
    return part_behind(line, first, mark.size());
  }
  for (size_t at = line.find("//"); at != line.npos; at = line.find("//", at + 1)) {
    const bool is_apart = at == 0 || line[at - 1] == ' ';
    if (is_apart && file.code[index].find_first_not_of(' ', at) == line.npos)
      return part_behind(line, at, 2);
  }
  return std::nullopt;
}

// The first word of a sentence, from its letters.
bool is_riddle(std::string_view sentence) {
  while (!sentence.empty() && (sentence[0] == ' ' || sentence[0] == '-')) sentence.remove_prefix(1);
  return begins_as_riddle(sentence,
                          [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; });
}

// Sentences of one comment, line by line.
class Sentences {
 public:
  // The next line of the comment. Adds the number of each line in which a riddle begins.
  void read(std::string_view text, size_t line, std::vector<size_t>& riddles) {
    if (text.empty() || text[0] == '-') is_at_begin_ = true;
    while (!text.empty()) {
      if (is_at_begin_ && is_riddle(text)) riddles.push_back(line);
      const size_t end = end_of_sentence(text);
      is_at_begin_ = end != text.npos;
      text.remove_prefix(is_at_begin_ ? end : text.size());
    }
  }

 private:
  // The place behind a full stop and the space after it, or npos.
  static size_t end_of_sentence(std::string_view text) {
    for (size_t at = text.find_first_of(".?!"); at != text.npos;
         at = text.find_first_of(".?!", at + 1)) {
      if (at + 1 == text.size()) return at + 1;
      if (text[at + 1] == ' ') return at + 2;
    }
    return text.npos;
  }

  bool is_at_begin_ = true;
};

std::vector<size_t> riddles_of(const SourceFile& file) {
  std::vector<size_t> riddles;
  std::optional<CommentPart> before;
  Sentences sentences;
  for (size_t i = 0; i < file.lines.size(); ++i) {
    const std::optional<CommentPart> part = comment_of(file, i);
    const bool goes_on = part && before && part->is_alone && part->column == before->column;
    if (!goes_on) sentences = {};
    if (part) sentences.read(part->text, i + 1, riddles);
    before = part;
  }
  return riddles;
}

std::string room_name(std::string_view path) {
  const Room* const room = room_of(path);
  return std::string(room != nullptr ? room->folder : path.substr(0, path.find('/')));
}

std::map<std::string, size_t> budgets_of(const Tree& tree) {
  std::map<std::string, size_t> budgets;
  for (const SourceFile& file : tree) {
    if (file.path != kBudgets) continue;
    for (const std::string& line : file.lines) {
      std::istringstream words(line);
      std::string room;
      size_t budget = 0;
      if (words >> room >> budget) budgets[room] = budget;
    }
  }
  return budgets;
}

}  // namespace

void check_comments(const Tree& tree, Findings& findings) {
  std::map<std::string, std::vector<std::string>> places;
  for (const SourceFile& file : tree) {
    for (const size_t line : riddles_of(file))
      places[room_name(file.path)].push_back(file.path + ":" + std::to_string(line));
  }
  std::map<std::string, size_t> budgets = budgets_of(tree);
  for (const auto& [room, budget] : budgets) places[room];
  for (const auto& [room, found] : places) {
    const size_t budget = budgets[room];
    if (found.size() == budget) continue;
    std::string text = room + " has " + std::to_string(found.size()) +
                       " sentences in comments that begin with Of, What, Who, Whose, Those, By, As "
                       "or So: expected " +
                       std::to_string(budget);
    text += found.size() < budget ? ": lower its budget" : ": say who does what (docs/glossary.md)";
    for (size_t i = 0; found.size() > budget && i < found.size() && i < kPlacesShown; ++i)
      text += "\n  " + found[i];
    findings.push_back({"plain-comment", kBudgets, 0, text});
  }
}

}  // namespace gangway::tidy
