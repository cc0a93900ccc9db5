// Chain source: the CUDA C++ of a fused chain, from the same program that the CPU interprets.
//
// A thread computes whole elements and keeps what lies between in registers, so that a chain reads
// its inputs and writes its outputs once; where `inner` is a multiple of the width it takes that
// many at a time, since accesses of less than 16 bytes do not fill a card's memory bus, and two
// bf16 at a time, as a card adds and rounds them (kernels/bf16_pair.h). Its pointers are not
// __restrict__, as a result may lie on an operand: a thread loads a strip before it stores one.
// An operand of another layout than the elements' is read where it lies, through a view. Equal
// programs of one width whose operands are read alike give equal texts, whatever their sizes, and
// so share a compiled module: modules are known by their text.
//
// Threads: pure.
// Errors: none; the program was checked when it was built.
#pragma once

#include <string>
#include <vector>

#include "executor/devices/cuda/kernels/strided_view.h"
#include "executor/kernels/fused.h"

namespace gangway::cuda {

inline constexpr const char* kChainKernel = "chain";

// Elements of a thread at a time: the smallest type fills 16 bytes, or eight are enough.
int64_t chain_width(const FusedProgram& program);

// How a kFull input is read.
struct ChainRead {
  enum Kind : uint8_t {
    kDense,     // Its layout is that of the chain's elements.
    kStrips,    // Through a view whose rows are dense and begin at whole strips.
    kElements,  // Through a view, element by element.
    kOnce,      // Through a view that repeats one element along each row.
  };
  Kind kind = kDense;
  int32_t rank = 0;  // Rank of the view.
};

// How a chain reads a tensor of `dtype` that begins at byte `begin`. `view` counts elements of the
// tensor; a view of rank 0 means that the tensor's layout is that of the chain's elements.
ChainRead read_by(const StridedView& view, DType dtype, int64_t begin, int64_t width);

// The kernel's parameters: inputs, outputs, int64 outer, int64 inner, which is a multiple of
// `width`; then a RowView (kernels/chain/row_view.h) for each input that has a view. `reads` is
// indexed by input; empty: all are dense. `small`: there are fewer than kDividedMax strips.
std::string chain_source(const FusedProgram& program, int64_t width = 1,
                         const std::vector<ChainRead>& reads = {}, bool small = true);

}  // namespace gangway::cuda
