// Chain source: the CUDA C++ of a fused chain, from the same program that the CPU interprets.
//
// A thread computes whole elements and keeps what lies between in registers, so that a chain reads
// its inputs and writes its outputs once; where `inner` is a multiple of the width it takes that
// many at a time, since accesses of less than 16 bytes do not fill a card's memory bus, and two
// bf16 at a time, as a card adds and rounds them (kernels/bf16_pair.h). Its pointers are not
// __restrict__, as a result may lie on an operand: a thread loads a strip before it stores one.
// An operand that does not lie as the elements do is read where it lies. Equal programs of one
// width whose operands are read alike give equal texts, whatever their sizes: the text is what
// compiled modules are known by.
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
    kDense,     // As the elements lie.
    kStrips,    // By a view, whose rows are dense and begin at whole strips.
    kElements,  // By a view, element by element.
    kOnce,      // By a view whose rows are one element, spread.
  };
  Kind kind = kDense;
  int32_t rank = 0;  // Of the view.
};

// Of a tensor of `dtype` that begins at byte `begin`. `view` counts elements in its source; of rank
// 0: they lie as the chain's do.
ChainRead read_by(const StridedView& view, DType dtype, int64_t begin, int64_t width);

// The kernel's parameters: inputs, outputs, int64 outer, int64 inner, which is a multiple of
// `width`; then, of each input that has a view, a RowView (kernels/chain/row_view.h). `reads`: by
// input; none: all are dense. `small`: there are fewer than kDividedMax strips.
std::string chain_source(const FusedProgram& program, int64_t width = 1,
                         const std::vector<ChainRead>& reads = {}, bool small = true);

}  // namespace gangway::cuda
