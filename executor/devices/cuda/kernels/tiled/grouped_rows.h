// The rows that a block of a grouped product works on. They follow from the sizes, which are known
// only when the block runs.
#pragma once

#include "executor/devices/cuda/kernels/kernel_source.h"
#include "executor/devices/cuda/kernels/tiled/grouped_size.h"

namespace gangway::cuda {

// The rows of one expert in one group, cut to what is there.
struct Rows {
  int64_t first, count;
};
GW_DEVICE Rows rows_after(Global<const int32_t> sizes, const GroupedSize& size, int64_t group,
                          int64_t expert, Rows before) {
  int64_t rows = size.capacity;
  if (rows == 0) {
    const int32_t counted = sizes[group * size.experts + expert];
    rows = counted;
  }
  const int64_t first = before.first + before.count, room = size.slots - first;
  return {first, rows < 0 ? 0 : (rows < room ? rows : room)};
}
GW_DEVICE Rows rows_of(Global<const int32_t> sizes, const GroupedSize& size, int64_t group,
                       int64_t expert) {
  Rows rows{0, 0};
  for (int64_t e = 0; e <= expert; ++e) rows = rows_after(sizes, size, group, e, rows);
  return rows;
}

// The tile of grouped_rows() that a block computes: rows of one expert, or of none (`expert` is
// then the number of experts). Blocks count columns, then tiles, then groups. The block has nothing
// to do unless `tall` is above 0.
struct RowTile {
  int64_t row, column;  // First row and column; rows count over all groups.
  int64_t tall, wide;   // Rows and columns there, which may be more than a tile.
  int64_t expert;

  GW_DEVICE RowTile(Global<const int32_t> sizes, const GroupedSize& size) : expert(0) {
    const int64_t columns = size.transposed ? size.d : size.h;
    const int64_t across = grouped_tiles(columns, size.side), tiles = grouped_row_tiles(size);
    const int64_t group = block_index().x / across / tiles;
    int64_t tile = block_index().x / across % tiles;
    Rows rows{0, 0};
    for (; expert < size.experts; ++expert) {
      rows = rows_after(sizes, size, group, expert, rows);
      const int64_t of_expert = grouped_tiles(rows.count, size.side);
      if (tile < of_expert) break;
      tile -= of_expert;
    }
    if (expert == size.experts)
      rows = {rows.first + rows.count, size.slots - rows.first - rows.count};
    column = block_index().x % across * size.side;
    wide = columns - column;
    row = group * size.slots + rows.first + tile * size.side;
    tall = rows.count - tile * size.side;
  }
};

// The tile of grouped_weight() that a block computes. Blocks count columns, then rows, then
// experts.
struct WeightTile {
  int64_t row, column, tall, wide, expert;

  GW_DEVICE explicit WeightTile(const GroupedSize& size) {
    const int64_t across = grouped_tiles(size.h, size.side);
    const int64_t down = grouped_tiles(size.d, size.side);
    column = block_index().x % across * size.side;
    row = block_index().x / across % down * size.side;
    expert = block_index().x / across / down;
    tall = size.d - row;
    wide = size.h - column;
  }
};

}  // namespace gangway::cuda
