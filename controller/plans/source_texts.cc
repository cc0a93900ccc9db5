#include "controller/plans/source_texts.h"

#include <algorithm>
#include <set>
#include <variant>

#include "runtime/base/cut.h"

namespace gangway {
namespace {

constexpr size_t kPathBytesShown = 256;
constexpr size_t kHashDigits = 32;                         // Length of to_string(Hash128).
constexpr uint64_t kTextBytesSaidMax = uint64_t{1} << 40;  // More than any host reads.

std::string shown(const SourceText& text) {
  return cat(text.bytes, " bytes with the BLAKE2b hash ", text.hash);
}

Error differs(const FixedText& fixed, const std::string& host, const SourceText& got) {
  return {
      ErrorKind::kInvalid,
      cat("source \"text\": \"", cut(got.path, kPathBytesShown), "\" is another text on host \"",
          host, "\" than the program was installed with: expected ", shown(fixed.text),
          fixed.host.empty() ? "" : cat(", as on host \"", fixed.host, "\""), ", got ", shown(got)),
      {.host = host},
      "give all hosts the same text, and add to it at its end alone; a program that is to read "
      "another one is compiled again"};
}

}  // namespace

std::optional<OtherText> other_text(const std::vector<FixedText>& fixed,
                                    const std::vector<HostTexts>& found) {
  for (size_t h = 0; h < found.size(); ++h) {
    for (const SourceText& got : found[h].texts) {
      const auto at =
          std::ranges::find(fixed, got.path, [](const FixedText& of) { return of.text.path; });
      if (at != fixed.end() && at->text != got)
        return OtherText{h, differs(*at, found[h].host, got)};
    }
  }
  return std::nullopt;
}

std::vector<FixedText> fix_texts(const std::vector<HostTexts>& found) {
  std::vector<FixedText> fixed;
  for (const HostTexts& host : found) {
    for (const SourceText& got : host.texts) {
      const auto at =
          std::ranges::find(fixed, got.path, [](const FixedText& of) { return of.text.path; });
      if (at == fixed.end()) {
        fixed.push_back({got, host.host});
      } else if (got.bytes < at->text.bytes) {
        *at = {got, host.host};
      }
    }
  }
  return fixed;
}

std::vector<SourceText> texts_of(const std::vector<FixedText>& fixed) {
  std::vector<SourceText> texts;
  for (const FixedText& one : fixed) texts.push_back(one.text);
  return texts;
}

std::vector<SourceText> texts_before(const Program& program, const std::vector<SourceText>& said) {
  std::set<std::string> paths;
  for (const ProgramNode& node : program.nodes) {
    const AttrValue* const path = node.attrs.find("path");
    if (node.kind == NodeKind::kSource && path != nullptr && std::get_if<std::string>(path))
      paths.insert(std::get<std::string>(*path));
  }
  std::vector<SourceText> texts;
  for (const std::string& path : paths) {
    const auto at = std::ranges::find(said, path, &SourceText::path);
    if (at == said.end()) return {};
    GW_REQUIRE(at->bytes <= kTextBytesSaidMax && at->hash.size() == kHashDigits,
               "compile: program \"", cut(program.name, kPathBytesShown),
               "\": expected texts as a plan had them, got ", at->bytes, " bytes with a hash of ",
               at->hash.size(), " digits");
    texts.push_back(*at);
  }
  return texts;
}

}  // namespace gangway
