#include "executor/links/sim_link.h"

#include <cstring>
#include <utility>

#include "executor/links/mapped_memory.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway {

SimLink::SimLink(std::shared_ptr<SimFabric> fabric, std::vector<Bell> bells)
    : fabric_(std::move(fabric)), bells_(std::move(bells)) {}

std::shared_ptr<OwnMemory> SimLink::offer(const AreaList& areas) {
  auto memory = std::make_shared<SimMemory>();
  memory->lines.resize(
      static_cast<size_t>(ceil_div(areas.bytes(), static_cast<int64_t>(sizeof(SimMemory::Line)))));
  memory->bells = bells_;
  areas.write(memory->bytes().data());
  const uint64_t number = fabric_->add(memory);
  std::vector<std::byte> offer(sizeof number);
  std::memcpy(offer.data(), &number, sizeof number);
  const std::span<std::byte> bytes = memory->bytes();
  return std::make_shared<MappedMemory>(std::move(memory), bytes, bells_, std::move(offer));
}

std::shared_ptr<PeerMemory> SimLink::open(std::span<const std::byte> offer) {
  uint64_t number = 0;
  GW_REQUIRE(offer.size() == sizeof number,
             "link: not an offer of a simulated host: ", offer.size(), " bytes, expected ",
             sizeof number);
  std::memcpy(&number, offer.data(), sizeof number);
  std::shared_ptr<SimMemory> memory = fabric_->find(number);
  const std::span<std::byte> bytes = memory->bytes();
  std::vector<Bell> bells = memory->bells;
  return std::make_shared<MappedMemory>(std::move(memory), bytes, std::move(bells),
                                        std::vector<std::byte>{});
}

}  // namespace gangway
