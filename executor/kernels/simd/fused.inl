// The interpreter of fused chains: loads, steps and stores of one unit after the other.

template <class V>
struct ElementOf {
  using T = decltype(V{}[0] + V{}[0]);
};
template <class V>
using Element = typename ElementOf<V>::T;

template <class V, class F>
inline void map1(const void* a, void* out, int64_t n, const F& f) {
  using T = Element<V>;
  for (int64_t i = 0; i < n; i += kLanesOf<V>) {
    store_raw(static_cast<T*>(out) + i, f(load_raw<V>(static_cast<const T*>(a) + i)));
  }
}
template <class V, class F>
inline void map2(const void* a, const void* b, void* out, int64_t n, const F& f) {
  using T = Element<V>;
  for (int64_t i = 0; i < n; i += kLanesOf<V>) {
    store_raw(static_cast<T*>(out) + i, f(load_raw<V>(static_cast<const T*>(a) + i),
                                          load_raw<V>(static_cast<const T*>(b) + i)));
  }
}
// Results that are bools: 0 or 1 in an i32.
template <class T, class F>
inline void test2(const void* a, const void* b, void* out, int64_t n, const F& f) {
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  auto* r = static_cast<int32_t*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = f(x[i], y[i]) ? 1 : 0;
}

template <class T>
inline void compare(FusedOp op, const void* a, const void* b, void* out, int64_t n) {
  switch (op) {
    case FusedOp::kEq: return test2<T>(a, b, out, n, [](T x, T y) { return x == y; });
    case FusedOp::kNe: return test2<T>(a, b, out, n, [](T x, T y) { return x != y; });
    case FusedOp::kLt: return test2<T>(a, b, out, n, [](T x, T y) { return x < y; });
    case FusedOp::kLe: return test2<T>(a, b, out, n, [](T x, T y) { return x <= y; });
    case FusedOp::kGt: return test2<T>(a, b, out, n, [](T x, T y) { return x > y; });
    default: return test2<T>(a, b, out, n, [](T x, T y) { return x >= y; });
  }
}

template <class T>
inline void choose(const void* condition, const void* a, const void* b, void* out, int64_t n) {
  auto* c = static_cast<const int32_t*>(condition);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
  auto* r = static_cast<T*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const T yes = x[i], no = y[i];  // Both read always: the loop then needs no branch.
    r[i] = c[i] != 0 ? yes : no;
  }
}

// How the results of a step of floats are rounded: to their own type, or to bf16.
enum class Rounding { kNone, kBf16, kNativeBf16 };

template <class V, Rounding kRounding>
inline void float_step(FusedOp op, const void* a, const void* b, void* out, int64_t n) {
  using T = Element<V>;
  const V one = V{} + T{1};
  auto finish = [](V y) {
    if constexpr (kRounding != Rounding::kNone)
      y = through_bf16 < kRounding == Rounding::kNativeBf16 > (y);
    return y;
  };
  auto unary = [&](auto f) { map1<V>(a, out, n, [=](V x) { return finish(f(x)); }); };
  auto binary = [&](auto f) { map2<V>(a, b, out, n, [=](V x, V y) { return finish(f(x, y)); }); };
  switch (op) {
    case FusedOp::kNeg: return unary([](V x) { return -x; });
    case FusedOp::kAbs: return unary([](V x) { return abs_of(x); });
    case FusedOp::kSign: return unary([=](V x) { return x > T{0} ? one : (x < T{0} ? -one : x); });
    case FusedOp::kExp: return unary([](V x) { return exp_of(x); });
    case FusedOp::kLog: return unary([](V x) { return log_of(x); });
    case FusedOp::kLog1p: return unary([](V x) { return log1p_of(x); });
    case FusedOp::kExpm1: return unary([](V x) { return expm1_of(x); });
    case FusedOp::kTanh: return unary([](V x) { return tanh_of(x); });
    case FusedOp::kSqrt: return unary([](V x) { return sqrt_of(x); });
    case FusedOp::kRsqrt: return unary([=](V x) { return one / sqrt_of(x); });
    case FusedOp::kErf: return unary([](V x) { return erf_of(x); });
    case FusedOp::kLogistic: return unary([](V x) { return logistic_of(x); });
    case FusedOp::kSin: return unary([](V x) { return sin_of(x); });
    case FusedOp::kCos: return unary([](V x) { return cos_of(x); });
    case FusedOp::kFloor: return unary([](V x) { return floor_of(x); });
    case FusedOp::kAdd: return binary([](V x, V y) { return x + y; });
    case FusedOp::kSub: return binary([](V x, V y) { return x - y; });
    case FusedOp::kMul: return binary([](V x, V y) { return x * y; });
    case FusedOp::kDiv: return binary([](V x, V y) { return x / y; });
    case FusedOp::kMax: return binary([](V x, V y) { return max_of(x, y); });
    case FusedOp::kMin: return binary([](V x, V y) { return min_of(x, y); });
    case FusedOp::kPow: return binary([](V x, V y) { return pow_of(x, y); });
    case FusedOp::kIsFinite: return test2<T>(a, a, out, n, [](T x, T y) { return x - y == T{0}; });
    default: return compare<T>(op, a, b, out, n);
  }
}

