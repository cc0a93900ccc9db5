#include "executor/store/host_budget.h"

#include "runtime/base/units.h"

namespace gangway {

Error HostBudget::too_large(int64_t bytes, int64_t used, const std::string& what) const {
  const auto text = [](int64_t size) { return format_bytes(static_cast<uint64_t>(size)); };
  return Error(
      ErrorKind::kOverloaded,
      cat(what, ": does not fit into the host's memory for suspended programs and texts: needs ",
          text(bytes), ", of ", text(bytes_max_), " there ", text(bytes_max_ - used), " are free"),
      {},
      "resume or stop a suspended program, end one that reads a text, or give the executor more "
      "(--suspended-memory)");
}

Error HostBudget::too_much(int64_t bytes, int64_t used, const std::string& what,
                           const std::string& owner) const {
  const auto text = [](int64_t size) { return format_bytes(static_cast<uint64_t>(size)); };
  return Error(ErrorKind::kOverloaded,
               cat(what, ": owner \"", owner, "\" has ", text(used),
                   " of the host's memory for texts: expected at most ", text(of_one_owner_max()),
                   ", half of it, got ", text(bytes), " more"),
               {}, "end a program that reads another text, or take a smaller one");
}

Result<std::shared_ptr<void>> HostBudget::take(int64_t bytes, const std::string& what) {
  const std::lock_guard lock(used_->mutex);
  if (bytes > bytes_max_ - used_->all) return too_large(bytes, used_->all, what);
  used_->all += bytes;
  return std::shared_ptr<void>(used_.get(),
                               [used = used_, bytes](void*) { used->give_back(bytes); });
}

Result<std::shared_ptr<void>> HostBudget::charge(int64_t bytes, const std::string& what,
                                                 const std::string& owner) {
  const std::lock_guard lock(used_->mutex);
  const auto found = used_->by_owner.find(owner);
  const int64_t used = found == used_->by_owner.end() ? 0 : found->second;
  if (bytes > of_one_owner_max() - used) return too_much(bytes, used, what, owner);
  if (bytes > 0) used_->by_owner[owner] += bytes;
  return std::shared_ptr<void>(
      used_.get(), [used = used_, bytes, owner](void*) { used->give_back(bytes, owner); });
}

int64_t HostBudget::in_use() const {
  const std::lock_guard lock(used_->mutex);
  return used_->all;
}

void HostBudget::Used::give_back(int64_t bytes) {
  const std::lock_guard lock(mutex);
  all -= bytes;
}

void HostBudget::Used::give_back(int64_t bytes, const std::string& owner) {
  const std::lock_guard lock(mutex);
  const auto found = by_owner.find(owner);
  if (found == by_owner.end()) return;
  found->second -= bytes;
  if (found->second == 0) by_owner.erase(found);
}

}  // namespace gangway
