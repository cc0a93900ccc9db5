// Softmax, cross-entropy and norms, with their gradients: a block for each row.
#include <algorithm>
#include <string_view>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/cuda/lower/lower.h"
#include "runtime/base/align.h"

namespace gangway::cuda {
namespace {

struct Rows {
  int64_t count = 0, columns = 0;
  // Strips of one row (kernels/row.h), or its elements if it is no whole number of strips.
  int64_t strips = 0;
};

Rows rows_of(const Lowering& call) {
  const Dims& dims = call.in(0).dims;
  const auto strip = static_cast<int64_t>(16 / size_of(call.in(0).dtype));
  return {elements_between(dims, 0, dims.size() - 1), dims.back(),
          dims.back() % strip == 0 ? dims.back() / strip : dims.back()};
}

DType wide(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

// Number of threads that hold a row in registers, a strip each; 0: it is too long, or no whole
// number of strips.
uint32_t holding_threads(const Lowering& call, const Rows& rows) {
  constexpr int64_t kWarp = 32;
  const auto strip = static_cast<int64_t>(16 / size_of(call.in(0).dtype));
  if (rows.columns % strip != 0 || rows.strips == 0 || rows.strips > kHeldThreadsMax) return 0;
  return static_cast<uint32_t>(align_up(rows.strips, kWarp));
}

// A block for each `piece` rows.
void launch_held(Lowering& call, const Rows& rows, int64_t piece, uint32_t threads,
                 std::vector<Argument> args) {
  if (rows.count <= 0) return;
  const int64_t blocks = ceil_div(rows.count, piece);
  if (blocks > INT32_MAX) call.refuse("too many rows");
  for (const int64_t size : {rows.count, rows.columns, piece}) args.push_back(value(size));
  args.push_back(value(call.attrs().real("eps")));
  call.launch(cat(to_string(call.op()), "_held_", to_string(call.in(0).dtype), "_",
                  to_string(call.in(1).dtype)),
              {static_cast<uint32_t>(blocks)}, threads, std::move(args));
}

void forward_norm(Lowering& call) {
  const Rows rows = rows_of(call);
  const DType x = call.in(0).dtype, param = call.in(1).dtype;
  const bool centred = call.op() == Op::layer_norm;
  if (const uint32_t threads = holding_threads(call, rows); threads > 0) {
    // Rows enough for each block to hide its loads, blocks enough for a card.
    const int64_t piece = std::clamp<int64_t>(rows.count / 2048, 1, 8);
    return launch_held(call, rows, piece, threads,
                       {call.read(0), call.read(1), call.read(centred ? 2 : 1), call.write(0)});
  }
  call.launch_rows(cat("norm_", to_string(x), "_", to_string(param)), rows.count, rows.strips,
                   {call.read(0), call.read(1), call.read(centred ? 2 : 1), call.write(0),
                    value(rows.columns), value(call.attrs().real("eps")), value(centred)});
}

void norm_grad(Lowering& call) {
  const Rows rows = rows_of(call);
  const uint32_t holding = holding_threads(call, rows);
  const int64_t piece = holding > 0 ? 16 : 64;  // From shapes alone: bits follow from it.
  const DType x = call.in(0).dtype, param = call.in(1).dtype, w = wide(x);
  const auto size = static_cast<int64_t>(size_of(w));
  const bool centred = call.op() == Op::layer_norm_grad;
  const int64_t pieces = ceil_div(rows.count, piece), parts = pieces * rows.columns;
  const Argument weights = call.scratch(parts * size);
  const Argument biases = centred ? call.scratch(parts * size) : weights;
  const auto join = [&] {
    call.join("sum", w, param, weights, call.write(1), pieces, rows.columns);
    if (centred) call.join("sum", w, param, biases, call.write(2), pieces, rows.columns);
  };
  if (holding > 0) {
    launch_held(call, rows, piece, holding,
                {call.read(0), call.read(1), call.read(2), call.write(0), weights, biases});
    return join();
  }
  const Argument stats = call.scratch(rows.count * 2 * size);
  const Argument read_stats = Lowering::as(stats, AccessKind::kRead);
  const auto dim = value(rows.columns);
  call.launch_rows(cat("norm_rows_", to_string(x)), rows.count, rows.strips,
                   {call.read(0), stats, dim, value(call.attrs().real("eps")), value(centred)});
  call.launch_flat(cat("norm_grad_param_", to_string(x)), parts,
                   {call.read(0), call.read(2), read_stats, weights, biases, value(rows.count), dim,
                    value(piece), value(centred)});
  join();
  // Last: dx may lie on dy.
  call.launch_rows(
      cat("norm_grad_", to_string(x), "_", to_string(param)), rows.count, rows.strips,
      {call.read(0), call.read(1), call.read(2), read_stats, call.write(0), dim, value(centred)});
}

// A block for each row. A multiprocessor has room for two rows of a large vocabulary: blocks of the
// usual 256 threads would be too few to compute on one row while the other is loaded. All kernels
// of losses have as many threads, since bits follow from the number.
void launch_losses(Lowering& call, std::string_view kernel, const Rows& rows,
                   std::vector<Argument> args, uint32_t shared_bytes = 0) {
  constexpr int64_t kLong = 2048;  // Strips.
  if (rows.count <= 0) return;
  if (rows.count > INT32_MAX) call.refuse("too many rows");
  const uint32_t threads = rows.strips < kLong ? block_threads(rows.strips) : kLossThreads;
  call.launch(cat(kernel, "_", to_string(call.in(0).dtype)), {static_cast<uint32_t>(rows.count)},
              threads, std::move(args), shared_bytes);
}

// Launches one kernel where a row is a whole number of strips and fits into shared memory, else
// two.
void loss_and_grad(Lowering& call, const Rows& rows) {
  const auto bytes = static_cast<int64_t>(size_of(call.in(0).dtype)) * rows.columns;
  const int64_t room = int64_t{call.gpu.info().shared_bytes_max} - kRowSumsBytes;
  if (bytes % 16 == 0 && bytes <= room) {
    std::vector<Argument> arguments = call.tensors();
    arguments.push_back(value(rows.strips));
    return launch_losses(call, "cross_entropy_and_grad", rows, std::move(arguments),
                         static_cast<uint32_t>(bytes));
  }
  const Argument logits = call.read(0), labels = call.read(1), log_sum = call.write(1);
  launch_losses(call, "cross_entropy", rows,
                {logits, labels, call.write(0), log_sum, value(rows.columns)});
  launch_losses(call, "cross_entropy_grad", rows,
                {logits, labels, Lowering::as(log_sum, AccessKind::kRead), call.read(2),
                 call.write(2), value(rows.columns)});
}

}  // namespace

void lower_softmax(Lowering& call) {
  const Rows rows = rows_of(call);
  if (call.op() == Op::cross_entropy_and_grad) return loss_and_grad(call, rows);
  std::vector<Argument> arguments = call.tensors();
  arguments.push_back(value(rows.columns));
  const std::string_view op = to_string(call.op());
  if (call.op() == Op::cross_entropy || call.op() == Op::cross_entropy_grad)
    return launch_losses(call, op, rows, std::move(arguments));
  call.launch_rows(cat(op, "_", to_string(call.in(0).dtype)), rows.count, rows.strips,
                   std::move(arguments));
}

void lower_norm(Lowering& call) {
  const bool forward = call.op() == Op::rms_norm || call.op() == Op::layer_norm;
  forward ? forward_norm(call) : norm_grad(call);
}

}  // namespace gangway::cuda
