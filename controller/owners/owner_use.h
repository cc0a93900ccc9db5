// OwnerUse: how much each owner has taken of the resources that all share in the controller's
// process.
//
// Why: a quota bounds devices and the memory on them. The controller's own resources (memory,
// fibers, descriptors) would otherwise have no bound but the machine's, and one owner could end the
// controller for all. protocol/README.md has a row for each resource, and tests/attacks a test that
// takes all of it while another owner's program runs.
//
// A Hold has a part of a resource, and gives it back when it is destroyed.
//
// Threads: the reactor's thread.
// Ownership: the OwnerUse outlives its holds.
// Errors: take() throws kOverloaded, saying how much the owner has and may have.
// Cost: O(log owners).
//
// Example:
//   OwnerUse use;
//   OwnerUse::Hold bytes = use.take("ann", OwnerResource::kMemory, program.size());
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace gangway {

enum class OwnerResource : uint8_t {
  kMemory,       // Bytes: programs, plans and their texts, runs that wait, logs of runs.
  kCalls,        // Calls under way: each is a fiber.
  kConnections,  // Connections for calls: each is a file descriptor.
  kMessages,     // Bytes of calls that arrive or are under way, and of answers that are not read,
                 // beyond their first 64 KiB.
};
inline constexpr size_t kOwnerResources = 4;

using OwnerBounds = std::array<uint64_t, kOwnerResources>;
inline constexpr OwnerBounds kOwnerBounds = {uint64_t{1} << 30, 4096, 2048, uint64_t{2} << 30};

// "bytes of the controller's memory".
const char* to_string(OwnerResource resource);

class OwnerUse {
 public:
  explicit OwnerUse(const OwnerBounds& bounds = kOwnerBounds) : bounds_(bounds) {}
  OwnerUse(const OwnerUse&) = delete;

  class Hold {
   public:
    Hold() = default;  // Holds nothing of any resource: it has no bound.
    Hold(OwnerUse& use, std::string owner, OwnerResource resource)
        : use_(&use), owner_(std::move(owner)), resource_(resource) {}
    Hold(Hold&& other) noexcept
        : use_(std::exchange(other.use_, nullptr)),
          owner_(std::move(other.owner_)),
          resource_(other.resource_),
          amount_(std::exchange(other.amount_, 0)) {}
    Hold& operator=(Hold&& other) noexcept {
      shrink(amount_);
      std::swap(use_, other.use_);
      std::swap(owner_, other.owner_);
      std::swap(resource_, other.resource_);
      std::swap(amount_, other.amount_);
      return *this;
    }
    ~Hold() { shrink(amount_); }

    // False: the owner may have no more, and nothing has changed.
    [[nodiscard]] bool try_grow(uint64_t amount);
    // The same, but throws kOverloaded. `what` names the call that needs it: "compile".
    void grow(uint64_t amount, const char* what);
    void shrink(uint64_t amount);
    uint64_t amount() const { return amount_; }

   private:
    OwnerUse* use_ = nullptr;
    std::string owner_;
    OwnerResource resource_ = OwnerResource::kMemory;
    uint64_t amount_ = 0;
  };

  Hold hold(const std::string& owner, OwnerResource resource) { return {*this, owner, resource}; }
  Hold take(const std::string& owner, OwnerResource resource, uint64_t amount, const char* what);
  uint64_t used(const std::string& owner, OwnerResource resource) const;
  uint64_t max(const std::string& owner, OwnerResource resource) const;
  size_t owners() const { return used_.size(); }  // Number of owners that hold something.
  // Sets the bounds of kMemory. Owners that are over a bound now keep what they hold. `of_others`
  // none: the bound that the constructor got.
  void set_memory_max(std::map<std::string, uint64_t> of_owners, std::optional<uint64_t> of_others);

 private:
  const OwnerBounds bounds_;
  std::map<std::string, uint64_t> memory_max_;
  std::optional<uint64_t> memory_max_of_others_;
  // Owners that hold something.
  std::map<std::string, std::array<uint64_t, kOwnerResources>> used_;
};

}  // namespace gangway
