#include "executor/devices/cuda/collectives/card_moves.h"

#include <algorithm>

#include "executor/devices/cuda/kernels/strided_view.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

// How many bytes move as one: a power of two that divides every distance.
int64_t width_of(const Block& block, const std::byte* in, const std::byte* out) {
  uint64_t all = static_cast<uint64_t>(block.run) | reinterpret_cast<uintptr_t>(in) |
                 reinterpret_cast<uintptr_t>(out) | static_cast<uint64_t>(cuda::kMoveBytesMax);
  for (size_t d = 0; d < block.count.size(); ++d)
    all |= static_cast<uint64_t>(block.in_step[d] | block.out_step[d]);
  return static_cast<int64_t>(all & (~all + 1));
}

cuda::StridedView view_of(const Block& block, int64_t width) {
  cuda::StridedView view;
  const auto add = [&](int64_t size, int64_t source, int64_t target) {
    if (size == 1) return;
    view.sizes[view.rank] = size;
    view.source[view.rank] = source;
    view.target[view.rank++] = target;
  };
  for (size_t d = 0; d < block.count.size(); ++d)
    add(block.count[d], block.in_step[d] / width, block.out_step[d] / width);
  add(block.run / width, 1, 1);
  return view;
}

// From the first byte of the block to behind its last.
int64_t extent(const Block& block, const std::array<int64_t, 4>& step) {
  int64_t bytes = block.run;
  for (size_t d = 0; d < block.count.size(); ++d) bytes += (block.count[d] - 1) * step[d];
  return bytes;
}

// Steps of bytes that lie together.
std::array<int64_t, 4> together(const Block& block) {
  std::array<int64_t, 4> steps{};
  int64_t step = block.run;
  for (size_t d = block.count.size(); d-- > 0; step *= block.count[d]) steps[d] = step;
  return steps;
}

}  // namespace

Block packed(Block block, int64_t begin) {
  block.out_step = together(block);
  block.out_begin = begin;
  return block;
}

Block unpacked(Block block, int64_t begin) {
  block.in_step = together(block);
  block.in_begin = begin;
  return block;
}

bool move_block(CardStreams& device, std::string_view label, const Block& block,
                const std::byte* in, std::byte* out) {
  const int64_t bytes = block.bytes();
  if (bytes == 0) return true;
  cuda::Driver& driver = device.gpu().driver();
  const cuda::At at{device.communication(), label};
  const std::byte* const from = in + block.in_begin;
  std::byte* const to = out + block.out_begin;
  if (bytes == block.run) return device.note(driver.copy(at, to, from, bytes));
  const int64_t width = width_of(block, from, to);
  const cuda::StridedView view = view_of(block, width);
  const int32_t* const start = nullptr;
  const cuda::MovingWindow window;
  const void* const arguments[] = {static_cast<const void*>(&from), static_cast<const void*>(&to),
                                   &view, static_cast<const void*>(&start), &window};
  const cuda::Access accesses[] = {{from, extent(block, block.in_step), cuda::AccessKind::kRead},
                                   {to, extent(block, block.out_step), cuda::AccessKind::kWrite}};
  constexpr uint32_t kThreads = 256;
  const int64_t blocks = std::min<int64_t>(ceil_div(bytes / width, kThreads),
                                           int64_t{16} * device.gpu().info().multiprocessors);
  return device.note(driver.launch(at, {.kernel = device.gpu().kernel(cat("move_", width)),
                                        .grid = {static_cast<uint32_t>(blocks)},
                                        .block = {kThreads},
                                        .arguments = arguments,
                                        .accesses = accesses}));
}

bool zero_padding(CardStreams& device, std::string_view label, const CollectiveCall& call,
                  uint32_t rank) {
  const int64_t bytes = out_bytes(call);
  if (!has_padding(call, rank) || bytes == 0) return true;
  return device.note(
      device.gpu().driver().fill({device.communication(), label}, call.tensors[0].out, 0, bytes));
}

bool pack_parts(CardStreams& device, std::string_view label, const CollectiveCall& call,
                std::byte* parts) {
  const auto* const in = static_cast<const std::byte*>(call.tensors[0].in);
  const auto members = static_cast<uint32_t>(call.cut.parts);
  const int64_t bytes = out_bytes(call);
  for (uint32_t rank = 0; rank < members && bytes > 0; ++rank) {
    std::byte* const part = parts + rank * bytes;
    if (has_padding(call, rank) &&
        !device.note(device.gpu().driver().fill({device.communication(), label}, part, 0, bytes)))
      return false;
    const Block block = block_of(&call, &call, members, rank, rank);
    if (!move_block(device, label, block, in, part)) return false;
  }
  return true;
}

}  // namespace gangway