inline int32_t divide(int32_t x, int32_t y) {
  if (y == 0) return 0;
  return y == -1 ? static_cast<int32_t>(0u - static_cast<uint32_t>(x)) : x / y;
}

inline int32_t integer_power(int32_t base, int32_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : (base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0);
  uint32_t result = 1, factor = static_cast<uint32_t>(base);
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if ((exponent & 1) != 0) result *= factor;
  }
  return static_cast<int32_t>(result);
}

template <class F>
inline void int_lanes(const void* a, const void* b, void* out, int64_t n, const F& f) {
  auto* x = static_cast<const int32_t*>(a);
  auto* y = static_cast<const int32_t*>(b);
  auto* r = static_cast<int32_t*>(out);
  for (int64_t i = 0; i < n; ++i) r[i] = f(x[i], y[i]);
}

inline void int_step(FusedOp op, const void* a, const void* b, void* out, int64_t n) {
  switch (op) {  // Unsigned vectors where i32 may wrap.
    case FusedOp::kNeg: return map1<vu>(a, out, n, [](vu x) { return 0u - x; });
    case FusedOp::kAbs: return map1<vu>(a, out, n, [](vu x) { return (vi)x < 0 ? 0u - x : x; });
    case FusedOp::kSign: return map1<vi>(a, out, n, [](vi x) { return (x < 0) - (x > 0); });
    case FusedOp::kNot: return map1<vi>(a, out, n, [](vi x) { return x ^ 1; });
    case FusedOp::kIsFinite: return map1<vi>(a, out, n, [](vi) { return vi{} + 1; });
    case FusedOp::kFloor: return map1<vi>(a, out, n, [](vi x) { return x; });
    case FusedOp::kAdd: return map2<vu>(a, b, out, n, [](vu x, vu y) { return x + y; });
    case FusedOp::kSub: return map2<vu>(a, b, out, n, [](vu x, vu y) { return x - y; });
    case FusedOp::kMul: return map2<vu>(a, b, out, n, [](vu x, vu y) { return x * y; });
    case FusedOp::kMax: return map2<vi>(a, b, out, n, [](vi x, vi y) { return x > y ? x : y; });
    case FusedOp::kMin: return map2<vi>(a, b, out, n, [](vi x, vi y) { return x < y ? x : y; });
    case FusedOp::kAnd: return map2<vi>(a, b, out, n, [](vi x, vi y) { return x & y; });
    case FusedOp::kOr: return map2<vi>(a, b, out, n, [](vi x, vi y) { return x | y; });
    case FusedOp::kDiv: return int_lanes(a, b, out, n, divide);
    case FusedOp::kPow: return int_lanes(a, b, out, n, integer_power);
    default: return compare<int32_t>(op, a, b, out, n);
  }
}

inline int32_t saturate(double x) {
  if (!(x > -2147483648.0)) return x != x ? 0 : INT32_MIN;
  return x < 2147483647.0 ? static_cast<int32_t>(x) : INT32_MAX;
}

