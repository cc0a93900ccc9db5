#include "executor/sources/text_store.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/text_files.h"
#include "runtime/base/cut.h"
#include "runtime/base/error.h"
#include "runtime/os/trusted_files.h"

namespace gangway {
namespace {

constexpr size_t kPathBytesShown = 256;

// Without links, so that what is read is what was looked at.
std::string path_to_read(const std::string& path, const TrustedFiles* readable) {
  if (readable == nullptr) return path;
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  if (!error && readable->holds(real)) return real.string();
  throw Error(ErrorKind::kInvalid,
              cat("source \"text\": \"", cut(path, kPathBytesShown),
                  "\" is not below a folder that this executor trusts: ", readable->folders_text()),
              {},
              "programs of others than who runs the executor read from such folders alone: ask for "
              "\"gangway executor --trust DIR\"");
}

}  // namespace

Future<TextPtr> TextStore::load(TextRequest request) {
  const std::string owner = request.owner;
  return background_.start(owner, [this, request = std::move(request)] { return read(request); });
}

void TextStore::release(std::map<std::string, TextPtr> texts) {
  if (!texts.empty()) static_cast<void>(freeing_.start([texts = std::move(texts)] {}));
}

void TextStore::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  background_.stop();
  freeing_.stop();
}

void TextStore::require_wanted(const TextRequest& request) const {
  if (stopping_.load(std::memory_order_relaxed) || request.dropped->load(std::memory_order_relaxed))
    throw Error(ErrorKind::kCancelled, "text: nobody waits for it any more");
}

TextPtr TextStore::read(const TextRequest& request) {
  require_wanted(request);
  TextFiles files(path_to_read(request.path, request.readable.get()));
  const uint64_t bytes = std::min(files.bytes(), request.bytes_max);
  if (TextPtr here = find(files, bytes, request)) return here;
  const auto text = std::make_shared<LoadedText>();
  text->counted = budget_
                      .take(static_cast<int64_t>(bytes),
                            cat("text \"", cut(request.path, kPathBytesShown), "\""), request.owner)
                      .take();
  text->bytes.resize(bytes);
  Hasher hasher;
  files.rewind();
  for (uint64_t at = 0; at < bytes; at += kBlockBytes) {
    require_wanted(request);
    const size_t count = std::min<uint64_t>(kBlockBytes, bytes - at);
    files.read({text->bytes.data() + at, count});
    hasher.add_unframed(text->bytes.data() + at, count);
  }
  text->hash = hasher.finish();
  const std::lock_guard lock(mutex_);
  texts_.push_back(text);
  return text;
}

std::vector<TextPtr> TextStore::of_size(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<TextPtr> found;
  std::erase_if(texts_, [](const auto& text) { return text.expired(); });
  for (const auto& weak : texts_) {
    TextPtr text = weak.lock();
    if (text != nullptr && text->bytes.size() == bytes) found.push_back(std::move(text));
  }
  return found;
}

// What is here already and has the same bytes; null: nothing.
TextPtr TextStore::find(TextFiles& files, uint64_t bytes, const TextRequest& request) {
  std::vector<TextPtr> alike = of_size(bytes);
  if (alike.empty()) return nullptr;
  std::string block;
  for (uint64_t at = 0; at < bytes && !alike.empty(); at += kBlockBytes) {
    require_wanted(request);
    block.resize(std::min<uint64_t>(kBlockBytes, bytes - at));
    files.read({block.data(), block.size()});
    std::erase_if(alike, [&](const TextPtr& text) {
      return std::memcmp(text->bytes.data() + at, block.data(), block.size()) != 0;
    });
  }
  return alike.empty() ? nullptr : alike.front();
}

}  // namespace gangway
