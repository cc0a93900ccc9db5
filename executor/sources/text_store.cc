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

std::string name_of(const TextRequest& request) {
  return cat("text \"", cut(request.path, kPathBytesShown), "\"");
}

// The pointer that an owner's plan holds: the text is freed with the last of all plans, the charge
// with the last of the owner's.
TextPtr charged(TextPtr text, std::shared_ptr<void> charge) {
  if (charge == nullptr) return text;
  struct Held {
    TextPtr text;
    std::shared_ptr<void> charge;
  };
  const auto held = std::make_shared<const Held>(std::move(text), std::move(charge));
  return {held, held->text.get()};
}

// The path with links resolved, so that the file that is read is the one that was checked.
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
  if (texts.empty() || stopping_.load(std::memory_order_relaxed)) return;
  static_cast<void>(freeing_.start([texts = std::move(texts)] {}));
}

void TextStore::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  background_.stop();
  freeing_.stop();
}

size_t TextStore::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<size_t>(
      std::ranges::count_if(texts_, [](const Known& known) { return !known.text.expired(); }));
}

void TextStore::require_wanted(const TextRequest& request) const {
  if (stopping_.load(std::memory_order_relaxed) || request.dropped->load(std::memory_order_relaxed))
    throw Error(ErrorKind::kCancelled, "text: nobody waits for it any more");
}

TextPtr TextStore::read(const TextRequest& request) {
  require_wanted(request);
  if (before_reading_) before_reading_(request.path);
  TextFiles files(path_to_read(request.path, request.readable.get()));
  const uint64_t bytes = std::min(files.bytes(), request.bytes_max);
  if (const TextPtr here = find(files, bytes, request)) return share(here, request);
  const Charge owners = charge(bytes, request);
  const auto text = std::make_shared<LoadedText>();
  text->counted = budget_.take(static_cast<int64_t>(bytes), name_of(request)).take();
  text->bytes.resize(bytes);
  files.rewind();
  read_all(files, *text, request);
  return add(text, owners, request.owner);
}

void TextStore::read_all(TextFiles& files, LoadedText& to, const TextRequest& request) const {
  Hasher hasher;
  const uint64_t bytes = to.bytes.size();
  for (uint64_t at = 0; at < bytes; at += kBlockBytes) {
    require_wanted(request);
    const size_t count = std::min<uint64_t>(kBlockBytes, bytes - at);
    files.read({to.bytes.data() + at, count});
    hasher.add_unframed(to.bytes.data() + at, count);
  }
  to.hash = hasher.finish();
}

TextStore::Charge TextStore::charge(uint64_t bytes, const TextRequest& request) const {
  if (request.owner.empty()) return nullptr;
  return budget_.charge(static_cast<int64_t>(bytes), name_of(request), request.owner).take();
}

// Another thread may have loaded the same text meanwhile: then that copy is used.
TextPtr TextStore::add(const TextPtr& loaded, const Charge& charge, const std::string& owner) {
  const std::lock_guard lock(mutex_);
  for (Known& known : texts_) {
    TextPtr text = known.text.lock();
    if (text == nullptr || text->bytes.size() != loaded->bytes.size() || text->hash != loaded->hash)
      continue;
    // None of this owner's plans holds the text yet, since an owner's texts are loaded one after
    // another.
    known.charges[owner] = charge;
    return charged(std::move(text), charge);
  }
  texts_.push_back({loaded, {{owner, charge}}});
  return charged(loaded, charge);
}

// Shares a loaded text with one more plan.
TextPtr TextStore::share(const TextPtr& here, const TextRequest& request) {
  if (request.owner.empty()) return here;
  const std::lock_guard lock(mutex_);
  const auto known =
      std::ranges::find_if(texts_, [&](const Known& each) { return each.text.lock() == here; });
  GW_ASSERT(known != texts_.end());
  std::weak_ptr<void>& before = known->charges[request.owner];
  Charge charged_before = before.lock();
  if (charged_before == nullptr) {
    charged_before = charge(here->bytes.size(), request);
    before = charged_before;
  }
  return charged(here, std::move(charged_before));
}

std::vector<TextPtr> TextStore::of_size(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<TextPtr> found;
  std::erase_if(texts_, [](const Known& known) { return known.text.expired(); });
  for (const Known& known : texts_) {
    TextPtr text = known.text.lock();
    if (text != nullptr && text->bytes.size() == bytes) found.push_back(std::move(text));
  }
  return found;
}

// A loaded text that has the same bytes; null if there is none.
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
