#include "bench/listing_driver.h"

#include <algorithm>

#include "runtime/base/cat.h"

namespace gangway::bench {

using namespace cuda;

namespace {

int64_t bytes_of(DType dtype, int64_t elements) {
  return static_cast<int64_t>(size_of(dtype)) * elements;
}

bool same(const ListedCall& a, const ListedCall& b) {
  return a.kind == b.kind && a.kernel == b.kernel && a.source == b.source &&
         std::ranges::equal(a.grid, b.grid) && a.block == b.block &&
         a.shared_bytes == b.shared_bytes && a.tensors == b.tensors && a.flops == b.flops;
}

// Causal attention computes half of the scores, and the diagonal's.
double attention_flops(const AttentionShape& shape, double products) {
  const auto q = static_cast<double>(shape.seq_q), k = static_cast<double>(shape.seq_k);
  const double scores = shape.causal ? q * (k - (q - 1) / 2) : q * k;
  return 2 * products * scores * static_cast<double>(shape.batch * shape.heads * shape.head_dim);
}

}  // namespace

GpuInfo ListingDriver::info() const {
  return {.name = "H200 (not there)",
          .architecture = 90,
          .memory_bytes = int64_t{141} << 30,
          .memory_free = int64_t{141} << 30,
          .multiprocessors = 132,
          .shared_bytes_max = 227 << 10};
}

Error ListingDriver::refused(std::string_view what) {
  return {ErrorKind::kUnimplemented, cat("list of calls: there is no ", what)};
}
Status ListingDriver::unsupported(At at) {
  return {StatusKind::kUnsupported, false, cat("list of calls: cannot run ", at.label)};
}

Result<StreamHandle> ListingDriver::make_stream(std::string_view, cuda::StreamPriority) {
  const std::lock_guard lock(mutex_);
  return StreamHandle{++handles_};
}
Result<EventHandle> ListingDriver::make_event() {
  const std::lock_guard lock(mutex_);
  return EventHandle{++handles_};
}

void ListingDriver::add(ListedCall call) {
  const auto known =
      std::ranges::find_if(list_, [&](const ListedCall& other) { return same(other, call); });
  if (known != list_.end()) {
    ++known->count;
  } else {
    list_.push_back(std::move(call));
  }
}

Status ListingDriver::copy(At at, void*, const void*, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  add({.kind = ListedCall::kCopy,
       .label = std::string(at.label),
       .tensors = {{bytes, AccessKind::kRead}, {bytes, AccessKind::kWrite}}});
  return {};
}

Result<ModuleHandle> ListingDriver::compile(const ModuleSource& source) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(sources_, source.text);
  const auto index = static_cast<uint64_t>(known - sources_.begin());
  if (known == sources_.end()) sources_.push_back(source.text);
  return ModuleHandle{index + 1};
}

Result<KernelHandle> ListingDriver::kernel(ModuleHandle module, std::string_view name) {
  const std::lock_guard lock(mutex_);
  kernels_.push_back({std::string(name), static_cast<int64_t>(module.bits) - 1});
  return KernelHandle{kernels_.size()};
}

Status ListingDriver::launch(At at, const Launch& launch) {
  const std::lock_guard lock(mutex_);
  const Kernel& kernel = kernels_.at(launch.kernel.bits - 1);
  ListedCall call{.label = std::string(at.label),
                  .kernel = kernel.name,
                  .source = kernel.source,
                  .grid = {launch.grid.x, launch.grid.y, launch.grid.z},
                  .block = launch.block.x * launch.block.y * launch.block.z,
                  .shared_bytes = launch.shared_bytes};
  for (const Access& access : launch.accesses) call.tensors.push_back({access.bytes, access.kind});
  add(std::move(call));
  return {};
}

Result<Prepared> ListingDriver::keep(ListedCall operation) {
  const std::lock_guard lock(mutex_);
  operations_.push_back(std::move(operation));
  return Prepared{PreparedHandle{operations_.size()}, 0};
}

Result<Prepared> ListingDriver::prepare(const MatmulDesc& d, const Epilogue& epilogue) {
  const int64_t c = bytes_of(d.c, d.batch * d.m * d.n);
  ListedCall call{
      .kind = ListedCall::kProduct,
      .kernel = cat(d.batch > 1 ? cat(d.batch, " x ") : "", d.m, " x ", d.n, " x ", d.k, " ",
                    to_string(d.a), " to ", to_string(d.c)),
      .tensors = {{bytes_of(d.a, d.batch * d.m * d.k), AccessKind::kRead},
                  {bytes_of(d.b, d.batch * d.k * d.n), AccessKind::kRead},
                  {c, d.accumulate ? AccessKind::kReadWrite : AccessKind::kWrite}},
      .flops = 2.0 * static_cast<double>(d.batch * d.m) * static_cast<double>(d.n * d.k)};
  if (epilogue.bias) call.tensors.push_back({bytes_of(d.c, d.n), AccessKind::kRead});
  if (epilogue.added) call.tensors.push_back({c, AccessKind::kRead});
  if (epilogue.keep_input) call.tensors.push_back({c, AccessKind::kWrite});
  if (epilogue.gradient) call.tensors.push_back({c, AccessKind::kRead});
  if (epilogue.activation == Activation::kSilu) return refused("this epilogue");
  return keep(std::move(call));
}

namespace {

ListedCall attention_call(const AttentionShape& s, bool gradient) {
  const int64_t q = bytes_of(s.dtype, s.batch * s.seq_q * s.heads * s.head_dim);
  const int64_t k = bytes_of(s.dtype, s.batch * s.seq_k * s.heads * s.head_dim);
  const int64_t lse = bytes_of(DType::kF32, s.batch * s.heads * s.seq_q);
  ListedCall call{.kind = gradient ? ListedCall::kAttentionGrad : ListedCall::kAttention,
                  .kernel = cat(s.batch, " x ", s.heads, " heads of ", s.head_dim, ", ", s.seq_q),
                  .flops = attention_flops(s, gradient ? 5 : 2)};
  for (const int64_t bytes : {q, k, k}) call.tensors.push_back({bytes, AccessKind::kRead});
  const AccessKind kept = gradient ? AccessKind::kRead : AccessKind::kWrite;
  call.tensors.push_back({q, kept});
  call.tensors.push_back({lse, kept});
  if (!gradient) return call;
  call.tensors.push_back({q, AccessKind::kRead});
  for (const int64_t bytes : {q, k, k}) call.tensors.push_back({bytes, AccessKind::kWrite});
  return call;
}

}  // namespace

// cuDNN's attention is for bf16 only (module/cudnn_attention.cc).
Result<Prepared> ListingDriver::prepare_attention(const AttentionShape& shape) {
  if (shape.dtype != DType::kBF16) return refused("attention in f32");
  return keep(attention_call(shape, false));
}
Result<Prepared> ListingDriver::prepare_attention_grad(const AttentionShape& shape) {
  if (shape.dtype != DType::kBF16) return refused("attention in f32");
  return keep(attention_call(shape, true));
}

Status ListingDriver::run(At at, PreparedHandle operation, std::span<void* const>, void*) {
  const std::lock_guard lock(mutex_);
  ListedCall call = operations_.at(operation.bits - 1);
  call.label = std::string(at.label);
  add(std::move(call));
  return {};
}

}  // namespace gangway::bench
