// Softmax, cross-entropy and norms, with their gradients: a block for each row.
#include <algorithm>

#include "executor/devices/cuda/lower/lower.h"
#include "runtime/base/align.h"

namespace gangway::cuda {
namespace {

struct Rows {
  int64_t count = 0, columns = 0;
  int64_t strips = 0;  // Of one row, in a thread's turn each (kernels/row.h).
};

Rows rows_of(const Lowering& call) {
  const Dims& dims = call.in(0).dims;
  const auto strip = static_cast<int64_t>(16 / size_of(call.in(0).dtype));
  return {elements_between(dims, 0, dims.size() - 1), dims.back(),
          dims.back() % strip == 0 ? dims.back() / strip : dims.back()};
}

DType wide(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : dtype; }

void forward_norm(Lowering& call) {
  const Rows rows = rows_of(call);
  const DType x = call.in(0).dtype, param = call.in(1).dtype;
  const bool centred = call.op() == Op::layer_norm;
  call.launch_rows(cat("norm_", to_string(x), "_", to_string(param)), rows.count, rows.strips,
                   {call.read(0), call.read(1), call.read(centred ? 2 : 1), call.write(0),
                    value(rows.columns), value(call.attrs().real("eps")), value(centred)});
}

void norm_grad(Lowering& call) {
  constexpr int64_t kPiece = 64;
  const Rows rows = rows_of(call);
  const DType x = call.in(0).dtype, param = call.in(1).dtype, w = wide(x);
  const auto size = static_cast<int64_t>(size_of(w));
  const bool centred = call.op() == Op::layer_norm_grad;
  const int64_t pieces = ceil_div(rows.count, kPiece), parts = pieces * rows.columns;
  const Argument stats = call.scratch(rows.count * 2 * size);
  const Argument weights = call.scratch(parts * size);
  const Argument biases = centred ? call.scratch(parts * size) : weights;
  const Argument read_stats = Lowering::as(stats, AccessKind::kRead);
  const auto dim = value(rows.columns);
  call.launch_rows(cat("norm_rows_", to_string(x)), rows.count, rows.strips,
                   {call.read(0), stats, dim, value(call.attrs().real("eps")), value(centred)});
  call.launch_flat(cat("norm_grad_param_", to_string(x)), parts,
                   {call.read(0), call.read(2), read_stats, weights, biases, value(rows.count), dim,
                    value(kPiece), value(centred)});
  call.join("sum", w, param, weights, call.write(1), pieces, rows.columns);
  if (centred) call.join("sum", w, param, biases, call.write(2), pieces, rows.columns);
  // Last: dx may lie on dy.
  call.launch_rows(
      cat("norm_grad_", to_string(x), "_", to_string(param)), rows.count, rows.strips,
      {call.read(0), call.read(1), call.read(2), read_stats, call.write(0), dim, value(centred)});
}

}  // namespace

void lower_softmax(Lowering& call) {
  const Rows rows = rows_of(call);
  std::vector<Argument> arguments = call.tensors();
  arguments.push_back(value(rows.columns));
  call.launch_rows(cat(to_string(call.op()), "_", to_string(call.in(0).dtype)), rows.count,
                   rows.strips, std::move(arguments));
}

void lower_norm(Lowering& call) {
  const bool forward = call.op() == Op::rms_norm || call.op() == Op::layer_norm;
  forward ? forward_norm(call) : norm_grad(call);
}

}  // namespace gangway::cuda
