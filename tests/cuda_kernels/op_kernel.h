// Compares a kernel with its op: launches the cases of the op table on an emulated device, and
// compares the results with the reference in double.
//
// Example:
//   check_op(Op::softmax, [](OpRun& run) {
//     run.launch(cat("softmax_", run.dtype()), {run.rows()}, {64},
//                {run.in(0), run.out(0)}, columns);
//   });
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "executor/devices/cuda/lower/own_operation.h"
#include "ir/op_table/op.h"
#include "tests/emulated/gpu_test.h"
#include "tests/interpret/literal.h"

namespace gangway::emulated {

// A tensor on the device, and how the next launch uses it.
struct Argument {
  void* data = nullptr;
  int64_t bytes = 0;
  cuda::AccessKind kind = cuda::AccessKind::kRead;
};

// One case of an op on a device.
class OpRun {
 public:
  OpRun(Gpu& gpu, Op op, const Attrs& attrs, const std::vector<Literal>& inputs);

  const Attrs& attrs() const { return attrs_; }
  size_t inputs() const { return inputs_.size(); }
  const Type& in_type(size_t i) const { return inputs_[i].type; }
  const Type& out_type(size_t i = 0) const { return out_types_[i]; }
  // Columns and rows of the first input, whose last dimension makes a row.
  int64_t columns() const { return in_type(0).dims.back(); }
  int64_t rows() const;

  Argument in(size_t i) const { return ins_[i]; }
  Argument out(size_t i = 0) const { return outs_[i]; }
  Argument scratch(int64_t bytes);
  static Argument read(Argument written) {
    return {written.data, written.bytes, cuda::AccessKind::kRead};
  }

  // Launches nothing if `blocks` is 0. The tensors are the first parameters, `rest` the others.
  template <class... Rest>
  void launch(const std::string& kernel, int64_t blocks, uint32_t threads,
              const std::vector<Argument>& tensors, const Rest&... rest) {
    launch_shared(kernel, blocks, threads, 0, tensors, {&rest...});
  }
  // `packed`: number of tensors, the first ones, that are packed into one parameter.
  void launch_shared(const std::string& kernel, int64_t blocks, uint32_t threads,
                     uint32_t shared_bytes, const std::vector<Argument>& tensors,
                     std::initializer_list<const void*> rest, size_t packed = 0);
  // Runs the operation. Its tensors are the first `inputs` inputs, then all results.
  void run_own(const Result<cuda::OwnOperation>& own, size_t inputs);

  Gpu& gpu() const { return gpu_; }
  // Compares the results with those of evaluate().
  void check() const;

 private:
  Gpu& gpu_;
  const Op op_;
  Attrs attrs_;  // Attributes with defaults filled in.
  const std::vector<Literal> inputs_;
  std::vector<Type> in_types_, out_types_;
  std::vector<Argument> ins_, outs_;
};

// Checks one case on a device of its own.
void check_case(Op op, const Attrs& attrs, const std::vector<Literal>& inputs, uint64_t seed,
                const std::function<void(OpRun&)>& program);
// Checks all cases of `op` in f32, f64 and bf16, over several seeds. Expects no report.
void check_op(Op op, const std::function<void(OpRun&)>& program);

std::string suffix(DType dtype);                // "_f32"
std::string suffix(DType first, DType second);  // "_bf16_f32"

}  // namespace gangway::emulated
