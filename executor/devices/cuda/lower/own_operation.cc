#include "executor/devices/cuda/lower/own_operation.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>

#include "executor/devices/cuda/kernels/tiled/attention_size.h"
#include "executor/devices/cuda/kernels/tiled/grouped_size.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr AccessKind kRead = AccessKind::kRead, kWrite = AccessKind::kWrite;
constexpr uint32_t kScratch = 0;
constexpr int64_t kBlocksMax = INT32_MAX;

int64_t bytes_of(DType dtype, int64_t elements) {
  return static_cast<int64_t>(size_of(dtype)) * elements;
}
DType wide(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

Error none(std::string_view what, std::string_view why) {
  return {ErrorKind::kUnimplemented, cat("cuda: no kernel for ", what, ": ", why)};
}

AttentionSize size_of_attention(const AttentionShape& s, bool has_starts) {
  const auto stride = [&](int64_t given) { return given == 0 ? s.heads * s.head_dim : given; };
  return {.heads = s.heads,
          .seq_q = s.seq_q,
          .seq_k = s.seq_k,
          .head_dim = s.head_dim,
          .stride_q = stride(s.stride_q),
          .stride_k = stride(s.stride_k),
          .stride_v = stride(s.stride_v),
          .stride_out = stride(s.stride_out),
          .lead = s.seq_k - s.seq_q,
          .scale = s.scale != 0 ? s.scale : 1 / std::sqrt(static_cast<double>(s.head_dim)),
          .causal = s.causal,
          .has_starts = has_starts};
}

// Shared memory of one block that holds `tensors` tiles of positions and `tables` tables of scores.
int64_t shared_bytes(const AttentionShape& s, int64_t tile, int64_t tensors, int64_t tables) {
  const int64_t numbers =
      tile * (tensors * odd_pitch(s.head_dim) + tables * odd_pitch(tile) + kNumbersOfQuery);
  return bytes_of(wide(s.dtype), numbers);
}

// The largest tile whose block fits; 0: none does.
int64_t choose_tile(const AttentionShape& s, int64_t tensors, int64_t tables, int64_t bytes_max) {
  int64_t tile = kAttentionTileMax;
  while (tile >= 4 && shared_bytes(s, tile, tensors, tables) > bytes_max) tile /= 2;
  return tile < 4 ? 0 : tile;
}

// Width of heads of the kernels on the matrix unit that take these heads; 0: none does. The kernels
// move rows eight elements at a time, and look for the largest score before they scale it.
int64_t matrix_dim(const AttentionShape& s, const AttentionSize& size) {
  const auto whole = [](std::initializer_list<int64_t> counts) {
    return std::ranges::all_of(counts, [](int64_t n) { return n % 8 == 0; });
  };
  if (s.dtype != DType::kBF16 || s.head_dim <= 0 || s.head_dim > kMatrixDimMax || size.scale < 0 ||
      !whole({s.head_dim, size.stride_q, size.stride_k, size.stride_v, size.stride_out}))
    return 0;
  return align_up(s.head_dim, kMatrixDimStep);
}

int64_t blocks_of(const AttentionShape& s, int64_t seq, int64_t tile) {
  return ceil_div(seq, tile) * s.batch * s.heads;
}

// Bytes from the first to the last element of all positions.
int64_t span_bytes(const AttentionShape& s, int64_t seq, int64_t stride) {
  const int64_t positions = s.batch * seq;
  if (positions == 0) return 0;
  return bytes_of(s.dtype, (positions - 1) * stride + s.heads * s.head_dim);
}

int64_t lse_bytes(const AttentionShape& s) {
  return bytes_of(wide(s.dtype), s.batch * s.heads * s.seq_q);
}

Argument tensor(uint32_t base, int64_t bytes, AccessKind access = kRead) {
  return {.is_tensor = true, .address = {base, 0}, .bytes = bytes, .access = access};
}

// The starts of queries and of keys, which are tensors `first` and the one behind it. If `always`,
// a kernel without starts gets the first tensor instead, and reads nothing of it.
void add_starts(std::vector<Argument>& arguments, uint32_t first, bool has_starts, bool always) {
  for (uint32_t i = 0; i < 2; ++i) {
    if (has_starts) arguments.push_back(tensor(first + i, bytes_of(DType::kI32, 1)));
    if (!has_starts && always) arguments.push_back(tensor(1, 0));
  }
}

struct Blocks {
  int64_t count = 0;
  uint32_t threads = 0;
  int64_t shared_bytes = 0;
};

// A kernel of the operation gets its tensors, then their size.
template <class Size>
Status add(OwnOperation& to, Driver& driver, const std::string& kernel, const Blocks& blocks,
           std::vector<Argument> arguments, const Size& size) {
  const auto none = [](std::string why) { return Status{StatusKind::kUnsupported, false, why}; };
  if (blocks.count > kBlocksMax) return none("too many tiles");
  const Result<KernelHandle> found = driver.kernel({}, kernel);
  if (!found.ok()) return none(found.error().message());
  if (blocks.count == 0) return {};
  arguments.push_back(value(size));
  to.commands.push_back({.kernel = found.value(),
                         .grid = {static_cast<uint32_t>(blocks.count)},
                         .block = {blocks.threads},
                         .shared_bytes = static_cast<uint32_t>(blocks.shared_bytes),
                         .arguments = std::move(arguments)});
  return {};
}

}  // namespace