template <class From>
inline void convert_step(const FusedStep& s, const From* x, void* out, int64_t n) {
  if (s.dtype == DType::kBool) {
    return test2<From>(x, x, out, n, [](From a, From) { return a != From{0}; });
  }
  if (s.to == FusedClass::kFloat) {
    for (int64_t i = 0; i < n; ++i) static_cast<float*>(out)[i] = static_cast<float>(x[i]);
  } else if (s.to == FusedClass::kDouble) {
    for (int64_t i = 0; i < n; ++i) static_cast<double*>(out)[i] = static_cast<double>(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) {
      static_cast<int32_t*>(out)[i] = saturate(static_cast<double>(x[i]));
    }
  }
}

inline void fused_step(const FusedStep& s, const void* const* at, void* out, int64_t n,
                       bool native) {
  const void *a = at[s.in[0]], *b = at[s.in[1]];
  if (s.op == FusedOp::kSelect) {
    if (s.to == FusedClass::kFloat) choose<float>(a, b, at[s.in[2]], out, n);
    if (s.to == FusedClass::kDouble) choose<double>(a, b, at[s.in[2]], out, n);
    if (s.to == FusedClass::kInt) choose<int32_t>(a, b, at[s.in[2]], out, n);
  } else if (s.op == FusedOp::kConvert) {
    if (s.from == FusedClass::kFloat) convert_step(s, static_cast<const float*>(a), out, n);
    if (s.from == FusedClass::kDouble) convert_step(s, static_cast<const double*>(a), out, n);
    if (s.from == FusedClass::kInt) convert_step(s, static_cast<const int32_t*>(a), out, n);
  } else if (s.from == FusedClass::kFloat) {
    if (s.dtype != DType::kBF16) return float_step<vf, Rounding::kNone>(s.op, a, b, out, n);
    if (native) return float_step<vf, Rounding::kNativeBf16>(s.op, a, b, out, n);
    return float_step<vf, Rounding::kBf16>(s.op, a, b, out, n);
  } else if (s.from == FusedClass::kDouble) {
    float_step<vd, Rounding::kNone>(s.op, a, b, out, n);
  } else {
    int_step(s.op, a, b, out, n);
  }
  if (s.dtype == DType::kBF16) map1<vf>(out, out, n, [](vf x) { return round_bf16(x); });
}

// The elements [first, first + n) of an input into a slot, followed by zeros up to `padded`.
inline void load_slot(DType dtype, const void* memory, int64_t first, int64_t n, int64_t padded,
                      void* slot) {
  if (dtype == DType::kF64) {
    auto* out = static_cast<double*>(slot);
    __builtin_memcpy(out, static_cast<const double*>(memory) + first, static_cast<size_t>(n) * 8);
    for (int64_t i = n; i < padded; ++i) out[i] = 0;
    return;
  }
  auto* out = static_cast<int32_t*>(slot);
  if (dtype == DType::kBF16) {
    auto* in = static_cast<const bf16*>(memory) + first;
    // The last store may pass n by less than a vector: slots have that much room behind them.
    for_vectors<vf>(n, [&](int64_t i, auto... tail) {
      prefetch(in + i, n * 2);
      store_raw(out + i, load(in + i, tail...));
    });
  } else if (dtype == DType::kBool) {
    auto* in = static_cast<const uint8_t*>(memory) + first;
    for (int64_t i = 0; i < n; ++i) out[i] = in[i] != 0 ? 1 : 0;
  } else {
    __builtin_memcpy(out, static_cast<const int32_t*>(memory) + first, static_cast<size_t>(n) * 4);
  }
  for (int64_t i = n; i < padded; ++i) out[i] = 0;
}

inline void fill_slot(DType dtype, const void* memory, int64_t index, int64_t first, int64_t n,
                      void* slot) {
  alignas(64) double one[kFusedQuantum];  // One element, loaded and converted as any other.
  load_slot(dtype, memory, index, 1, 1, one);
  if (dtype == DType::kF64) {
    for (int64_t i = 0; i < n; ++i) static_cast<double*>(slot)[first + i] = one[0];
  } else {
    int32_t bits;
    __builtin_memcpy(&bits, one, 4);
    for (int64_t i = 0; i < n; ++i) static_cast<int32_t*>(slot)[first + i] = bits;
  }
}

