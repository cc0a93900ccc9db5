#include "executor/kernels/dnnl_matmul.h"

#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/base/error.h"

// libgomp's; <omp.h> belongs to whichever compiler is in use, this library to oneDNN.
extern "C" void omp_set_num_threads(int threads);

namespace gangway {
namespace {

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

dnnl::memory::desc matrix(DType dtype, int64_t rows, int64_t cols, bool transposed, int64_t ld) {
  return {{rows, cols},
          type_of(dtype),
          transposed ? dnnl::memory::dims{1, ld} : dnnl::memory::dims{ld, 1}};
}

// oneDNN 2 takes the operands as a description of their own, oneDNN 3 one by one.
template <typename Primitive, typename... Operands>
typename Primitive::primitive_desc description(const dnnl::engine& engine,
                                               const dnnl::primitive_attr& attr,
                                               const Operands&... operands) {
  if constexpr (requires { typename Primitive::desc; }) {
    return {typename Primitive::desc(operands...), attr, engine};
  } else {
    return {engine, operands..., attr};
  }
}

}  // namespace

struct DnnlMatmul::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::memory::desc a, b, c, scratch;
  dnnl::matmul primitive;
};

DnnlMatmul::DnnlMatmul(const DnnlMatmulDesc& desc) {
  auto impl = std::make_unique<Impl>();
  try {
    impl->a = matrix(desc.in, desc.m, desc.k, desc.transpose_a, desc.lda);
    impl->b = matrix(desc.in, desc.k, desc.n, desc.transpose_b, desc.ldb);
    impl->c = matrix(desc.out, desc.m, desc.n, false, desc.ldc);
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (desc.accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attr.set_post_ops(ops);
    }
    const auto pd = description<dnnl::matmul>(impl->engine, attr, impl->a, impl->b, impl->c);
    impl->scratch = pd.scratchpad_desc();
    impl->primitive = dnnl::matmul(pd);
  } catch (const dnnl::error& error) {
    throw Error(ErrorKind::kUnimplemented,
                cat("dot: oneDNN refuses ", to_string(desc.in), " [", desc.m, ", ", desc.k, "] x [",
                    desc.k, ", ", desc.n, "] -> ", to_string(desc.out), ": ", error.what()));
  }
  impl_ = std::move(impl);
}

DnnlMatmul::~DnnlMatmul() = default;
DnnlMatmul::DnnlMatmul(DnnlMatmul&&) noexcept = default;
DnnlMatmul& DnnlMatmul::operator=(DnnlMatmul&&) noexcept = default;

size_t DnnlMatmul::scratch_bytes() const { return impl_->scratch.get_size(); }

void DnnlMatmul::run(const void* a, const void* b, void* c, void* scratch) const {
  // The setting belongs to the calling thread, and a worker may have been started since the last
  // call.
  omp_set_num_threads(1);
  auto memory = [&](const dnnl::memory::desc& desc, const void* data) {
    return dnnl::memory(desc, impl_->engine, const_cast<void*>(data));
  };
  const dnnl::memory ma = memory(impl_->a, a), mb = memory(impl_->b, b);
  const dnnl::memory mc = memory(impl_->c, c), ms = memory(impl_->scratch, scratch);
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, ma.get()},
                                  {DNNL_ARG_WEIGHTS, mb.get()},
                                  {DNNL_ARG_DST, mc.get()},
                                  {DNNL_ARG_SCRATCHPAD, ms.get()}};
  const dnnl::stream stream(impl_->engine);
  const dnnl_status_t status =
      dnnl_primitive_execute(impl_->primitive.get(), stream.get(), 4, args);
  GW_ASSERT(status == dnnl_success, "oneDNN matmul failed with status ", static_cast<int>(status));
}

}  // namespace gangway
