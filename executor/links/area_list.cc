#include "executor/links/area_list.h"

#include <cstring>

#include "runtime/base/align.h"
#include "runtime/base/error.h"
#include "runtime/base/hash.h"

namespace gangway {
namespace {

constexpr uint64_t kMagic = 0x677765786563'0002;
constexpr uint64_t kAlignment = 64;

struct Header {
  uint64_t magic, count;
};
struct Entry {
  uint64_t key, offset, bytes;
};

uint64_t key_of(const std::string& name) {
  Hasher hasher;
  hasher.add(name);
  return hasher.finish().low;
}

uint64_t directory_bytes(size_t count) {
  return align_up(sizeof(Header) + count * sizeof(Entry), kAlignment);
}

}  // namespace

void AreaList::add(const std::string& name, int64_t bytes) {
  areas_.push_back({key_of(name), end_, static_cast<uint64_t>(bytes)});
  end_ += align_up(static_cast<uint64_t>(bytes), kAlignment);
}

int64_t AreaList::bytes() const {
  return static_cast<int64_t>(directory_bytes(areas_.size()) + end_);
}

void AreaList::write(std::byte* memory) const {
  const Header header{kMagic, areas_.size()};
  std::memcpy(memory, &header, sizeof header);
  const uint64_t base = directory_bytes(areas_.size());
  std::byte* at = memory + sizeof header;
  for (const Area& area : areas_) {
    const Entry entry{area.key, base + area.offset, area.bytes};
    std::memcpy(at, &entry, sizeof entry);
    at += sizeof entry;
  }
}

uint64_t find_area(std::span<const std::byte> memory, const std::string& name, int64_t bytes) {
  const auto size = static_cast<uint64_t>(memory.size());
  Header header{};
  if (size >= sizeof header) std::memcpy(&header, memory.data(), sizeof header);
  const bool valid =
      header.magic == kMagic && header.count <= (size - sizeof header) / sizeof(Entry);
  const uint64_t key = key_of(name);
  for (uint64_t i = 0; valid && i < header.count; ++i) {
    Entry entry{};
    std::memcpy(&entry, memory.data() + sizeof header + i * sizeof entry, sizeof entry);
    if (entry.key != key) continue;
    const bool fits = entry.bytes >= static_cast<uint64_t>(bytes) &&
                      entry.offset % kAlignment == 0 && entry.offset <= size &&
                      entry.bytes <= size - entry.offset;
    if (fits) return entry.offset;
  }
  throw Error(ErrorKind::kUnavailable,
              cat("memory that a host offers: has no area \"", name, "\" of ", bytes, " bytes"), {},
              "the hosts of a plan must run the same version of Gangway");
}

}  // namespace gangway
