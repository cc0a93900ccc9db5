#include "controller/programs/run_memory.h"

#include <utility>

#include "controller/programs/run_log.h"
#include "runtime/base/cat.h"
#include "runtime/base/units.h"

namespace gangway {

void RunMemory::hold(RunFrame& run) {
  constexpr size_t kSmallBytes = 1024;
  const size_t bytes = RunLog::bytes_of(run);
  if (bytes <= kSmallBytes) return;
  OwnerUse::Hold held = use_.hold(owner_, OwnerResource::kMemory);
  if (held.try_grow(bytes)) {
    held_.insert_or_assign(run.run, std::move(held));
  } else {
    over_.insert(run.run);
    run.arguments.clear();
  }
}

std::optional<Error> RunMemory::refusal(RunId run) {
  if (over_.erase(run) == 0) return std::nullopt;
  const uint64_t max = use_.max(owner_, OwnerResource::kMemory);
  return Error(ErrorKind::kOverloaded,
               cat("run: its inputs lie in the controller until it has ended, where owner \"",
                   owner_, "\" may have no more: expected at most ", format_bytes(max),
                   " for its programs and runs together"),
               {}, "wait for earlier runs first, or put large inputs (Slice::from_host)");
}

void RunMemory::ended(RunId run) {
  held_.erase(run);
  over_.erase(run);
}

}  // namespace gangway
