// From a node of a local function to commands of one card.
//
// Lowering happens once, when a function is compiled: it chooses kernels and shapes of launches,
// prepares library operations, writes sources and says how much scratch there must be. One file
// for each family of ops; lower.cc lists them.
//
// Threads: as DeviceCompiler::compile().
// Errors: kInvalid or kUnimplemented with the user's line.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/devices/cuda/driver/gpu.h"
#include "executor/devices/cuda/kernels/strided_view.h"
#include "executor/devices/cuda/lower/command.h"
#include "executor/devices/cuda/lower/own_operation.h"
#include "executor/devices/lower/node_view.h"
#include "executor/kernels/fused.h"
#include "executor/kernels/move.h"
#include "ir/graph/function.h"
#include "ir/graph/numerics.h"
#include "ir/op_table/op.h"

namespace gangway::cuda {

// One node that is being lowered, and the commands that its lowering adds.
class Lowering : public NodeView {
 public:
  Lowering(Gpu& card, const Function& of, NodeId node_id, const Numerics& chosen = {})
      : NodeView{of, node_id}, gpu(card), numerics(chosen) {}

  // Arguments.
  Argument read(size_t input) const;
  Argument write(size_t result, AccessKind access = AccessKind::kWrite) const;
  // All inputs, then all results.
  std::vector<Argument> tensors() const;
  // A new piece of the scratchpad, as an argument that is written. Later commands read it through
  // as().
  Argument scratch(int64_t bytes);
  static Argument as(Argument tensor, AccessKind access);
  // An argument of another node of the function.
  static Argument of(NodeId node, Argument tensor);
  // The `bytes` bytes of `tensor` from `offset` on.
  static Argument part(Argument tensor, int64_t offset, int64_t bytes);

  // Commands, in order.
  void launch(const std::string& kernel, Grid grid, uint32_t threads, std::vector<Argument> args,
              uint32_t shared_bytes = 0);
  // A thread for each of n elements, as many blocks as keep the card busy. Nothing when n is 0.
  void launch_flat(const std::string& kernel, int64_t n, std::vector<Argument> args);
  void launch(KernelHandle kernel, Grid grid, uint32_t threads, std::vector<Argument> args,
              uint32_t shared_bytes = 0);
  void launch_flat(KernelHandle kernel, int64_t n, std::vector<Argument> args);
  // The array parameter of a kernel over many tensors (many_tensors.h), which has the addresses of
  // the kernel's first arguments.
  struct Packed {
    uint32_t count = 0, capacity = 0;  // In addresses.
  };
  void launch_many(const std::string& kernel, int64_t blocks, Packed packed,
                   std::vector<Argument> args);
  // A block for each row.
  void launch_rows(const std::string& kernel, int64_t rows, int64_t columns,
                   std::vector<Argument> args);
  // to[lines] from parts[pieces, lines], by the kernel "join_<how>".
  void join(const std::string& how, DType from_type, DType to_type, const Argument& parts,
            Argument to, int64_t pieces, int64_t lines);
  void copy(Argument from, Argument to);
  // A strided copy between two tensors, of as many bytes at a time as strides allow. `windows`:
  // one, or one for each device of the mesh; `start` is what moves them.
  void move(const StridedCopy& copy, Argument from, Argument to);
  void move(const StridedCopy& copy, Argument from, Argument to, Argument start,
            std::vector<MovingWindow> windows);
  void fill(DType dtype, double number, Argument to, int64_t elements);
  // Drops dimensions of size 1, and joins neighbours that are contiguous in both tensors.
  StridedView view_of(const StridedCopy& copy) const;
  // Adds a library's operation, which it then owns. `tensors` in the operation's order.
  void library(Result<Prepared> prepared, std::vector<Argument> tensors);
  // The same, but by Gangway's own kernels where no library offers it.
  void library_or(Result<Prepared> prepared, const std::function<Result<OwnOperation>()>& own,
                  std::vector<Argument> tensors);
  void keep(std::shared_ptr<const void> thing) { keeps.push_back(std::move(thing)); }

  // Throws kUnimplemented naming the op, its types and the user's line.
  [[noreturn]] void refuse(const std::string& why) const;

  Gpu& gpu;
  const Numerics numerics;

  std::vector<Command> commands;
  std::vector<std::shared_ptr<const void>> keeps;  // Modules and operations that they use.
  int64_t scratch_bytes = 0;

 private:
  KernelHandle find(const std::string& kernel) const;
  void add(Command command);
};

// Any node but the collectives and `timed`, which are steps of their own.
void lower(Lowering& call);

// An element-wise op of at least this many elements has a kernel of its own, which reads and writes
// in strips.
inline constexpr int64_t kOwnKernel = int64_t{1} << 16;

// One function for each family (executor/devices/lower/kernel_family.h).
void lower_elementwise(Lowering& call);
void lower_fusion(Lowering& call);
// Launches a kernel generated from a chain, over [outer, inner]. `tensors`: its inputs, then its
// outputs. `views`: for each input, where the chain's elements lie in it; a view of rank 0 has the
// layout of the results, and without views all inputs have.
void launch_chain(Lowering& call, const FusedProgram& program, int64_t outer, int64_t inner,
                  std::vector<Argument> tensors, const std::vector<StridedView>& views = {});
void lower_fill(Lowering& call);
void lower_copy(Lowering& call);
void lower_carries(Lowering& call);  // A scan without iterations.
void lower_move(Lowering& call);
void lower_mesh(Lowering& call);
void lower_window(Lowering& call);
void lower_reduce(Lowering& call);
void lower_dot(Lowering& call);
// The product of two inputs, by the node's attributes, into `to`; `more` is what the epilogue adds
// to the tensors of Driver::run(). False, with nothing done: no library offers the epilogue.
bool lower_product(Lowering& call, size_t a, size_t b, DType out, Argument to,
                   const Epilogue& epilogue, const std::vector<Argument>& more);
void lower_random(Lowering& call);
void lower_index(Lowering& call);
void lower_softmax(Lowering& call);
void lower_norm(Lowering& call);
void lower_attention(Lowering& call);
void lower_moe(Lowering& call);
void lower_adamw(Lowering& call);

// Threads of a block for n elements: whole warps, at most 256.
uint32_t block_threads(int64_t n);
// Number of blocks of `threads` threads for n elements: at most as many as keep the card busy, each
// of which goes on to further elements.
int64_t blocks_for(const GpuInfo& gpu, int64_t n, uint32_t threads);

}  // namespace gangway::cuda
