#include <algorithm>
#include <cstddef>
#include <vector>

#include "executor/devices/cuda/kernels/chain/row_view.h"
#include "executor/devices/cuda/lower/chain_source.h"
#include "executor/devices/cuda/lower/lower.h"
#include "executor/devices/cuda/lower/product_fusion.h"
#include "executor/devices/cuda/lower/product_tail.h"
#include "executor/devices/lower/strided.h"
#include "executor/devices/lower/to_fused.h"

namespace gangway::cuda {

namespace {

// From the first byte to the last.
int64_t read_bytes(const StridedView& view, int64_t element_bytes) {
  int64_t elements = 1;
  for (int32_t d = 0; d < view.rank; ++d) elements += (view.sizes[d] - 1) * view.source[d];
  return elements * element_bytes;
}

// A RowView of its rank, which counts strips of `width`.
Argument row_view(StridedView view, int64_t width) {
  const auto rank = static_cast<size_t>(view.rank), last = rank - 1;
  view.sizes[last] /= width;
  view.source[last] *= width;
  std::vector<uint32_t> multipliers, shifts;
  for (size_t d = 0; d < rank; ++d) {
    const Divisor by = divisor_of(view.sizes[d]);
    multipliers.push_back(by.multiplier);
    shifts.push_back(by.shift);
  }
  Argument made;
  const auto add = [&](const void* from, size_t bytes) {
    const auto* first = static_cast<const std::byte*>(from);
    made.value.insert(made.value.end(), first, first + bytes);
  };
  add(view.sizes, rank * sizeof(int64_t));
  add(view.source, rank * sizeof(int64_t));
  add(multipliers.data(), rank * sizeof(uint32_t));
  add(shifts.data(), rank * sizeof(uint32_t));
  static_assert(sizeof(RowView<3>) == 3 * (2 * sizeof(int64_t) + 2 * sizeof(uint32_t)));
  return made;
}

}  // namespace

void launch_chain(Lowering& call, const FusedProgram& program, int64_t outer, int64_t inner,
                  std::vector<Argument> tensors, const std::vector<StridedView>& views) {
  int64_t width = chain_width(program);
  const auto divides = [&](int64_t size) { return size % width == 0; };
  const auto fits = [&](const StridedView& view) {
    return view.rank == 0 || divides(view.sizes[view.rank - 1]);
  };
  while (!divides(inner) || !std::ranges::all_of(views, fits)) width /= 2;
  std::vector<ChainRead> reads;
  for (size_t i = 0; i < views.size(); ++i)
    reads.push_back(read_by(views[i], program.inputs[i].dtype, tensors[i].ref.offset, width));
  const int64_t strips = outer * inner / width;
  const auto module =
      call.gpu.compile({"chain.cu", chain_source(program, width, reads, strips < kDividedMax)});
  call.keep(module);
  const Result<KernelHandle> kernel = call.gpu.driver().kernel(module->handle(), kChainKernel);
  if (!kernel.ok()) throw kernel.error();
  tensors.push_back(value(outer));
  tensors.push_back(value(inner));
  for (const StridedView& view : views) {
    if (view.rank > 0) tensors.push_back(row_view(view, width));
  }
  call.launch_flat(kernel.value(), strips, std::move(tensors));
}

namespace {

// `parameters`: where the body's are read.
void lower_chain(Lowering& call, const std::vector<Argument>& parameters) {
  const Function& body = *call.node().body;
  const FusedChain chain = to_fused(body);
  std::vector<Argument> tensors;
  std::vector<StridedView> views;
  for (const FusedChain::Input& input : chain.inputs) {
    tensors.push_back(parameters[input.parameter]);
    views.emplace_back();
    if (input.view == kNone) continue;
    const WindowCopy window = plain_move(NodeView{body, input.view});
    views.back() = call.view_of(window.copy);
    tensors.back() = Lowering::part(std::move(tensors.back()), window.src_bytes,
                                    read_bytes(views.back(), window.copy.bytes));
  }
  for (uint32_t r = 0; r < body.results.size(); ++r) tensors.push_back(call.write(r));
  launch_chain(call, chain.program, chain.outer, chain.inner, std::move(tensors), views);
}

// The product with its epilogue; where no library offers that, the product, then the chain.
void lower_product_fusion(Lowering& call) {
  const Function& body = *call.node().body;
  const auto product = static_cast<uint32_t>(call.attrs().integer(kProductAttr));
  const size_t a = call.inputs() - 2, b = call.inputs() - 1;
  const bool kept = call.node().results == 2;
  const ProductTail tail = product_tail(body, product).value();
  std::vector<Argument> parameters;  // The product is not yet among them.
  for (size_t i = 0; i < a; ++i) parameters.push_back(call.read(i));

  const DType dtype = body.types[product].dtype;
  std::vector<Argument> more;
  for (const uint32_t operand : {tail.bias, tail.added, tail.pre}) {
    if (operand != kNone) more.push_back(parameters[operand - (operand > product ? 1 : 0)]);
  }
  if (kept) more.push_back(call.write(1));
  const Epilogue epilogue = tail.epilogue(kept);
  if (lower_product(call, a, b, dtype, call.write(0), epilogue, more)) return;

  const Argument made = kept ? call.write(1) : call.scratch(body.types[product].bytes());
  lower_product(call, a, b, dtype, made, {}, {});
  parameters.insert(parameters.begin() + product, Lowering::as(made, AccessKind::kRead));
  lower_chain(call, parameters);
}

}  // namespace

void lower_fusion(Lowering& call) {
  if (call.out().elements() == 0) return;
  if (call.attrs().find(kProductAttr) != nullptr) return lower_product_fusion(call);
  std::vector<Argument> parameters;
  for (size_t i = 0; i < call.inputs(); ++i) parameters.push_back(call.read(i));
  lower_chain(call, parameters);
}

}  // namespace gangway::cuda
