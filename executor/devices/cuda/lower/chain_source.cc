#include "executor/devices/cuda/lower/chain_source.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "runtime/base/cat.h"

namespace gangway::cuda {
namespace {

// The type in memory, and the type that a thread computes with.
const char* stored(DType dtype) {
  constexpr std::array<const char*, kDTypeCount> kNames = {"bool", "int32_t", "bf16", "float",
                                                           "double"};
  return kNames[static_cast<size_t>(dtype)];
}
const char* computed(DType dtype) { return dtype == DType::kBF16 ? "float" : stored(dtype); }

std::string_view name_of(FusedOp op) {
  switch (op) {
    case FusedOp::kConstant: return "constant";
    case FusedOp::kNeg: return "neg";
    case FusedOp::kAbs: return "abs";
    case FusedOp::kSign: return "sign";
    case FusedOp::kExp: return "exp";
    case FusedOp::kLog: return "log";
    case FusedOp::kLog1p: return "log1p";
    case FusedOp::kExpm1: return "expm1";
    case FusedOp::kTanh: return "tanh";
    case FusedOp::kSqrt: return "sqrt";
    case FusedOp::kRsqrt: return "rsqrt";
    case FusedOp::kErf: return "erf";
    case FusedOp::kLogistic: return "logistic";
    case FusedOp::kSin: return "sin";
    case FusedOp::kCos: return "cos";
    case FusedOp::kFloor: return "floor";
    case FusedOp::kIsFinite: return "is_finite";
    case FusedOp::kNot: return "not";
    case FusedOp::kConvert: return "convert";
    case FusedOp::kAdd: return "add";
    case FusedOp::kSub: return "sub";
    case FusedOp::kMul: return "mul";
    case FusedOp::kDiv: return "div";
    case FusedOp::kMax: return "max";
    case FusedOp::kMin: return "min";
    case FusedOp::kPow: return "pow";
    case FusedOp::kEq: return "eq";
    case FusedOp::kNe: return "ne";
    case FusedOp::kLt: return "lt";
    case FusedOp::kLe: return "le";
    case FusedOp::kGt: return "gt";
    case FusedOp::kGe: return "ge";
    case FusedOp::kAnd: return "and";
    case FusedOp::kOr: return "or";
    case FusedOp::kSelect: return "select";
  }
  return "";
}

int operands_of(FusedOp op) {
  if (op == FusedOp::kConstant) return 0;
  if (op < FusedOp::kAdd) return 1;
  return op == FusedOp::kSelect ? 3 : 2;
}

// Floats are written by their bits, so that every number is exact.
std::string constant(DType dtype, double number) {
  switch (dtype) {
    case DType::kBool: return number != 0 ? "true" : "false";
    case DType::kI32: return cat("static_cast<int32_t>(", static_cast<int64_t>(number), "ll)");
    case DType::kF64: return cat("double_of_bits(", std::bit_cast<uint64_t>(number), "ull)");
    case DType::kBF16:
    case DType::kF32: break;
  }
  return cat("float_of_bits(", std::bit_cast<uint32_t>(static_cast<float>(number)), "u)");
}

// Rounds as a kernel does.
uint32_t bf16_bits(double number) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(number));
  if (number != number) return bits >> 16 | 0x40;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Whether the input differs between elements of a strip, rather than being one value for all of
// them.
bool is_along(FusedInput::Kind kind) {
  return kind == FusedInput::kFull || kind == FusedInput::kInner;
}

// `i` counts strips of elements, `inner` is strips too.
const char* index_of(FusedInput::Kind kind) {
  switch (kind) {
    case FusedInput::kFull: return "i";
    case FusedInput::kScalar: return "0";
    case FusedInput::kInner: return "i % inner";
    case FusedInput::kOuter: return "i / inner";
  }
  return "";
}

class Writer {
 public:
  Writer(const FusedProgram& program, int64_t width, std::vector<ChainRead> reads, bool small)
      : program_(program),
        width_(width),
        pairs_(width % 2 == 0),
        reads_(std::move(reads)),
        small_(small) {
    reads_.resize(program.inputs.size());
  }

