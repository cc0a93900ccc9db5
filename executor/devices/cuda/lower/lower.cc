#include "executor/devices/cuda/lower/lower.h"

#include <algorithm>
#include <bit>

#include "executor/devices/cuda/kernels/launch_sizes.h"
#include "executor/devices/lower/kernel_family.h"
#include "runtime/base/align.h"
#include "runtime/base/error.h"

namespace gangway::cuda {
namespace {

constexpr uint32_t kWarp = 32, kThreadsMax = 256;
constexpr int64_t kBlocksPerMultiprocessor = 16;

}  // namespace

void lower(Lowering& call) {
  switch (kernel_family(call.op())) {
    case KernelFamily::kElementwise: return lower_elementwise(call);
    case KernelFamily::kFusion: return lower_fusion(call);
    case KernelFamily::kFill: return lower_fill(call);
    case KernelFamily::kCopy: return lower_copy(call);
    case KernelFamily::kMove: return lower_move(call);
    case KernelFamily::kWindow: return lower_window(call);
    case KernelFamily::kMesh: return lower_mesh(call);
    case KernelFamily::kReduce: return lower_reduce(call);
    case KernelFamily::kDot: return lower_dot(call);
    case KernelFamily::kIndex: return lower_index(call);
    case KernelFamily::kRandom: return lower_random(call);
    case KernelFamily::kSoftmax: return lower_softmax(call);
    case KernelFamily::kNorm: return lower_norm(call);
    case KernelFamily::kAttention: return lower_attention(call);
    case KernelFamily::kMoe: return lower_moe(call);
    case KernelFamily::kAdamw: return lower_adamw(call);
    case KernelFamily::kBody: return lower_carries(call);
    case KernelFamily::kCustom:  // A function of the host, for memory that the host may touch.
      call.refuse("a user's kernel runs on CPU devices alone");
    case KernelFamily::kStep: break;
  }
  call.refuse("its members can't meet on this kind of device");
}

uint32_t block_threads(int64_t n) {
  return static_cast<uint32_t>(
      std::min<int64_t>(kThreadsMax, align_up(std::max<int64_t>(n, 1), kWarp)));
}

int64_t blocks_for(const GpuInfo& gpu, int64_t n, uint32_t threads) {
  return std::min<int64_t>(ceil_div(n, threads), kBlocksPerMultiprocessor * gpu.multiprocessors);
}

void Lowering::refuse(const std::string& why) const { throw no_kernel(*this, "CUDA", why); }

Argument Lowering::read(size_t input) const {
  return {.is_tensor = true,
          .ref = {TensorRef::kInput, static_cast<uint32_t>(input), 0},
          .bytes = in(input).bytes(),
          .access = AccessKind::kRead};
}

Argument Lowering::write(size_t result, AccessKind access) const {
  return {.is_tensor = true,
          .ref = {TensorRef::kResult, static_cast<uint32_t>(result), 0},
          .bytes = out(result).bytes(),
          .access = access};
}

std::vector<Argument> Lowering::tensors() const {
  std::vector<Argument> all;
  all.reserve(inputs() + node().results);
  for (size_t i = 0; i < inputs(); ++i) all.push_back(read(i));
  for (uint32_t r = 0; r < node().results; ++r) all.push_back(write(r));
  return all;
}

Argument Lowering::scratch(int64_t bytes) {
  const Argument made{.is_tensor = true,
                      .ref = {TensorRef::kScratch, 0, scratch_bytes},
                      .bytes = bytes,
                      .access = AccessKind::kWrite};
  scratch_bytes += align_up(bytes, kDeviceAlignment);
  return made;
}

Argument Lowering::as(Argument tensor, AccessKind access) {
  tensor.access = access;
  return tensor;
}

Argument Lowering::of(NodeId node, Argument tensor) {
  tensor.ref.node = node;
  return tensor;
}

Argument Lowering::part(Argument tensor, int64_t offset, int64_t bytes) {
  tensor.ref.offset += offset;
  tensor.bytes = bytes;
  return tensor;
}

void Lowering::add(Command command) {
  GW_ASSERT(command.arguments.size() - command.packed <= Command::kArgumentsMax &&
                command.packed_capacity <= Command::kPackedMax,
            "a command of ", command.arguments.size(), " arguments");
  commands.push_back(std::move(command));
}

KernelHandle Lowering::find(const std::string& kernel) const {
  const KernelHandle found = gpu.kernel(kernel);
  if (!found) refuse(cat("\"", kernel, "\" is not among its kernels"));
  return found;
}

void Lowering::launch(KernelHandle kernel, Grid grid, uint32_t threads, std::vector<Argument> args,
                      uint32_t shared_bytes) {
  add({.kernel = kernel,
       .grid = grid,
       .block = {threads},
       .shared_bytes = shared_bytes,
       .arguments = std::move(args)});
}

void Lowering::launch(const std::string& kernel, Grid grid, uint32_t threads,
                      std::vector<Argument> args, uint32_t shared_bytes) {
  launch(find(kernel), grid, threads, std::move(args), shared_bytes);
}

void Lowering::launch_flat(KernelHandle kernel, int64_t n, std::vector<Argument> args) {
  if (n <= 0) return;
  const uint32_t threads = block_threads(n);
  const int64_t blocks = blocks_for(gpu.info(), n, threads);
  launch(kernel, {static_cast<uint32_t>(blocks)}, threads, std::move(args));
}

void Lowering::launch_flat(const std::string& kernel, int64_t n, std::vector<Argument> args) {
  if (n > 0) launch_flat(find(kernel), n, std::move(args));
}

void Lowering::launch_many(const std::string& kernel, int64_t blocks, Packed packed,
                           std::vector<Argument> args) {
  add({.kernel = find(kernel),
       .grid = {static_cast<uint32_t>(blocks)},
       .block = {kManyThreads},
       .packed = packed.count,
       .packed_capacity = packed.capacity,
       .arguments = std::move(args)});
}

void Lowering::launch_rows(const std::string& kernel, int64_t rows, int64_t columns,
                           std::vector<Argument> args) {
  if (rows <= 0) return;
  if (rows > INT32_MAX) refuse("too many rows");
  launch(kernel, {static_cast<uint32_t>(rows)}, block_threads(columns), std::move(args));
}

// Where lines are few, many threads share their pieces. Memory is read in units of at least eight
// neighbouring lines; a warp's worth of lines for each block needs enough lines for the whole card.
void Lowering::join(const std::string& how, DType from_type, DType to_type, const Argument& parts,
                    Argument to, int64_t pieces, int64_t lines) {
  constexpr int64_t kFew = 8, kMany = 4096;
  const int64_t across = lines < kFew ? 1 : lines < kMany ? kFew : kWarp;
  const int64_t shares_max = across == 1 ? kThreadsMax : kJoinThreadsMax / across;
  const auto shares = static_cast<int64_t>(std::bit_ceil(
      static_cast<uint64_t>(std::clamp<int64_t>(pieces, kWarp / across, shares_max))));
  const int64_t blocks = ceil_div(lines, across);
  if (blocks > INT32_MAX) refuse("too many lines");
  launch(cat("join_", how, "_", to_string(from_type), "_", to_string(to_type)),
         {static_cast<uint32_t>(blocks)}, static_cast<uint32_t>(across * shares),
         {as(parts, AccessKind::kRead), std::move(to), value(pieces), value(lines),
          value(static_cast<int32_t>(across))});
}

void Lowering::copy(Argument from, Argument to) {
  if (from.bytes > 0) add({.kind = Command::Kind::kCopy, .arguments = {from, to}});
}

StridedView Lowering::view_of(const StridedCopy& copy) const {
  StridedView view;
  for (size_t d = 0; d < copy.sizes.size(); ++d) {
    const int64_t size = copy.sizes[d], source = copy.src_strides[d], target = copy.dst_strides[d];
    if (size == 1) continue;
    const int32_t last = view.rank - 1;
    if (last >= 0 && view.source[last] == source * size && view.target[last] == target * size) {
      view.sizes[last] *= size;
      view.source[last] = source;
      view.target[last] = target;
      continue;
    }
    if (view.rank == kViewRankMax) refuse(cat("more than ", kViewRankMax, " dimensions"));
    view.sizes[view.rank] = size;
    view.source[view.rank] = source;
    view.target[view.rank++] = target;
  }
  return view;
}

namespace {

// Whether neighbours always move together; then `view` and `windows` count pairs.
bool joins_pairs(StridedView& view, std::vector<MovingWindow>& windows) {
  const int32_t last = view.rank - 1;
  if (last < 0 || view.source[last] != 1 || view.target[last] != 1) return false;
  bool even = view.sizes[last] % 2 == 0;
  for (int32_t d = 0; d < last; ++d)
    even = even && view.source[d] % 2 == 0 && view.target[d] % 2 == 0;
  for (const MovingWindow& w : windows)
    even = even && w.source_begin % 2 == 0 && w.source_step % 2 == 0 && w.target_step % 2 == 0;
  if (!even) return false;
  view.sizes[last] /= 2;
  for (int32_t d = 0; d < last; ++d) view.source[d] /= 2, view.target[d] /= 2;
  for (MovingWindow& w : windows) w.source_begin /= 2, w.source_step /= 2, w.target_step /= 2;
  return true;
}

}  // namespace

void Lowering::move(const StridedCopy& copy, Argument from, Argument to) {
  move(copy, std::move(from), std::move(to), value<const int32_t*>(nullptr), {MovingWindow{}});
}

void Lowering::move(const StridedCopy& copy, Argument from, Argument to, Argument start,
                    std::vector<MovingWindow> windows) {
  int64_t n = 1, bytes = copy.bytes;
  for (int64_t size : copy.sizes) n *= size;
  StridedView view = view_of(copy);
  const auto aligned = [&] {
    return from.ref.offset % (2 * bytes) == 0 && to.ref.offset % (2 * bytes) == 0;
  };
  for (; bytes < kMoveBytesMax && aligned() && joins_pairs(view, windows); bytes *= 2) n /= 2;
  Argument window = windows.size() == 1 ? value(windows[0]) : value_by_device(windows);
  launch_flat(cat("move_", bytes), n,
              {std::move(from), std::move(to), value(view), std::move(start), std::move(window)});
}

namespace {

// A number as the lowest bytes of a word, in a dtype.
uint64_t bits_of(DType dtype, double number) {
  const auto single = static_cast<float>(number);
  switch (dtype) {
    case DType::kBool: return number != 0 ? 1 : 0;
    case DType::kI32: return static_cast<uint32_t>(static_cast<int32_t>(number));
    case DType::kF32: return std::bit_cast<uint32_t>(single);
    case DType::kF64: return std::bit_cast<uint64_t>(number);
    case DType::kBF16: break;
  }
  const auto bits = std::bit_cast<uint32_t>(single);
  if (number != number) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

}  // namespace

void Lowering::fill(DType dtype, double number, Argument to, int64_t elements) {
  launch_flat(cat("fill_", size_of(dtype)), elements,
              {std::move(to), value(bits_of(dtype, number)), value(elements)});
}

void Lowering::library(Result<Prepared> prepared, std::vector<Argument> tensors) {
  if (!prepared.ok()) refuse(prepared.error().message());
  const Prepared made = prepared.value();
  keep(std::shared_ptr<const void>(&gpu, [driver = gpu.shared_driver(), made](const void*) {
    driver->destroy(made.operation);
  }));
  tensors.push_back(scratch(made.scratch_bytes));
  add({.kind = Command::Kind::kLibrary,
       .operation = made.operation,
       .arguments = std::move(tensors)});
}

void Lowering::library_or(Result<Prepared> prepared,
                          const std::function<Result<OwnOperation>()>& own,
                          std::vector<Argument> tensors) {
  if (prepared.ok() || prepared.error().kind() != ErrorKind::kUnimplemented)
    return library(std::move(prepared), std::move(tensors));
  const Result<OwnOperation> made = own();
  if (!made.ok()) refuse(made.error().message());
  tensors.insert(tensors.begin(), scratch(made.value().scratch_bytes));
  for (Command command : made.value().commands) {
    for (Argument& argument : command.arguments) {
      if (!argument.is_tensor) continue;
      argument.ref = tensors[argument.address.base].ref;
      argument.ref.offset += argument.address.offset;
    }
    add(std::move(command));
  }
}

}  // namespace gangway::cuda
