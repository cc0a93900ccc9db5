#include "executor/links/shared_link.h"

#include <cstring>
#include <utility>

#include "executor/links/mapped_memory.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// Content of an offer; both sides are on one machine.
struct Offer {
  SegmentDescriptor memory, bells;
  uint32_t devices = 0;
  uint32_t unused = 0;
};

constexpr int64_t kBellStride = 64;
constexpr uint32_t kDevicesMax = 4096;

AreaList bell_areas(uint32_t devices) {
  AreaList areas;
  areas.add("bells", kBellStride * devices);
  return areas;
}

SharedSegment make_segment(const AreaList& areas) {
  SharedSegment segment = SharedSegment::create(static_cast<size_t>(areas.bytes()));
  areas.write(segment.data());
  return segment;
}

std::span<std::byte> memory_of(const SharedSegment& segment) {
  return {segment.data(), segment.size()};
}

Bell bell_at(const SharedSegment& bells, uint32_t devices, uint32_t device) {
  const uint64_t first = find_area(memory_of(bells), "bells", kBellStride * devices);
  std::byte* at = bells.data() + first + static_cast<uint64_t>(kBellStride) * device;
  return {reinterpret_cast<Doorbell*>(at), nullptr};
}

std::vector<Bell> bells_of(const SharedSegment& bells, uint32_t devices) {
  std::vector<Bell> all;
  for (uint32_t device = 0; device < devices; ++device)
    all.push_back(bell_at(bells, devices, device));
  return all;
}

// The segments that a memory keeps mapped.
struct Segments {
  SharedSegment memory;
  std::shared_ptr<const SharedSegment> bells;
};

}  // namespace

SharedLink::SharedLink(uint32_t devices)
    : devices_(devices),
      bells_(std::make_shared<const SharedSegment>(make_segment(bell_areas(devices)))) {}

Bell SharedLink::bell(uint32_t device) const { return bell_at(*bells_, devices_, device); }

std::shared_ptr<OwnMemory> SharedLink::offer(const AreaList& areas) {
  auto held = std::make_shared<Segments>(Segments{make_segment(areas), bells_});
  const Offer offer{held->memory.descriptor(), bells_->descriptor(), devices_};
  std::vector<std::byte> bytes(sizeof offer);
  std::memcpy(bytes.data(), &offer, sizeof offer);
  const std::span<std::byte> memory = memory_of(held->memory);
  return std::make_shared<MappedMemory>(std::move(held), memory, bells_of(*bells_, devices_),
                                        std::move(bytes));
}

std::shared_ptr<PeerMemory> SharedLink::open(std::span<const std::byte> bytes) {
  Offer offer;
  GW_REQUIRE(bytes.size() == sizeof offer, "link: not an offer of shared memory: ", bytes.size(),
             " bytes, expected ", sizeof offer);
  std::memcpy(&offer, bytes.data(), sizeof offer);
  GW_REQUIRE(offer.devices <= kDevicesMax, "link: an offer of shared memory has ", offer.devices,
             " devices, at most ", kDevicesMax);
  auto held = std::make_shared<Segments>(
      Segments{SharedSegment::open(offer.memory),
               std::make_shared<const SharedSegment>(SharedSegment::open(offer.bells))});
  std::vector<Bell> bells = bells_of(*held->bells, offer.devices);
  const std::span<std::byte> memory = memory_of(held->memory);
  return std::make_shared<MappedMemory>(std::move(held), memory, std::move(bells),
                                        std::vector<std::byte>{});
}

}  // namespace gangway