  std::string run() {
    const auto viewed = [](const ChainRead& read) { return read.kind != ChainRead::kDense; };
    text_ = "#include \"executor/devices/cuda/kernels/math.h\"\n";
    if (std::ranges::any_of(reads_, viewed))
      text_ += "#include \"executor/devices/cuda/kernels/chain/row_reads.h\"\n";
    text_ += "namespace gangway::cuda {\n";
    text_ += "GW_KERNEL void chain(";
    for (size_t i = 0; i < program_.inputs.size(); ++i)
      text_ += cat("Global<const ", stored(program_.inputs[i].dtype), "> in", i, ", ");
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      text_ += cat("Global<", stored(program_.outputs[o].dtype), "> out", o, ", ");
    text_ += "int64_t outer, int64_t elements";
    for (size_t i = 0; i < reads_.size(); ++i) {
      if (viewed(reads_[i])) text_ += cat(", RowView<", reads_[i].rank, "> view", i);
    }
    text_ += ") {\n";
    text_ += cat("  const int64_t inner = elements / ", width_, ", n = outer * inner;\n");
    text_ += "  for (int64_t i = global_thread(); i < n; i += global_threads()) {\n";
    for (size_t i = 0; i < program_.inputs.size(); ++i) load(i);
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      text_ += cat("    ", strip(program_.outputs[o].dtype), " r", o, ";\n");
    text_ += cat("    GW_UNROLL for (int e = 0; e < ", width_, "; e += ", step(), ") {\n");
    for (size_t i = 0; i < program_.inputs.size(); ++i) widen(i);
    for (size_t c = 0; c < program_.code.size(); ++c) compute(c);
    for (size_t o = 0; o < program_.outputs.size(); ++o) narrow(o);
    text_ += "    }\n";
    for (size_t o = 0; o < program_.outputs.size(); ++o) store(o);
    text_ += "  }\n}\nGW_KERNEL_TABLE(module, GW_ENTRY(chain));\n}\n";
    return std::move(text_);
  }

 private:
  int step() const { return pairs_ ? 2 : 1; }
  // Pairs of bf16 stay in their words.
  bool in_words(DType dtype) const { return pairs_ && dtype == DType::kBF16; }
  std::string strip(DType dtype) const {
    if (in_words(dtype)) return cat("Strip<BfPair, ", width_ / 2, ">");
    return cat("Strip<", stored(dtype), ", ", width_, ">");
  }
  // Type of a value between instructions.
  std::string type(DType dtype) const {
    if (in_words(dtype)) return "BfPair";
    return pairs_ ? cat("Two<", computed(dtype), ">") : computed(dtype);
  }

  // Whether the input is loaded as a strip, rather than as one value for all elements of the strip.
  bool has_strip(size_t i) const {
    return is_along(program_.inputs[i].kind) && reads_[i].kind != ChainRead::kOnce;
  }

  void load(size_t i) {
    const FusedInput& input = program_.inputs[i];
    std::string at = index_of(input.kind);
    if (reads_[i].kind != ChainRead::kDense) {
      text_ += cat("    const int64_t p", i, " = place_of<", small_ ? "true" : "false", ">(view", i,
                   ", i);\n");
      at = cat("p", i);
    }
    if (!has_strip(i)) {
      text_ += cat("    const ", stored(input.dtype), " m", i, " = in", i, "[", at, "];\n");
      return;
    }
    const std::string of = strip(input.dtype);
    if (reads_[i].kind == ChainRead::kElements) {
      text_ +=
          cat("    ", of, " m", i, ";\n    Gathered<", stored(input.dtype), ">{in", i, " + ", at,
              ", view", i, ".strides[", reads_[i].rank - 1, "] / ", width_, "}.into(m", i, ");\n");
      return;
    }
    if (reads_[i].kind == ChainRead::kStrips) at += cat(" / ", width_);
    text_ +=
        cat("    const ", of, " m", i, " = as_vectors<const ", of, ">(in", i, ")[", at, "];\n");
  }
  void widen(size_t i) {
    const DType dtype = program_.inputs[i].dtype;
    const bool along = has_strip(i);
    const std::string m = cat("m", i);
    std::string made;
    if (in_words(dtype)) {
      made = along ? cat(m, ".at[e / 2]") : cat("twice(", m, ")");
    } else if (pairs_) {
      made = along ? cat("{widen(", m, ".at[e]), widen(", m, ".at[e + 1])}")
                   : cat("{widen(", m, "), widen(", m, ")}");
    } else {
      made = cat("widen(", m, along ? ".at[e])" : ")");
    }
    add(dtype, made);
  }

  // Appends a value.
  void add(DType dtype, const std::string& made) {
    text_ += cat("      const ", type(dtype), " v", dtypes_.size(), " = ", made, ";\n");
    dtypes_.push_back(dtype);
  }

