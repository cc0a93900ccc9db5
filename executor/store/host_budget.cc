#include "executor/store/host_budget.h"

#include "runtime/base/units.h"

namespace gangway {

Result<std::shared_ptr<void>> HostBudget::take(int64_t bytes, const std::string& what) {
  const int64_t left = bytes_max_ - in_use();
  if (bytes > left) {
    const auto text = [](int64_t size) { return format_bytes(static_cast<uint64_t>(size)); };
    return Error(ErrorKind::kOverloaded,
                 cat(what, ": does not fit into the host's memory for suspended programs: needs ",
                     text(bytes), ", of ", text(bytes_max_), " there ", text(left), " are free"),
                 {}, "resume or stop another one, or give the executor more (--suspended-memory)");
  }
  *in_use_ += bytes;
  return std::shared_ptr<void>(nullptr, [in_use = in_use_, bytes](void*) { *in_use -= bytes; });
}

}  // namespace gangway