Result<OwnOperation> OwnOperation::attention(Driver& driver, const AttentionShape& s,
                                             bool has_starts) {
  constexpr std::string_view kWhat = "attention";
  constexpr int64_t kTensors = 4, kTables = 1;  // q, k, v, the sums; scores.
  AttentionSize size = size_of_attention(s, has_starts);
  const int64_t matrix = matrix_dim(s, size);
  size.tile =
      matrix > 0 ? kMatrixTile : choose_tile(s, kTensors, kTables, driver.info().shared_bytes_max);
  if (size.tile == 0) return none(kWhat, cat("heads of ", s.head_dim, " are too wide"));
  OwnOperation made;
  const uint32_t results = has_starts ? 6 : 4;
  std::vector<Argument> arguments = {
      tensor(1, span_bytes(s, s.seq_q, size.stride_q)),
      tensor(2, span_bytes(s, s.seq_k, size.stride_k)),
      tensor(3, span_bytes(s, s.seq_k, size.stride_v)),
      tensor(results, span_bytes(s, s.seq_q, size.stride_out), kWrite),
      tensor(results + 1, lse_bytes(s), kWrite)};
  Blocks blocks{blocks_of(s, s.seq_q, size.tile), kAttentionThreads};
  std::string kernel = cat(has_starts ? "attention_part_" : "attention_", to_string(s.dtype));
  if (matrix > 0) {
    kernel = cat("attention_bf16_", matrix);
  } else {
    blocks.shared_bytes = shared_bytes(s, size.tile, kTensors, kTables);
  }
  add_starts(arguments, 4, has_starts, matrix > 0);
  const Status status = add(made, driver, kernel, blocks, std::move(arguments), size);
  if (!status.ok()) return none(kWhat, status.text);
  return made;
}

Result<OwnOperation> OwnOperation::attention_grad(Driver& driver, const AttentionShape& s,
                                                  bool has_starts) {
  constexpr std::string_view kWhat = "the gradient of attention";
  // q, dout, k, v and the sums of dq, or of dk and dv; weights and scores.
  constexpr int64_t kTensorsQ = 5, kTensorsKv = 6, kTables = 2;
  AttentionSize size = size_of_attention(s, has_starts);
  const int64_t matrix = matrix_dim(s, size);
  size.tile = matrix > 0 ? kMatrixTile
                         : choose_tile(s, kTensorsKv, kTables, driver.info().shared_bytes_max);
  if (size.tile == 0) return none(kWhat, cat("heads of ", s.head_dim, " are too wide"));
  const int64_t q_bytes = span_bytes(s, s.seq_q, size.stride_q);
  const int64_t k_bytes = span_bytes(s, s.seq_k, size.stride_k);
  const int64_t v_bytes = span_bytes(s, s.seq_k, size.stride_v);
  const int64_t out_bytes = span_bytes(s, s.seq_q, size.stride_out);
  const Argument q = tensor(1, q_bytes), k = tensor(2, k_bytes), v = tensor(3, v_bytes);
  const Argument out = tensor(4, out_bytes), lse = tensor(5, lse_bytes(s));
  const Argument dout = tensor(6, out_bytes), delta = tensor(kScratch, lse_bytes(s));
  // Kernels on the matrix unit have no shifts: they round weights to fewer digits than lse has
  // left.
  Argument shifts = tensor(kScratch, lse_bytes(s), kWrite);
  shifts.address.offset = lse_bytes(s);

  OwnOperation made{.scratch_bytes = (matrix > 0 ? 1 : 2) * lse_bytes(s)};
  Status status;
  const auto then = [&](std::string_view kernel, int64_t seq, int64_t tensors,
                        std::vector<Argument> arguments) {
    if (!status.ok()) return;
    const std::string type(to_string(s.dtype));
    Blocks blocks{blocks_of(s, seq, size.tile), kAttentionThreads};
    std::string name = cat("attention_", kernel, "_", type);
    if (tensors > 0 && matrix > 0) {
      name = cat(name, "_", matrix);
    } else if (tensors > 0) {
      if (has_starts) name = cat("attention_part_", kernel, "_", type);
      blocks.shared_bytes = shared_bytes(s, size.tile, tensors, kTables);
    }
    status = add(made, driver, name, blocks, std::move(arguments), size);
  };
  const uint32_t results = has_starts ? 9 : 7;
  const auto with_starts = [&](std::vector<Argument> arguments) {
    add_starts(arguments, 7, has_starts, matrix > 0);
    return arguments;
  };
  then("delta", s.seq_q, 0, {out, dout, tensor(kScratch, lse_bytes(s), kWrite)});
  std::vector<Argument> of_q = with_starts({q, k, v, lse, dout, delta}), of_kv = of_q;
  of_q.push_back(tensor(results, q_bytes, kWrite));
  of_kv.push_back(tensor(results + 1, k_bytes, kWrite));
  of_kv.push_back(tensor(results + 2, v_bytes, kWrite));
  if (matrix == 0) {
    of_q.push_back(shifts);
    shifts.access = kRead;
    of_kv.push_back(shifts);
  }
  then("grad_q", s.seq_q, kTensorsQ, std::move(of_q));
  then("grad_kv", s.seq_k, kTensorsKv, std::move(of_kv));
  if (!status.ok()) return none(kWhat, status.text);
  return made;
}

