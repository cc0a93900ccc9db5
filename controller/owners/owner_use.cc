#include "controller/owners/owner_use.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/units.h"

namespace gangway {
namespace {

size_t at(OwnerResource resource) { return static_cast<size_t>(resource); }

std::string text_of(OwnerResource resource, uint64_t amount) {
  const bool is_bytes = resource == OwnerResource::kMemory || resource == OwnerResource::kMessages;
  return is_bytes ? format_bytes(amount) : std::to_string(amount);
}

const char* hint_of(OwnerResource resource) {
  switch (resource) {
    case OwnerResource::kMemory:
      return "release executables, end programs or wait for runs first, or ask who runs the "
             "controller for more (--config: controller_bytes)";
    case OwnerResource::kCalls: return "wait for some of them first";
    case OwnerResource::kConnections: return "close some clients first";
    case OwnerResource::kMessages: return "wait for other calls first";
  }
  return "";
}

}  // namespace

const char* to_string(OwnerResource resource) {
  switch (resource) {
    case OwnerResource::kMemory: return "of the controller's memory";
    case OwnerResource::kCalls: return "calls under way";
    case OwnerResource::kConnections: return "connections";
    case OwnerResource::kMessages: return "of messages under way";
  }
  return "";
}

bool OwnerUse::Hold::try_grow(uint64_t amount) {
  if (use_ == nullptr || amount == 0) return true;
  const uint64_t max = use_->max(owner_, resource_);
  if (const uint64_t used = use_->used(owner_, resource_); amount > max || used > max - amount)
    return false;
  use_->used_[owner_][at(resource_)] += amount;
  amount_ += amount;
  return true;
}

void OwnerUse::Hold::grow(uint64_t amount, const char* what) {
  if (try_grow(amount)) return;
  throw Error(ErrorKind::kOverloaded,
              cat(what, ": owner \"", owner_, "\" has ",
                  text_of(resource_, use_->used(owner_, resource_)), " ", to_string(resource_),
                  ": expected at most ", text_of(resource_, use_->max(owner_, resource_)), ", got ",
                  text_of(resource_, amount), " more"),
              {}, hint_of(resource_));
}

void OwnerUse::Hold::shrink(uint64_t amount) {
  amount = std::min(amount, amount_);
  if (use_ == nullptr || amount == 0) return;
  amount_ -= amount;
  const auto used = use_->used_.find(owner_);
  used->second[at(resource_)] -= amount;
  if (std::ranges::all_of(used->second, [](uint64_t left) { return left == 0; }))
    use_->used_.erase(used);
}

OwnerUse::Hold OwnerUse::take(const std::string& owner, OwnerResource resource, uint64_t amount,
                              const char* what) {
  Hold held = hold(owner, resource);
  held.grow(amount, what);
  return held;
}

uint64_t OwnerUse::used(const std::string& owner, OwnerResource resource) const {
  const auto found = used_.find(owner);
  return found == used_.end() ? 0 : found->second[at(resource)];
}

uint64_t OwnerUse::max(const std::string& owner, OwnerResource resource) const {
  if (resource != OwnerResource::kMemory) return bounds_[at(resource)];
  const auto own = memory_max_.find(owner);
  if (own != memory_max_.end()) return own->second;
  return memory_max_of_others_.value_or(bounds_[at(resource)]);
}

void OwnerUse::set_memory_max(std::map<std::string, uint64_t> of_owners,
                              std::optional<uint64_t> of_others) {
  memory_max_ = std::move(of_owners);
  memory_max_of_others_ = of_others;
}

}  // namespace gangway