inline void store_slot(const FusedStore& s, const void* slot, void* memory, int64_t first,
                       int64_t n) {
  const DType dtype = s.dtype;
  if (dtype == DType::kF64) {
    __builtin_memcpy(static_cast<double*>(memory) + first, slot, static_cast<size_t>(n) * 8);
  } else if (dtype == DType::kBF16) {
    auto* out = static_cast<bf16*>(memory) + first;
    auto* in = static_cast<const float*>(slot);
    if (s.rounded) {
      for_vectors<vf>(n, [&](int64_t i, auto... tail) {
        store_raw(out + i, narrow((vu)load(in + i) >> 16), tail...);
      });
    } else {
      for_vectors<vf>(n, [&](int64_t i, auto... tail) { store(out + i, load(in + i), tail...); });
    }
  } else if (dtype == DType::kBool) {
    auto* out = static_cast<uint8_t*>(memory) + first;
    for (int64_t i = 0; i < n; ++i)
      out[i] = static_cast<uint8_t>(static_cast<const int32_t*>(slot)[i]);
  } else {
    __builtin_memcpy(static_cast<int32_t*>(memory) + first, slot, static_cast<size_t>(n) * 4);
  }
}

struct FusedUnit {
  int64_t row, col, rows, cols, padded;
};

// Where the unit's elements of one input are: in memory as they lie if they can be used so, else in
// the slot.
inline const void* fused_load(const FusedLoad& l, const FusedSpace& space, const FusedUnit& u,
                              const void* memory, void* slot) {
  const int64_t n = u.rows * u.cols;
  if (l.kind == FusedInput::kOuter) {
    for (int64_t r = 0; r < u.rows; ++r) {
      fill_slot(l.dtype, memory, u.row + r, r * u.cols,
                r + 1 < u.rows ? u.cols : u.padded - r * u.cols, slot);
    }
    return slot;
  }
  if (l.kind == FusedInput::kInner && u.rows > 1) {
    for (int64_t r = 0; r < u.rows; ++r) {
      char* at = static_cast<char*>(slot) + r * u.cols * (l.dtype == DType::kF64 ? 8 : 4);
      const int64_t room = r + 1 < u.rows ? u.cols : u.padded - r * u.cols;
      load_slot(l.dtype, memory, 0, u.cols, room, at);
    }
    return slot;
  }
  const int64_t first = l.kind == FusedInput::kInner ? u.col : u.row * space.inner + u.col;
  if (n == u.padded &&
      (l.dtype == DType::kF32 || l.dtype == DType::kF64 || l.dtype == DType::kI32)) {
    const int64_t size = l.dtype == DType::kF64 ? 8 : 4;
    const char* at = static_cast<const char*>(memory) + first * size;
    for (int64_t i = 0; i < n * size; i += 64) prefetch(at + i, n * size);
    return at;
  }
  load_slot(l.dtype, memory, first, n, u.padded, slot);
  return slot;
}

inline int64_t fused_bytes(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (dtype == DType::kBF16) return 2;
  return dtype == DType::kF64 ? 8 : 4;
}

