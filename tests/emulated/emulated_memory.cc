// Allocation and copies of the emulated driver.
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/align.h"
#include "tests/emulated/emulated_driver.h"

namespace gangway::emulated {

using namespace cuda;

namespace {

// A card's pool gives memory in whole units.
int64_t taken_for(int64_t bytes) { return align_up(bytes, 256); }

void copy_now(Core& core, std::byte* to, const std::byte* from, int64_t bytes) {
  std::byte *target = core.bytes_at(to), *source = core.bytes_at(from);
  if (target == nullptr || source == nullptr || bytes == 0) return;
  std::memcpy(target, source, static_cast<size_t>(bytes));
  // Bytes that were not initialised are not so in the copy either: reading them is reported.
  Allocation &a = *core.memory.find(to), &b = *core.memory.find(from);
  std::memcpy(a.initialised.data() + (to - a.base), b.initialised.data() + (from - b.base),
              static_cast<size_t>(bytes));
}

}  // namespace

Result<std::byte*> EmulatedDriver::allocate(At at, int64_t bytes) {
  const auto lock = enter(at.label);
  if (Status status = lost(at.label); !status.ok()) return to_error(status);
  if (Status status = outside_capture(at, "allocate"); !status.ok()) return to_error(status);
  const int64_t room = core_.options.memory_bytes - state().in_use, taken = taken_for(bytes);
  if (taken > room || core_.take_injection(StatusKind::kOutOfMemory, at.label)) {
    return to_error({StatusKind::kOutOfMemory, false,
                     cat(at.label, ": needs ", bytes, " bytes: ", room, " are free")});
  }
  state().in_use += taken;
  state().peak = std::max(state().peak, state().in_use);
  Allocation& made =
      core_.memory.add_device(bytes, static_cast<int>(device_), std::string(at.label));
  core_.submit(*core_.lane(at.stream), {std::string(at.label),
                                        {{made.base, bytes, AccessKind::kWrite}},
                                        [] { return Operation{}; }});
  return made.base;
}

Status EmulatedDriver::free(At at, std::byte* data) {
  const auto lock = enter(at.label);
  if (Status status = outside_capture(at, "free"); !status.ok()) return status;
  Allocation* in = core_.memory.find(data);
  if (in == nullptr || in->base != data || in->device != static_cast<int>(device_))
    return misuse(at.label, "frees what this device did not allocate");
  if (in->freed) {
    core_.report(Fault::kAfterFree, std::string(at.label), "frees memory again", in->freed_by);
    return {StatusKind::kInvalid, false, std::string(at.label)};
  }
  state().in_use -= taken_for(in->bytes);
  const auto release = [in] {
    return Operation{.run =
                         [in] {
                           in->data = nullptr;
                           in->owned = nullptr;
                           in->marks = {};
                           in->initialised = {};
                           return Status{};
                         },
                     .even_when_lost = true};
  };
  core_.submit(*core_.lane(at.stream),
               {std::string(at.label), {{in->base, in->bytes, AccessKind::kWrite}}, release});
  in->freed = true;
  in->freed_by = std::string(at.label);
  core_.advance_some();
  return {};
}

int64_t EmulatedDriver::memory_in_use() const { return enter("memory_in_use"), state().in_use; }
int64_t EmulatedDriver::memory_peak() const { return enter("memory_peak"), state().peak; }

Result<std::byte*> EmulatedDriver::allocate_pinned(int64_t bytes) {
  const auto lock = enter("allocate_pinned");
  if (core_.take_injection(StatusKind::kOutOfMemory, "allocate_pinned"))
    return to_error({StatusKind::kOutOfMemory, false, "allocate_pinned"});
  return core_.memory.add_pinned(bytes).base;
}

void EmulatedDriver::free_pinned(std::byte* data) {
  const auto lock = enter("free_pinned");
  host_access({data, 1, AccessKind::kWrite}, "free_pinned");
  Allocation* in = core_.memory.find(data);
  if (in == nullptr) return;
  host_access({in->base, in->bytes, AccessKind::kWrite}, "free_pinned");
  in->freed = true;
  in->freed_by = "free_pinned";
}

Status EmulatedDriver::pin(void* data, int64_t bytes) {
  const auto lock = enter("pin");
  core_.memory.pin(static_cast<std::byte*>(data), bytes);
  return {};
}

void EmulatedDriver::unpin(void* data) {
  const auto lock = enter("unpin");
  Allocation* in = core_.memory.find(data);
  if (in == nullptr)
    return core_.report(Fault::kMisuse, "unpin", "names memory that is not pinned");
  host_access({in->base, in->bytes, AccessKind::kWrite}, "unpin");
  core_.memory.forget(*in);
}

void EmulatedDriver::host_access(const Access& access, std::string_view label) {
  const auto lock = enter(label);
  if (core_.memory.is_device(access.data)) {
    core_.report(Fault::kBounds, std::string(label), "touches device memory from the host");
    return;
  }
  const Stamp stamp{0, core_.host_clock.advance(0), core_.label_of(std::string(label))};
  if (!core_.check(access, core_.host_clock, stamp)) return;
  if (access.kind != AccessKind::kWrite)
    core_.check_initialised(access.data, access.bytes, std::string(label));
  if (access.kind != AccessKind::kRead) core_.mark_initialised(access.data, access.bytes);
}

Status EmulatedDriver::copy(At at, void* to, const void* from, int64_t bytes) {
  return copy_rows(at, {.to = static_cast<std::byte*>(to),
                        .to_step = bytes,
                        .from = static_cast<const std::byte*>(from),
                        .from_step = bytes,
                        .bytes = bytes,
                        .rows = 1});
}

Status EmulatedDriver::copy_rows(At at, const RowCopies& rows) {
  const auto lock = enter(at.label);
  std::vector<Access> accesses;
  rows.for_each([&](std::byte* to, const std::byte* from) {
    accesses.push_back({from, rows.bytes, AccessKind::kRead});
    accesses.push_back({to, rows.bytes, AccessKind::kWrite});
  });
  const auto run = [this, rows] {
    rows.for_each(
        [&](std::byte* to, const std::byte* from) { copy_now(core_, to, from, rows.bytes); });
    return Status{};
  };
  return enqueue(at, {{}, std::move(accesses), [run] { return Operation{.run = run}; }});
}

Status EmulatedDriver::fill(At at, void* to, uint8_t value, int64_t bytes) {
  const auto lock = enter(at.label);
  const auto run = [this, to, value, bytes] {
    if (std::byte* target = core_.bytes_at(to)) {
      std::memset(target, value, static_cast<size_t>(bytes));
      core_.mark_initialised(to, bytes);
    }
    return Status{};
  };
  return enqueue(at,
                 {{}, {{to, bytes, AccessKind::kWrite}}, [run] { return Operation{.run = run}; }});
}

}  // namespace gangway::emulated
