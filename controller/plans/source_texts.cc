#include "controller/plans/source_texts.h"

#include <algorithm>

#include "runtime/base/cut.h"

namespace gangway {
namespace {

constexpr size_t kPathBytesShown = 256;

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

}  // namespace gangway
