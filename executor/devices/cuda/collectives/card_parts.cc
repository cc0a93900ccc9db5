#include "executor/devices/cuda/collectives/card_parts.h"

#include <algorithm>

#include "executor/devices/cuda/kernels/rank_parts.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum: return "ranks_sum_";
    case Reduction::kMax: return "ranks_max_";
    case Reduction::kMin: return "ranks_min_";
  }
  return "";
}

}  // namespace

bool copy_in(CardStreams& device, std::string_view label, std::span<const CollectiveTensor> tensors,
             std::byte* part, int64_t bytes_max) {
  if (device.lost() != nullptr || !device.note(device.fork())) return false;
  int64_t room = bytes_max;
  for (const CollectiveTensor& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    // The plan sized the staging; a larger bucket must not write beyond it.
    room -= bytes_in_part(bytes);
    if (room < 0) return false;
    if (bytes > 0 && !device.note(device.gpu().driver().copy({device.communication(), label}, part,
                                                             tensor.in, bytes)))
      return false;
    part += bytes_in_part(bytes);
  }
  return true;
}

void reduce_parts(CardStreams& device, std::string_view label, Reduction reduction,
                  std::span<const std::byte* const> parts, const CollectiveTensor& tensor) {
  const int64_t bytes = bytes_of(tensor);
  const std::byte* pointers[cuda::kRankPartsMax] = {};
  cuda::Access accesses[cuda::kRankPartsMax + 1];
  for (size_t r = 0; r < parts.size(); ++r) {
    pointers[r] = parts[r];
    accesses[r] = {pointers[r], bytes, cuda::AccessKind::kRead};
  }
  accesses[parts.size()] = {tensor.out, bytes, cuda::AccessKind::kWrite};
  const auto count = static_cast<int64_t>(parts.size());
  const void* const arguments[] = {static_cast<const void*>(pointers),
                                   static_cast<const void*>(&tensor.out), &count, &tensor.elements};
  constexpr uint32_t kThreads = 256;
  const int64_t blocks = std::min<int64_t>(ceil_div(tensor.elements, kThreads),
                                           int64_t{16} * device.gpu().info().multiprocessors);
  device.note(device.gpu().driver().launch(
      {device.communication(), label},
      {.kernel = device.gpu().kernel(cat(name_of(reduction), to_string(tensor.dtype))),
       .grid = {static_cast<uint32_t>(blocks)},
       .block = {kThreads},
       .arguments = arguments,
       .accesses = {accesses, parts.size() + 1}}));
}

}  // namespace gangway
