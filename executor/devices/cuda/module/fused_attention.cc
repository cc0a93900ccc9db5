#include "executor/devices/cuda/module/fused_attention.h"

#include <utility>

#include "executor/devices/cuda/module/cudnn_attention.h"
#include "executor/devices/cuda/module/cudnn_graph.h"
#include "runtime/base/error.h"

namespace gangway::cuda {

// cuDNN's handle for one operation. Each operation has its own, since threads must not share a
// handle and one operation may be prepared while others run.
class CudnnSession {
 public:
  explicit CudnnSession(const Cudnn& found) : cudnn(found) {}
  ~CudnnSession() {
    if (handle != nullptr) cudnn.destroy_handle(handle);
  }
  CudnnSession(const CudnnSession&) = delete;

  const Cudnn cudnn;
  std::mutex mutex;  // Guards the handle, which has one stream at a time.
  cudnnHandle_t handle = nullptr;
};

namespace {

class Operation final : public FusedOperation {
 public:
  Operation(std::shared_ptr<CudnnSession> session, CudnnPlan plan)
      : session_(std::move(session)), plan_(std::move(plan)) {}
  int64_t scratch_bytes() const override { return plan_.scratch_bytes(); }
  Status run(cudaStream_t stream, std::string_view label, std::span<void* const> tensors,
             void* scratch) const override {
    const std::lock_guard lock(session_->mutex);
    return plan_.run(session_->handle, stream, label, tensors, static_cast<std::byte*>(scratch));
  }

 private:
  const std::shared_ptr<CudnnSession> session_;
  const CudnnPlan plan_;
};

Result<std::shared_ptr<CudnnSession>> open_session(const Cudnn& cudnn) {
  auto session = std::make_shared<CudnnSession>(cudnn);
  const Status made =
      session->cudnn.status_of(session->cudnn.create_handle(&session->handle), "fused attention");
  if (!made.ok()) return Error(ErrorKind::kUnimplemented, cat("cuda: ", made.text));
  return session;
}

Error refusal(const std::string& why) {
  return {ErrorKind::kUnimplemented, cat("cuda: cuDNN is not asked for attention of ", why)};
}

}  // namespace

FusedAttention::FusedAttention(uint32_t architecture) : architecture_(architecture) {}
FusedAttention::~FusedAttention() = default;

Result<std::shared_ptr<const FusedOperation>> FusedAttention::prepare(const AttentionShape& shape,
                                                                      AttentionPass pass) {
  // Shapes that no version of cuDNN supports are refused before cuDNN is loaded.
  if (std::string why = why_not_cudnn(shape, pass, SIZE_MAX); !why.empty()) return refusal(why);
  const std::lock_guard lock(mutex_);
  std::erase_if(made_, [](const Made& made) { return made.operation.expired(); });
  for (const Made& made : made_) {
    if (made.shape != shape || made.pass != pass) continue;
    if (auto operation = made.operation.lock()) return operation;
  }
  const Result<Cudnn> found = load_cudnn();
  if (!found.ok()) return found.error();
  const Cudnn& cudnn = found.value();
  if (std::string why = why_not_cudnn(shape, pass, cudnn.version()); !why.empty())
    return refusal(why);
  const GradientSums sums = gradient_sums(shape, architecture_);
  if (pass == AttentionPass::kGradient && shape.deterministic == true &&
      sums != GradientSums::kOrdered)
    return refusal("a deterministic program: its sums of queries would have no order");
  CudnnGraph graph(cudnn);
  if (pass == AttentionPass::kForward) build_attention(graph, shape);
  if (pass == AttentionPass::kGradient) build_attention_grad(graph, shape, sums);
  auto session = open_session(cudnn);
  if (!session.ok()) return session.error();
  Result<CudnnPlan> plan = graph.plan({.handle = session.value()->handle, .card = {}});
  // Any failure becomes kUnimplemented, so that the caller uses its own kernels.
  if (!plan.ok()) return Error(ErrorKind::kUnimplemented, plan.error().message());
  std::shared_ptr<const FusedOperation> operation =
      std::make_shared<const Operation>(session.take(), plan.take());
  made_.push_back({shape, pass, operation});
  return operation;
}

}  // namespace gangway::cuda
