#include "executor/store/overlay_region.h"

#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/align.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

size_t pages(int64_t bytes) {
  static const int64_t page_bytes = sysconf(_SC_PAGESIZE);
  return static_cast<size_t>(align_up(bytes, page_bytes));
}

Error no_memory(const std::string& what, int64_t bytes, const char* of) {
  return {ErrorKind::kOverloaded,
          cat(what, ": the machine has no ", format_bytes(static_cast<uint64_t>(bytes)), " of ", of,
              " left"),
          {},
          "give the device a smaller budget, or the machine more memory"};
}

}  // namespace

OverlayRegion::~OverlayRegion() {
  if (base_ != nullptr) munmap(base_, addresses_);
}

void OverlayRegion::set_aside(const std::string& what) {
  addresses_ = pages(memory_->budget());
  void* base =
      mmap(nullptr, addresses_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw no_memory(what, memory_->budget(), "addresses");
  base_ = static_cast<std::byte*>(base);
}

// Maps or unmaps pages to fit the largest place.
void OverlayRegion::resize(const std::string& what) {
  const int64_t wanted = places_.empty() ? 0 : *places_.rbegin();
  const size_t now = pages(counted_), then = pages(wanted);
  if (wanted > counted_) {
    if (Result<void> reserved = memory_->reserve(wanted - counted_, what); !reserved.ok())
      throw reserved.error();
    if (then > now && mprotect(base_ + now, then - now, PROT_READ | PROT_WRITE) != 0) {
      memory_->unreserve(wanted - counted_);
      throw no_memory(what, wanted - counted_, "memory");
    }
  } else {
    // Mapping anew frees the pages. If the system refuses, they stay until the region is destroyed.
    if (then < now) {
      static_cast<void>(mmap(base_ + then, now - then, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0));
    }
    memory_->unreserve(counted_ - wanted);
  }
  counted_ = wanted;
}

std::shared_ptr<std::byte> OverlayRegion::place(int64_t bytes, const std::string& what) {
  if (base_ == nullptr) set_aside(what);
  const auto place = places_.insert(bytes);
  try {
    resize(what);
  } catch (...) {
    places_.erase(place);
    throw;
  }
  return {base_, [region = shared_from_this(), place](std::byte*) {
            region->places_.erase(place);
            region->resize("");
          }};
}

bool OverlayRegion::enter(RunId run) {
  if (ranks_inside_ > 0 && inside_ != run) return false;
  inside_ = run;
  ++ranks_inside_;
  return true;
}

void OverlayRegion::leave(RunId run) {
  if (inside_ == run && ranks_inside_ > 0) --ranks_inside_;
}

}  // namespace gangway
