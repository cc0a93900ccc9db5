#include "tests/cuda_kernels/op_kernel.h"

#include <cmath>

#include "tests/interpret/interpret.h"
#include "tests/op_table/cases.h"
#include "tests/support/seed.h"

namespace gangway::emulated {
namespace {

constexpr uint64_t kSeeds = 4;

double tolerance_of(DType dtype, DType of_case) {
  if (!is_float(dtype)) return 0;
  if (of_case == DType::kBF16) return 0.03;  // Some intermediates are rounded, some are not.
  return of_case == DType::kF64 && dtype == DType::kF64 ? 1e-11 : 2e-5;
}

bool close(double got, double want, double tolerance) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::fabs(got - want) <= tolerance * (1 + std::fabs(want));
}

}  // namespace

std::string suffix(DType dtype) { return cat("_", to_string(dtype)); }
std::string suffix(DType first, DType second) { return suffix(first) + suffix(second); }

OpRun::OpRun(Gpu& gpu, Op op, const Attrs& attrs, const std::vector<Literal>& inputs)
    : gpu_(gpu), op_(op), attrs_(attrs), inputs_(inputs) {
  for (const Literal& input : inputs_) {
    in_types_.push_back(input.type);
    std::vector<std::byte> bytes = to_bytes(input);
    const auto size = static_cast<int64_t>(bytes.size());
    if (bytes.empty()) bytes.emplace_back();
    ins_.push_back({gpu.upload(bytes, "input"), size, cuda::AccessKind::kRead});
  }
  out_types_ = infer_types(op, in_types_, attrs_);
  for (const Type& type : out_types_) {
    auto* data = gpu.buffer<std::byte>(std::max<int64_t>(type.bytes(), 1), "result");
    outs_.push_back({data, type.bytes(), cuda::AccessKind::kWrite});
  }
}

int64_t OpRun::rows() const {
  int64_t n = 1;
  for (size_t d = 0; d + 1 < in_type(0).dims.size(); ++d) n *= in_type(0).dims[d];
  return n;
}

Argument OpRun::scratch(int64_t bytes) {
  auto* data = gpu_.buffer<std::byte>(std::max<int64_t>(bytes, 1), "scratch");
  return {data, bytes, cuda::AccessKind::kWrite};
}

void OpRun::launch_shared(const std::string& kernel, int64_t blocks, uint32_t threads,
                          uint32_t shared_bytes, const std::vector<Argument>& tensors,
                          std::initializer_list<const void*> rest, size_t packed) {
  if (blocks == 0) return;
  std::vector<const void*> arguments;
  std::vector<cuda::Access> accesses;
  std::vector<const void*> pack;
  for (const Argument& tensor : tensors) {
    accesses.push_back({tensor.data, tensor.bytes, tensor.kind});
    if (pack.size() < packed) {
      pack.push_back(tensor.data);
    } else {
      arguments.push_back(&tensor.data);
    }
  }
  if (packed > 0) arguments.insert(arguments.begin(), pack.data());
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const Result<cuda::KernelHandle> handle = gpu_.driver.kernel({}, kernel);
  ASSERT_TRUE(handle.ok()) << kernel;
  ASSERT_TRUE(gpu_.driver
                  .launch(gpu_.at(kernel), {.kernel = handle.value(),
                                            .grid = {static_cast<uint32_t>(blocks)},
                                            .block = {threads},
                                            .shared_bytes = shared_bytes,
                                            .arguments = arguments,
                                            .accesses = accesses})
                  .ok());
}

void OpRun::run_own(const Result<cuda::OwnOperation>& own, size_t inputs) {
  ASSERT_TRUE(own.ok()) << own.error().message();
  std::vector<void*> tensors;
  for (size_t i = 0; i < inputs; ++i) tensors.push_back(in(i).data);
  for (size_t r = 0; r < outs_.size(); ++r) tensors.push_back(out(r).data);
  void* const space = scratch(own.value().scratch_bytes).data;
  ASSERT_TRUE(own.value().run(gpu_.driver, gpu_.at("own"), tensors, space).ok());
}

void OpRun::check() const {
  const std::vector<Literal> want = evaluate({op_, in_types_, attrs_}, inputs_);
  for (size_t r = 0; r < want.size(); ++r) {
    const Type& type = out_types_[r];
    const Literal got =
        from_bytes(type, gpu_.download(static_cast<const std::byte*>(outs_[r].data), type.bytes()));
    DType of_case = type.dtype;
    for (const Type& in : in_types_) {
      if (in.dtype == DType::kBF16) of_case = in.dtype;
    }
    for (size_t i = 0; i < got.values.size(); ++i) {
      ASSERT_TRUE(close(got.values[i], want[r].values[i], tolerance_of(type.dtype, of_case)))
          << "result " << r << ", element " << i << ": got " << got.values[i] << ", want "
          << want[r].values[i];
    }
  }
}

void check_case(Op op, const Attrs& attrs, const std::vector<Literal>& inputs, uint64_t seed,
                const std::function<void(OpRun&)>& program) {
  EmulatedMachine machine({.seed = seed});
  Gpu gpu(machine);
  OpRun run(gpu, op, attrs, inputs);
  program(run);
  run.check();
  EXPECT_EQ(machine.report_text(), "");
}

void check_op(Op op, const std::function<void(OpRun&)>& program) {
  const uint64_t first = tests::test_seed();
  int ran = 0;
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const op_table::OpCase& test : op_table::all_cases(dtype)) {
      if (test.op != op) continue;
      for (uint64_t seed = first; seed < first + kSeeds; ++seed) {
        SCOPED_TRACE(cat(to_string(op), " of ", to_string(dtype), ", seed ", seed));
        Rng rng(seed, 3);
        check_case(op, test.attrs, test.make(rng), seed, program);
        if (::testing::Test::HasFailure()) return;
        ++ran;
      }
    }
  }
  EXPECT_GT(ran, 0) << "the op table has no case";
}

}  // namespace gangway::emulated
