#include "executor/devices/cuda/own_operation.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr AccessKind kRead = AccessKind::kRead, kWrite = AccessKind::kWrite;
constexpr int64_t kBlocksMax = INT32_MAX;

int64_t bytes_of(DType dtype, int64_t elements) {
  return static_cast<int64_t>(size_of(dtype)) * elements;
}
DType wide(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

Error none(std::string_view what, std::string_view why) {
  return {ErrorKind::kUnimplemented, cat("cuda: no kernel for ", what, ": ", why)};
}

AttentionSize size_of_attention(const AttentionShape& s) {
  const auto stride = [&](int64_t given) { return given == 0 ? s.heads * s.head_dim : given; };
  return {.heads = s.heads,
          .seq_q = s.seq_q,
          .seq_k = s.seq_k,
          .head_dim = s.head_dim,
          .stride_q = stride(s.stride_q),
          .stride_k = stride(s.stride_k),
          .stride_v = stride(s.stride_v),
          .stride_out = stride(s.stride_out),
          .scale = s.scale != 0 ? s.scale : 1 / std::sqrt(static_cast<double>(s.head_dim)),
          .causal = s.causal};
}

// Of one block that holds `tensors` tiles of positions and `tables` of scores.
int64_t shared_bytes(const AttentionShape& s, int64_t tile, int64_t tensors, int64_t tables) {
  const int64_t numbers = tile * (tensors * odd_pitch(s.head_dim) + tables * odd_pitch(tile) + 2);
  return bytes_of(wide(s.dtype), numbers);
}

// The largest tile whose block fits; 0: none does.
int64_t choose_tile(const AttentionShape& s, int64_t tensors, int64_t tables, int64_t bytes_max) {
  int64_t tile = kAttentionTileMax;
  while (tile >= 4 && shared_bytes(s, tile, tensors, tables) > bytes_max) tile /= 2;
  return tile < 4 ? 0 : tile;
}

int64_t blocks_of(const AttentionShape& s, int64_t seq, int64_t tile) {
  return (seq + tile - 1) / tile * s.batch * s.heads;
}

// From the first byte of `positions` rows to the last.
int64_t span_bytes(const AttentionShape& s, int64_t seq, int64_t stride) {
  const int64_t positions = s.batch * seq;
  if (positions == 0) return 0;
  return bytes_of(s.dtype, (positions - 1) * stride + s.heads * s.head_dim);
}

}  // namespace

Result<OwnOperation> OwnOperation::attention(Driver& driver, const AttentionShape& s) {
  constexpr int64_t kTensors = 4, kTables = 1;  // q, k, v, the sums; scores.
  if (!is_float(s.dtype)) return none("attention", to_string(s.dtype));
  OwnOperation made;
  AttentionSize size = size_of_attention(s);
  size.tile = choose_tile(s, kTensors, kTables, driver.info().shared_bytes_max);
  if (size.tile == 0) return none("attention", cat("heads of ", s.head_dim, " are too wide"));
  const int64_t blocks = blocks_of(s, s.seq_q, size.tile);
  if (blocks > kBlocksMax) return none("attention", "too many tiles");
  auto kernel = driver.kernel({}, cat("attention_", to_string(s.dtype)));
  if (!kernel.ok()) return kernel.error();
  const int64_t lse = bytes_of(wide(s.dtype), s.batch * s.heads * s.seq_q);
  made.steps_.push_back(
      {.kernel = kernel.value(),
       .blocks = blocks,
       .threads = kAttentionThreads,
       .shared_bytes = static_cast<uint32_t>(shared_bytes(s, size.tile, kTensors, kTables)),
       .tensors = {{0, span_bytes(s, s.seq_q, size.stride_q), kRead},
                   {1, span_bytes(s, s.seq_k, size.stride_k), kRead},
                   {2, span_bytes(s, s.seq_k, size.stride_v), kRead},
                   {3, span_bytes(s, s.seq_q, size.stride_out), kWrite},
                   {4, lse, kWrite}}});
  made.size_ = size;
  return made;
}

