#include "executor/devices/cuda/collectives/card_moves.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "executor/devices/cuda/kernels/strided_view.h"
#include "runtime/base/align.h"

namespace gangway {
namespace {

// Number of bytes that move as one: a power of two that divides every distance.
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

// Bytes from the first of the block to behind its last.
int64_t extent(const Block& block, const std::array<int64_t, 4>& step) {
  int64_t bytes = block.run;
  for (size_t d = 0; d < block.count.size(); ++d) bytes += (block.count[d] - 1) * step[d];
  return bytes;
}

// Steps of a block whose bytes are contiguous.
std::array<int64_t, 4> together(const Block& block) {
  std::array<int64_t, 4> steps{};
  int64_t step = block.run;
  for (size_t d = block.count.size(); d-- > 0; step *= block.count[d]) steps[d] = step;
  return steps;
}

// Bytes of the rows, of all members, that are received and have room.
int64_t bytes_of_rows(const CollectiveCall& call, uint32_t members) {
  const RaggedRows& ragged = call.ragged;
  int64_t rows = 0;
  for (uint32_t m = 0; m < members; ++m) rows += ragged.received[m];
  return std::min(rows, ragged.bound) * ragged.row_elements *
         static_cast<int64_t>(size_of(call.tensors[0].dtype));
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

// Only ragged rows have such an end, and they are contiguous.
Block kept(Block block) {
  block.run = std::clamp<int64_t>(block.out_end - block.out_begin, 0, block.run);
  return block;
}

cuda::Status copy_failed(std::string_view label) {
  return {cuda::StatusKind::kLaunch, false, cat(label, ": a copy could not be started")};
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
                  GroupPlace member) {
  const int64_t bytes = out_bytes(call);
  const bool ragged = call.kind == CollectiveKind::kRaggedAllToAll;
  const int64_t begin = ragged ? bytes_of_rows(call, member.size) : 0;
  if ((!ragged && !has_padding(call, member.rank)) || bytes == begin) return true;
  return device.note(device.gpu().driver().fill(
      {device.communication(), label}, static_cast<std::byte*>(call.tensors[0].out) + begin, 0,
      bytes - begin));
}

bool pack_parts(CardStreams& device, std::string_view label, const CollectiveCall& call,
                std::byte* parts) {
  std::vector<uint32_t> order(static_cast<size_t>(call.cut.parts));
  std::iota(order.begin(), order.end(), 0);
  return pack_parts(device, label, call, order, parts);
}

bool pack_parts(CardStreams& device, std::string_view label, const CollectiveCall& call,
                std::span<const uint32_t> order, std::byte* parts) {
  const auto* const in = static_cast<const std::byte*>(call.tensors[0].in);
  const auto members = static_cast<uint32_t>(call.cut.parts);
  const int64_t bytes = out_bytes(call);
  if (bytes == 0) return true;
  for (const uint32_t rank : order) {
    if (has_padding(call, rank) &&
        !device.note(device.gpu().driver().fill({device.communication(), label}, parts, 0, bytes)))
      return false;
    const Block block = block_of(&call, &call, members, rank, rank);
    if (!move_block(device, label, block, in, parts)) return false;
    parts += bytes;
  }
  return true;
}

}  // namespace gangway
