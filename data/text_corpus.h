// The text that a model is trained on: the bytes of a file, or of all files of a folder, in two
// parts.
//
// The last part is held out: no training uses it, and it measures how well the model has learnt.
//
// Ownership: corpora may share their bytes; train() and heldout() point into them.
// Errors: kInvalid, naming the path, for text that is missing, empty, no text file or too short.
//
// Example:
//   TextCorpus corpus = TextCorpus::load("books/");
//   corpus.require_windows(128);
//   ShuffledWindows windows(corpus.train(), {.seq = 128, .batch = 32, .seed = 1});
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace gangway {

class TextCorpus {
 public:
  // `path`: a regular file, or a folder: then all regular files below it, sorted by path and
  // joined.
  static TextCorpus load(const std::filesystem::path& path);
  // `name` stands for the path in error texts.
  TextCorpus(std::string name, std::shared_ptr<const std::string> bytes);

  std::string_view train() const;
  std::string_view heldout() const;  // The last 5 % of the bytes.

  // Refuses a text whose held-out part, or training part, has no room for one window of `seq`
  // bytes.
  void require_windows(size_t seq) const;

 private:
  std::string name_;
  std::shared_ptr<const std::string> bytes_;
};

}  // namespace gangway