Result<OwnOperation> OwnOperation::attention_grad(Driver& driver, const AttentionShape& s) {
  // q, dout, k, v and the sums of dq, or of dk and dv; weights and scores.
  constexpr int64_t kTensorsQ = 5, kTensorsKv = 6, kTables = 2;
  if (!is_float(s.dtype)) return none("the gradient of attention", to_string(s.dtype));
  OwnOperation made;
  AttentionSize size = size_of_attention(s);
  size.tile = choose_tile(s, kTensorsKv, kTables, driver.info().shared_bytes_max);
  if (size.tile == 0)
    return none("the gradient of attention", cat("heads of ", s.head_dim, " are too wide"));
  const int64_t q_blocks = blocks_of(s, s.seq_q, size.tile);
  const int64_t k_blocks = blocks_of(s, s.seq_k, size.tile);
  if (std::max(q_blocks, k_blocks) > kBlocksMax)
    return none("the gradient of attention", "too many tiles");
  made.scratch_bytes_ = bytes_of(wide(s.dtype), s.batch * s.heads * s.seq_q);

  const int64_t q_bytes = span_bytes(s, s.seq_q, size.stride_q);
  const int64_t k_bytes = span_bytes(s, s.seq_k, size.stride_k);
  const int64_t v_bytes = span_bytes(s, s.seq_k, size.stride_v);
  const int64_t out_bytes = span_bytes(s, s.seq_q, size.stride_out);
  const Tensor delta{kScratch, made.scratch_bytes_, kRead};
  const std::vector<Tensor> inputs = {
      {0, q_bytes}, {1, k_bytes}, {2, v_bytes}, {4, delta.bytes, kRead}, {5, out_bytes}, delta};
  Status failed;
  const auto add = [&](std::string_view name, int64_t blocks, int64_t tensors,
                       std::vector<Tensor> uses) {
    auto kernel = driver.kernel({}, cat(name, "_", to_string(s.dtype)));
    if (!kernel.ok()) return false;
    const int64_t shared = tensors == 0 ? 0 : shared_bytes(s, size.tile, tensors, kTables);
    made.steps_.push_back({kernel.value(), blocks, kAttentionThreads, static_cast<uint32_t>(shared),
                           std::move(uses)});
    return true;
  };
  std::vector<Tensor> to_q = inputs, to_kv = inputs;
  to_q.push_back({6, q_bytes, kWrite});
  to_kv.push_back({7, k_bytes, kWrite});
  to_kv.push_back({8, v_bytes, kWrite});
  const bool all = add("attention_delta", q_blocks, 0,
                       {{3, out_bytes}, {5, out_bytes}, {kScratch, made.scratch_bytes_, kWrite}}) &&
                   add("attention_grad_q", q_blocks, kTensorsQ, std::move(to_q)) &&
                   add("attention_grad_kv", k_blocks, kTensorsKv, std::move(to_kv));
  if (!all) return none("the gradient of attention", to_string(s.dtype));
  made.size_ = size;
  return made;
}

Result<OwnOperation> OwnOperation::grouped_matmul(Driver& driver, const GroupedMatmulDesc& desc) {
  const bool weight = desc.kind == GroupedKind::kGradWeight;
  const bool forward = desc.kind == GroupedKind::kForward;
  const bool same = desc.in0 == desc.in1 &&
                    (desc.in0 == desc.out || (desc.in0 == DType::kBF16 && desc.out == DType::kF32));
  const std::string types =
      cat(to_string(desc.in0), " x ", to_string(desc.in1), " -> ", to_string(desc.out));
  if (!same || !is_float(desc.in0)) return none("a product of experts", types);
  auto kernel = driver.kernel({}, cat(weight ? "grouped_weight_" : "grouped_rows_",
                                      to_string(desc.in0), "_", to_string(desc.out)));
  if (!kernel.ok()) return kernel.error();
  const int64_t rows = desc.groups * desc.slots, matrices = desc.experts * desc.d * desc.h;
  const int64_t columns = grouped_tiles(forward || weight ? desc.h : desc.d);
  const int64_t blocks = weight
                             ? columns * grouped_tiles(desc.d) * desc.experts
                             : columns * grouped_row_tiles(desc.slots, desc.experts) * desc.groups;
  if (blocks > kBlocksMax) return none("a product of experts", "too many tiles");
  const int64_t x = rows * desc.d, y = rows * desc.h;
  OwnOperation made;
  made.steps_.push_back(
      {.kernel = kernel.value(),
       .blocks = desc.slots == 0 && !weight ? 0 : blocks,
       .threads = kGroupedThreads,
       .shared_bytes = 0,
       .tensors = {{0, bytes_of(desc.in0, forward || weight ? x : y), kRead},
                   {1, bytes_of(desc.in1, weight ? y : matrices), kRead},
                   {2, bytes_of(DType::kI32, desc.groups * desc.experts), kRead},
                   {3, bytes_of(desc.out, weight ? matrices : (forward ? y : x)), kWrite}}});
  made.size_ = GroupedSize{.groups = desc.groups,
                           .slots = desc.slots,
                           .experts = desc.experts,
                           .d = desc.d,
                           .h = desc.h,
                           .transposed = desc.kind == GroupedKind::kGradInput};
  return made;
}

Status OwnOperation::run(Driver& driver, At at, std::span<void* const> tensors,
                         void* scratch) const {
  const void* size = std::visit([](const auto& held) -> const void* { return &held; }, size_);
  for (const Step& step : steps_) {
    if (step.blocks == 0) continue;
    std::vector<void*> data;
    std::vector<Access> accesses;
    for (const Tensor& tensor : step.tensors) {
      data.push_back(tensor.index == kScratch ? scratch : tensors[tensor.index]);
      if (tensor.bytes > 0) accesses.push_back({data.back(), tensor.bytes, tensor.kind});
    }
    std::vector<const void*> arguments;
    arguments.reserve(data.size() + 1);
    for (void* const& address : data) arguments.push_back(static_cast<const void*>(&address));
    arguments.push_back(size);
    Status status = driver.launch(at, {.kernel = step.kernel,
                                       .grid = {static_cast<uint32_t>(step.blocks)},
                                       .block = {step.threads},
                                       .shared_bytes = step.shared_bytes,
                                       .arguments = arguments,
                                       .accesses = accesses});
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace gangway::cuda
