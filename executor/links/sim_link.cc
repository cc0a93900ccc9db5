#include "executor/links/sim_link.h"

#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "executor/links/mapped_memory.h"
#include "runtime/base/error.h"

namespace gangway {
namespace {

// The memory of a peer, as the host that writes there has it.
class SimPeer final : public PeerMemory {
 public:
  // The host that writes.
  struct Writer {
    const void* link = nullptr;  // Identifies it.
    std::string name;
  };
  SimPeer(std::shared_ptr<SimFabric> fabric, std::shared_ptr<SimMemory> there, Writer writer)
      : fabric_(std::move(fabric)), there_(std::move(there)), writer_(std::move(writer)) {}

  uint64_t place(const std::string& area, int64_t bytes) override {
    const uint64_t first = find_area(there_->bytes(), area, bytes);
    if (bytes == 0) return first;  // It may lie where another one begins.
    GW_ASSERT(there_->writers.emplace(first, writer_.link).first->second == writer_.link, "area \"",
              area, "\" has two writers");
    std::shared_ptr<SimArea>& mirror = areas_[first];
    if (mirror == nullptr) mirror = std::make_shared<SimArea>(there_, first, bytes);
    GW_ASSERT(mirror->has(first + static_cast<uint64_t>(bytes) - 1), "area \"", area,
              "\" is placed with ", bytes, " bytes, and with less before");
    return first;
  }
  uint32_t devices() const override { return static_cast<uint32_t>(there_->bells.size()); }
  std::byte* at(uint64_t offset) const override { return area_at(offset)->at(offset); }
  std::span<std::byte> range(uint64_t offset) const override {
    return area_at(offset)->mirror.bytes();
  }
  void put(const LinkPayload& payload, uint64_t flag, uint64_t value) override {
    const std::shared_ptr<SimArea>& area = area_at(flag);
    GW_ASSERT(payload.bytes == 0 ||
                  (area->has(payload.offset) &&
                   area->has(payload.offset + static_cast<uint64_t>(payload.bytes) - 1)),
              "a payload lies in another area than its flag");
    if (is_whole()) send(area, {payload, flag, value, {}});
  }
  void signal(uint64_t flag, uint64_t value) override {
    const std::shared_ptr<SimArea>& area = area_at(flag);
    if (is_whole()) send(area, {{}, flag, value, {}});
  }
  // Behind whichever write arrives last.
  void ring(uint32_t device) override {
    if (!is_whole()) return;
    std::erase_if(busy_, [](const SimArea* area) { return area->under_way.empty(); });
    for (SimArea* const area : busy_) area->under_way.back().rings.push_back(device);
    if (busy_.empty()) there_->bells[device].ring();
  }
  void on_broken(Broken broken) override { on_broken_ = std::move(broken); }

 private:
  const std::shared_ptr<SimArea>& area_at(uint64_t offset) const {
    const auto behind = areas_.upper_bound(offset);
    GW_ASSERT(behind != areas_.begin() && std::prev(behind)->second->has(offset),
              "a write beyond the areas that this host writes");
    return std::prev(behind)->second;
  }

  void send(const std::shared_ptr<SimArea>& area, SimArea::Write write) {
    busy_.insert(area.get());
    fabric_->send(area, std::move(write));
  }

  // Notices that the link is broken when something is written.
  bool is_whole() {
    if (is_broken_ || !fabric_->is_broken(writer_.name, there_->host)) return !is_broken_;
    is_broken_ = true;
    if (on_broken_) on_broken_("the network loses them");
    return false;
  }

  const std::shared_ptr<SimFabric> fabric_;
  const std::shared_ptr<SimMemory> there_;
  const Writer writer_;
  bool is_broken_ = false;
  Broken on_broken_;
  std::map<uint64_t, std::shared_ptr<SimArea>> areas_;  // Keys are offsets.
  std::set<SimArea*> busy_;                             // Has all to which writes are under way.
};

}  // namespace

SimLink::SimLink(std::shared_ptr<SimFabric> fabric, std::vector<Bell> bells, std::string name)
    : fabric_(std::move(fabric)), bells_(std::move(bells)), name_(std::move(name)) {}

std::shared_ptr<OwnMemory> SimLink::offer(const AreaList& areas) {
  auto memory = std::make_shared<SimMemory>(areas.bytes(), bells_, name_);
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
  if (fabric_->sends())
    return std::make_shared<SimPeer>(fabric_, std::move(memory), SimPeer::Writer{this, name_});
  const std::span<std::byte> bytes = memory->bytes();
  std::vector<Bell> bells = memory->bells;
  return std::make_shared<MappedMemory>(std::move(memory), bytes, std::move(bells),
                                        std::vector<std::byte>{});
}

}  // namespace gangway