// Ends at the first bit that is set, as a rule in the first bytes.
inline bool all_zero(const char* bytes, int64_t n) {
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) {
    uint64_t words[8], any = 0;
    __builtin_memcpy(words, bytes + i, 64);
    for (uint64_t word : words) any |= word;
    if (any != 0) return false;
  }
  for (; i < n; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

// Copies results of units whose full inputs are zeros in every bit. Where no input is of a row or a
// column, such units have equal results: the first is computed, and its results are copied for the
// others. Rows of experts have room behind them that is zeros.
class ZeroUnits {
 public:
  ZeroUnits(const FusedPlan& plan, const void* const* inputs, void* const* outputs)
      : plan_(plan), inputs_(inputs), outputs_(outputs) {}

  // Whether the elements [first, first + n) were copied from an earlier unit. Otherwise they are to
  // be computed.
  bool copied(int64_t first, int64_t n) {
    if (plan_.rows || !is_zero(first, n)) return false;
    if (size_ < n) {
      first_ = first;
      size_ = n;
      return false;
    }
    for (const FusedStore& s : plan_.stores) {
      const int64_t bytes = fused_bytes(s.dtype);
      auto* out = static_cast<char*>(outputs_[s.output]);
      __builtin_memcpy(out + first * bytes, out + first_ * bytes, static_cast<size_t>(n * bytes));
    }
    return true;
  }

 private:
  bool is_zero(int64_t first, int64_t n) const {
    for (const FusedLoad& l : plan_.loads) {
      const int64_t bytes = fused_bytes(l.dtype);
      auto* at = static_cast<const char*>(inputs_[l.input]) + first * bytes;
      if (l.kind == FusedInput::kFull && !all_zero(at, n * bytes)) return false;
    }
    return true;
  }

  const FusedPlan& plan_;
  const void* const* inputs_;
  void* const* outputs_;
  int64_t first_ = 0, size_ = 0;  // The unit that the others are copied from; no size: none yet.
};

void fused_units(const FusedPlan& plan, const FusedSpace& space, const void* const* inputs,
                 void* const* outputs, int64_t begin, int64_t end) {
  // One quantum more than the slots: a vector load of a row inside a slot may touch it.
  alignas(64) char slots[kFusedSlotBytes + kFusedQuantum * 8];
  const void* at[kFusedValuesMax] = {};
  auto slot = [&](int32_t s) { return slots + s * plan.slot_bytes; };
  // Constants and scalars, which are the same for all units, are filled in once, for as many
  // elements as the largest unit has.
  const int64_t filled =
      round_up((space.outer < space.unit_rows ? space.outer : space.unit_rows) *
                   (space.inner < space.unit_cols ? space.inner : space.unit_cols),
               kFusedQuantum);

  for (const FusedStep& s : plan.constants) {
    alignas(8) char bytes[8];
    if (s.to == FusedClass::kDouble) {
      __builtin_memcpy(bytes, &s.immediate, 8);
    } else if (s.to == FusedClass::kFloat) {
      vf x = vf{} + static_cast<float>(s.immediate);
      if (s.dtype == DType::kBF16) x = round_bf16(x);
      __builtin_memcpy(bytes, &x, 4);
    } else {
      const int32_t x = s.dtype == DType::kBool ? s.immediate != 0 : saturate(s.immediate);
      __builtin_memcpy(bytes, &x, 4);
    }
    const DType held = s.to == FusedClass::kDouble ? DType::kF64 : DType::kI32;
    fill_slot(held, bytes, 0, 0, filled, slot(s.slot));
    at[s.value] = slot(s.slot);
  }
  for (const FusedLoad& l : plan.loads) {
    if (l.kind != FusedInput::kScalar) continue;
    fill_slot(l.dtype, inputs[l.input], 0, 0, filled, slot(l.slot));
    at[l.input] = slot(l.slot);
  }

  ZeroUnits zeros(plan, inputs, outputs);
  int64_t tiled_rows = 0;  // Rows for which kInner inputs already lie in their slots.
  for (int64_t unit = begin; unit < end; ++unit) {
    FusedUnit u;
    u.row = unit / space.units_across * space.unit_rows;
    u.col = unit % space.units_across * space.unit_cols;
    u.rows = space.outer - u.row < space.unit_rows ? space.outer - u.row : space.unit_rows;
    u.cols = space.inner - u.col < space.unit_cols ? space.inner - u.col : space.unit_cols;
    const int64_t n = u.rows * u.cols;
    u.padded = round_up(n, kFusedQuantum);
    const int64_t first = u.row * space.inner + u.col;
    if (zeros.copied(first, n)) continue;

    for (const FusedLoad& l : plan.loads) {
      if (l.kind == FusedInput::kScalar) continue;
      if (l.kind == FusedInput::kInner && u.rows > 1 && u.rows == tiled_rows) continue;
      at[l.input] = fused_load(l, space, u, inputs[l.input], slot(l.slot));
    }
    tiled_rows = u.rows > 1 ? u.rows : 0;
    for (const FusedStep& s : plan.steps) {
      fused_step(s, at, slot(s.slot), u.padded, space.native);
      at[s.value] = slot(s.slot);
    }
    for (const FusedStore& s : plan.stores) {
      store_slot(s, at[s.value], outputs[s.output], first, n);
    }
  }
}