Result<OwnOperation> OwnOperation::grouped_matmul(Driver& driver, const GroupedMatmulDesc& desc) {
  constexpr std::string_view kWhat = "a product of experts";
  const bool weight = desc.kind == GroupedKind::kGradWeight;
  const bool forward = desc.kind == GroupedKind::kForward;
  if (desc.in0 != desc.in1)
    return none(kWhat, cat(to_string(desc.in0), " x ", to_string(desc.in1)));
  const int64_t rows = desc.groups * desc.slots, matrices = desc.experts * desc.d * desc.h;
  const int64_t x = rows * desc.d, y = rows * desc.h;
  const bool by_sizes = desc.capacity == 0;
  const bool is_tf32 = desc.in0 == DType::kF32 && desc.allow_tf32;
  const bool on_matrix_unit = desc.in0 == DType::kBF16 || is_tf32;
  const GroupedSize size{.groups = desc.groups,
                         .slots = desc.slots,
                         .experts = desc.experts,
                         .d = desc.d,
                         .h = desc.h,
                         .capacity = desc.capacity,
                         .side = on_matrix_unit ? kMatrixUnitSide : kGroupedSide,
                         .transposed = desc.kind == GroupedKind::kGradInput};
  const int64_t columns = grouped_tiles(forward || weight ? desc.h : desc.d, size.side);
  int64_t blocks = columns * grouped_row_tiles(size) * desc.groups;
  if (weight) blocks = columns * grouped_tiles(desc.d, size.side) * desc.experts;
  if (!weight && desc.slots == 0) blocks = 0;
  OwnOperation made;
  const Status status = add(
      made, driver,
      cat(weight ? "grouped_weight_" : "grouped_rows_", is_tf32 ? "tf32" : to_string(desc.in0), "_",
          to_string(desc.out)),
      {blocks, kGroupedThreads},
      {tensor(1, bytes_of(desc.in0, forward || weight ? x : y)),
       tensor(2, bytes_of(desc.in1, weight ? y : matrices)),
       // Sizes; without them any tensor, of which nothing is read.
       by_sizes ? tensor(3, bytes_of(DType::kI32, desc.groups * desc.experts)) : tensor(1, 0),
       tensor(by_sizes ? 4 : 3, bytes_of(desc.out, weight ? matrices : (forward ? y : x)), kWrite)},
      size);
  if (!status.ok()) return none(kWhat, status.text);
  return made;
}

Status OwnOperation::run(Driver& driver, At at, std::span<void* const> tensors,
                         void* scratch) const {
  std::vector<std::byte*> bases = {static_cast<std::byte*>(scratch)};
  for (void* data : tensors) bases.push_back(static_cast<std::byte*>(data));
  for (const Command& command : commands) {
    Status status = command.issue(driver, at, bases.data(), 0);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace gangway::cuda
