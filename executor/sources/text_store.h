// TextStore: the texts that an executor's sources read. They are loaded off the reactor's thread,
// so that the next heartbeat does not wait for a disk. Owners take turns.
//
// Plans that read the same bytes, from any path, share one copy. It counts against the host's
// memory until the last of these plans has gone, and against each owner's part of it until the last
// of that owner's plans has gone.
//
// Threads: the reactor's; texts are read on threads of its own, those of one owner one after
// another in the order of their requests. A file system that does not answer blocks the owners that
// read from it, and others too once as many owners as there are threads wait for it. A simulation
// reads texts on the reactor.
// Ownership: texts outlive the store.
// Errors, in the future: those of data/text_files.h; kInvalid for a path that the asking plan may
// not read; kOverloaded if the host has no memory for the text; kCancelled once no plan wants it.
// Cost: every load() reads the text. A text that is loaded already is compared with it; any other
// is hashed too, 1 GB/s. stop() waits for one block of kBlockBytes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "executor/store/host_budget.h"
#include "runtime/base/hash.h"
#include "runtime/fibers/background.h"

namespace gangway {

class TextFiles;
class TrustedFiles;

struct LoadedText {
  std::string bytes;
  Hash128 hash;
  std::shared_ptr<void> counted;  // Holds the bytes in the HostBudget.
};
using TextPtr = std::shared_ptr<const LoadedText>;

struct TextRequest {
  std::string path;
  // Folders that the text must lie below to be read; null: any file that this process can read.
  std::shared_ptr<const TrustedFiles> readable;
  std::shared_ptr<const std::atomic<bool>> dropped;  // Set: no plan wants the text any more.
  // Size of the text to read; bytes behind it were added later.
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();
  // The owner whose turn this load takes, and whose part of the host's memory it uses; empty: the
  // operator, who may use all.
  std::string owner = {};
};

class TextStore {
 public:
  static constexpr size_t kBlockBytes = size_t{4} << 20;

  // Called with the path of each text on the thread that is to read it. A test makes a text wait.
  using BeforeReading = std::function<void(const std::string& path)>;

  // The budget outlives stop().
  TextStore(Reactor& reactor, std::string name, HostBudget& budget,
            BeforeReading before_reading = {})
      : budget_(budget),
        before_reading_(std::move(before_reading)),
        freeing_(reactor, name + "/freed", 1),
        background_(reactor, std::move(name), kReading) {}

  Future<TextPtr> load(TextRequest request);
  // Drops the texts off the reactor's thread, since freeing much memory takes long. Behind stop()
  // the caller's thread frees them.
  void release(std::map<std::string, TextPtr> texts);
  // How many texts somebody has. Any thread.
  size_t size() const;
  // Texts that are not loaded yet never will be.
  void stop();

 private:
  static constexpr BackgroundBounds kReading = {.threads_max = 3, .of_one_owner_max = 1};

  struct Known {
    std::weak_ptr<const LoadedText> text;
    std::map<std::string, std::weak_ptr<void>> charges;  // Keys are owners.
  };
  using Charge = std::shared_ptr<void>;  // Held in the HostBudget for an owner; null: for none.

  TextPtr read(const TextRequest& request);
  void read_all(TextFiles& files, LoadedText& to, const TextRequest& request) const;
  TextPtr find(TextFiles& files, uint64_t bytes, const TextRequest& request);
  std::vector<TextPtr> of_size(uint64_t bytes);
  Charge charge(uint64_t bytes, const TextRequest& request) const;
  TextPtr add(const TextPtr& loaded, const Charge& charge, const std::string& owner);
  TextPtr share(const TextPtr& here, const TextRequest& request);
  void require_wanted(const TextRequest& request) const;

  HostBudget& budget_;
  const BeforeReading before_reading_;
  std::atomic<bool> stopping_{false};
  mutable std::mutex mutex_;
  std::vector<Known> texts_;  // Guarded by mutex_.
  Background freeing_;
  Background background_;
};

// The texts of one plan; releases them with itself. The store outlives it.
class HeldTexts {
 public:
  explicit HeldTexts(TextStore& store) : store_(&store) {}
  ~HeldTexts() { store_->release(std::move(by_path)); }
  HeldTexts(HeldTexts&&) = default;
  HeldTexts& operator=(HeldTexts&&) = delete;

  std::map<std::string, TextPtr> by_path;  // Null: not loaded yet.

 private:
  TextStore* store_;
};

}  // namespace gangway
