#include "data/text_corpus.h"

#include <utility>

#include "data/bad_text.h"
#include "data/text_files.h"

namespace gangway {
namespace {

namespace fs = std::filesystem;

constexpr size_t kHeldoutParts = 20;  // One part in twenty is held out.

}  // namespace

TextCorpus::TextCorpus(std::string name, std::shared_ptr<const std::string> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  if (bytes_->empty()) fail_text(name_, "the text is empty");
}

TextCorpus TextCorpus::load(const fs::path& path) {
  TextFiles files(path);
  const auto bytes = std::make_shared<std::string>(files.bytes(), '\0');
  files.read({bytes->data(), bytes->size()});
  return {path.string(), bytes};
}

std::string_view TextCorpus::train() const {
  return std::string_view(*bytes_).substr(0, bytes_->size() - bytes_->size() / kHeldoutParts);
}

std::string_view TextCorpus::heldout() const {
  return std::string_view(*bytes_).substr(train().size());
}

void TextCorpus::require_windows(size_t seq) const {
  if (heldout().size() < seq || train().size() < seq) {
    fail_text(name_,
              cat("the text is too short: expected at least ", seq * kHeldoutParts,
                  " bytes, so that the last 5 % hold a window of ", seq, ", got ", bytes_->size()));
  }
}

}  // namespace gangway