  // Whether the card has an instruction that computes both elements of a pair.
  bool is_paired(const FusedInstruction& code) const {
    constexpr std::array kPaired = {FusedOp::kNeg, FusedOp::kAbs, FusedOp::kAdd, FusedOp::kSub,
                                    FusedOp::kMul};
    if (std::ranges::find(kPaired, code.op) == kPaired.end()) return false;
    bool words = in_words(code.dtype);
    for (int i = 0; i < operands_of(code.op); ++i)
      words = words && in_words(dtypes_[static_cast<size_t>(code.in[static_cast<size_t>(i)])]);
    return words;
  }

  // Text of the call for element `e` of a pair; `e` is empty where the values are taken whole.
  std::string call(const FusedInstruction& code, const char* e) const {
    if (code.op == FusedOp::kConstant) return constant(code.dtype, code.immediate);
    std::string made = cat("op_", name_of(code.op));
    if (code.op == FusedOp::kConvert) made += cat("<", computed(code.dtype), ">");
    made += "(";
    for (int i = 0; i < operands_of(code.op); ++i) {
      const std::string v = cat("v", code.in[static_cast<size_t>(i)]);
      made += cat(i > 0 ? ", " : "", *e == 0 ? v : cat("part(", v, ", ", e, ")"));
    }
    return made + ")";
  }
  void compute(size_t c) {
    const FusedInstruction& code = program_.code[c];
    if (code.op == FusedOp::kConstant && in_words(code.dtype))
      return add(code.dtype, cat("twice({", bf16_bits(code.immediate), "})"));
    if (is_paired(code)) return add(code.dtype, call(code, ""));
    if (!pairs_) {
      const std::string made = call(code, "");
      return add(code.dtype, code.dtype == DType::kBF16 ? cat("rounded(", made, ")") : made);
    }
    const std::string both = cat(call(code, "0"), ", ", call(code, "1"));
    add(code.dtype, in_words(code.dtype) ? cat("round_pair(", both, ")") : cat("{", both, "}"));
  }

  void narrow(size_t o) {
    const FusedOutput& output = program_.outputs[o];
    const DType dtype = dtypes_[static_cast<size_t>(output.value)];
    const std::string v = cat("v", output.value), r = cat("      r", o);
    if (in_words(output.dtype)) {
      const std::string made =
          in_words(dtype) ? v : cat("round_pair(part(", v, ", 0), part(", v, ", 1))");
      text_ += cat(r, ".at[e / 2] = ", made, ";\n");
    } else if (pairs_) {
      for (int e = 0; e < 2; ++e)
        text_ += cat(r, ".at[e + ", e, "] = narrow<", stored(output.dtype), ">(part(", v, ", ", e,
                     "));\n");
    } else {
      text_ += cat(r, ".at[e] = narrow<", stored(output.dtype), ">(", v, ");\n");
    }
  }
  void store(size_t o) {
    text_ +=
        cat("    as_vectors<", strip(program_.outputs[o].dtype), ">(out", o, ")[i] = r", o, ";\n");
  }

  const FusedProgram& program_;
  const int64_t width_;
  const bool pairs_;  // Two elements at a time.
  std::vector<ChainRead> reads_;
  const bool small_;
  std::vector<DType> dtypes_;  // Types of the values so far.
  std::string text_;
};

}  // namespace

int64_t chain_width(const FusedProgram& program) {
  constexpr size_t kBytes = 16, kWidthMax = 8;
  size_t smallest = kBytes;
  for (const FusedOutput& output : program.outputs)
    smallest = std::min(smallest, size_of(output.dtype));
  for (const FusedInput& input : program.inputs) {
    if (is_along(input.kind)) smallest = std::min(smallest, size_of(input.dtype));
  }
  return static_cast<int64_t>(std::min(kWidthMax, kBytes / smallest));
}

ChainRead read_by(const StridedView& view, DType dtype, int64_t begin, int64_t width) {
  if (view.rank == 0) return {};
  const int32_t last = view.rank - 1;
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  bool whole = view.source[last] == 1 && begin % (width * bytes) == 0;
  for (int32_t d = 0; d < last; ++d) whole = whole && view.source[d] % width == 0;
  const bool once = view.source[last] == 0;
  return {once ? ChainRead::kOnce : whole ? ChainRead::kStrips : ChainRead::kElements, view.rank};
}

std::string chain_source(const FusedProgram& program, int64_t width,
                         const std::vector<ChainRead>& reads, bool small) {
  return Writer(program, width, reads, small).run();
}

}  // namespace gangway::cuda
