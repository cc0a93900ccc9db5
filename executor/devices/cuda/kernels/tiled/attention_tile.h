// One block's share of attention: a tile of one head's queries or keys.
#pragma once

#include "executor/devices/cuda/kernels/block_reduce.h"
#include "executor/devices/cuda/kernels/tiled/attention_size.h"
#include "executor/devices/cuda/kernels/tiled/tile.h"

namespace gangway::cuda {

// Blocks count tiles, then heads, then the batch. The tiles are of `seq` positions.
struct HeadTile {
  int64_t first, head, batch;
  int32_t rows;

  GW_DEVICE HeadTile(const AttentionSize& size, int64_t seq) {
    const int64_t tiles = (seq + size.tile - 1) / size.tile, unit = block_index().x / tiles;
    first = block_index().x % tiles * size.tile;
    head = unit % size.heads;
    batch = unit / size.heads;
    rows = least(size.tile, seq - first);
  }
  // Offset in a tensor of position `at` of this head.
  GW_DEVICE int64_t offset(const AttentionSize& size, int64_t seq, int64_t stride,
                           int64_t at) const {
    return (batch * seq + at) * stride + head * size.head_dim;
  }
  // The same in lse[batch, heads, seq_q].
  GW_DEVICE int64_t row(const AttentionSize& size, int64_t query) const {
    return (batch * size.heads + head) * size.seq_q + query;
  }
};

GW_DEVICE bool sees(const AttentionSize& size, int64_t query, int64_t key) {
  return !size.causal || key <= query + size.lead;
}

// Sizes of attention to some keys of a sequence, whose first query and key are known at run time.
GW_DEVICE AttentionSize with_starts(AttentionSize size, Global<const int32_t> q_start,
                                    Global<const int32_t> k_start) {
  size.lead = int64_t(q_start[0]) - k_start[0];
  return size;
}

// Hands out a block's shared memory.
template <class W>
struct SharedSpace {
  Shared<W> next;

  GW_DEVICE Shared<W> take(int64_t n) {
    const Shared<W> taken = next;
    next = next + n;
    return taken;
  }
  GW_DEVICE Tile<W> tile(int64_t rows, int64_t columns) {
    const int64_t pitch = odd_pitch(columns);
    return {take(rows * pitch), static_cast<int32_t>(pitch), 1};
  }
};

}  // namespace gangway::cuda
