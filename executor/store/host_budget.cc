#include "executor/store/host_budget.h"

#include "runtime/base/units.h"

namespace gangway {

Error HostBudget::too_large(int64_t bytes, int64_t used, const std::string& what) const {
  const auto text = [](int64_t size) { return format_bytes(static_cast<uint64_t>(size)); };
  return Error(
      ErrorKind::kOverloaded,
      cat(what, ": does not fit into the host's memory for suspended programs and texts: needs ",
          text(bytes), ", of ", text(bytes_max_), " there ", text(bytes_max_ - used), " are free"),
      {}, "resume or stop a suspended program, or give the executor more (--suspended-memory)");
}

Result<std::shared_ptr<void>> HostBudget::take(int64_t bytes, const std::string& what) {
  for (int64_t used = in_use(); true;) {
    if (bytes > bytes_max_ - used) return too_large(bytes, used, what);
    if (in_use_->compare_exchange_weak(used, used + bytes)) break;
  }
  return std::shared_ptr<void>(nullptr, [in_use = in_use_, bytes](void*) { *in_use -= bytes; });
}

}  // namespace gangway
