// Reductions and prefix sums over one axis: x[outer, axis, inner] -> y[outer, inner].
//
// An axis is cut into pieces of a length that follows from the shape alone, and grid.y takes turns
// with them; piece p of line j goes to y[p * lines + j], and a second launch joins the pieces, many
// threads for each line. Rows (inner is 1) take a block each, columns a thread each. The order of
// additions follows from shapes alone, and so do the bits.
#include "executor/devices/cuda/kernels/block_reduce.h"
#include "executor/devices/cuda/kernels/many/many_tensors.h"
#include "executor/devices/cuda/kernels/math.h"
#include "executor/devices/cuda/kernels/row.h"

namespace gangway::cuda {

template <class T>
struct Bounds {
  static GW_DEVICE T lowest() { return -static_cast<T>(INFINITY); }
  static GW_DEVICE T highest() { return static_cast<T>(INFINITY); }
};
template <>
struct Bounds<int32_t> {
  static GW_DEVICE int32_t lowest() { return -2147483647 - 1; }
  static GW_DEVICE int32_t highest() { return 2147483647; }
};

struct AddUp {
  template <class T>
  GW_DEVICE static T identity() {
    return T(0);
  }
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return op_add(a, b);
  }
  template <class T>
  GW_DEVICE static T term(T x) {
    return x;
  }
};
struct AddSquares : AddUp {
  template <class T>
  GW_DEVICE static T term(T x) {
    return x * x;
  }
};
struct KeepMax {
  template <class T>
  GW_DEVICE static T identity() {
    return Bounds<T>::lowest();
  }
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return op_max(a, b);
  }
  template <class T>
  GW_DEVICE static T term(T x) {
    return x;
  }
};
struct KeepMin {
  template <class T>
  GW_DEVICE static T identity() {
    return Bounds<T>::highest();
  }
  template <class T>
  GW_DEVICE T operator()(T a, T b) const {
    return op_min(a, b);
  }
  template <class T>
  GW_DEVICE static T term(T x) {
    return x;
  }
};

// An empty axis has one piece, too.
GW_DEVICE int64_t pieces_of(int64_t axis, int64_t piece) {
  return axis > piece ? (axis + piece - 1) / piece : 1;
}

// Piece p of a line, by a block.
template <class Join, class From>
GW_DEVICE WideOf<From> reduce_piece(Global<const From> line, int64_t axis, int64_t piece,
                                    int64_t p) {
  using W = WideOf<From>;
  const int64_t begin = p * piece;
  const int64_t end = begin + piece < axis ? begin + piece : axis;
  W all = Join::template identity<W>();
  const auto take = [&](int64_t from, auto width) {
    const auto strip = load_strip<width.kCount>(line, from);
    GW_UNROLL for (int e = 0; e < width.kCount; ++e) all =
        Join()(all, Join::template term<W>(strip.at[e]));
  };
  constexpr int kCount = 16 / sizeof(From);  // Divides a piece.
  const bool strips = axis % kCount == 0;
  const int64_t step = strips ? kCount : 1;
  for (int64_t c = begin + thread_index().x * step; c < end; c += block_size().x * step) {
    if (strips) {
      take(c, Width<kCount>());
    } else {
      take(c, Width<1>());
    }
  }
  return reduce_block<Join, W>(all, Join::template identity<W>());
}

template <class Join, class From, class To>
GW_DEVICE void reduce_rows(Global<const From> x, Global<To> y, int64_t axis, int64_t piece) {
  const int64_t row = block_index().x;
  for (int64_t p = block_index().y; p < pieces_of(axis, piece); p += grid_size().y) {
    const auto all = reduce_piece<Join>(x + row * axis, axis, piece, p);
    if (thread_index().x == 0) y[p * grid_size().x + row] = narrow<To>(all);
  }
}

template <class T, int kMax>
struct ManyOf {
  Global<T> at[kMax];
};

// The squares of many tensors: piece p of them all to y[p].
template <int kMax, class From, class To>
GW_KERNEL_TEMPLATE void squares_many(ManyOf<const From, kMax> x, Global<To> y,
                                     ManyPieces<kMax> pieces) {
  const auto piece = static_cast<int32_t>(block_index().x);
  const int32_t tensor = tensor_of(pieces, piece);
  const auto all = reduce_piece<AddSquares>(x.at[tensor], pieces.elements[tensor], kReducePiece,
                                            piece - pieces.first[tensor]);
  if (thread_index().x == 0) y[piece] = narrow<To>(all);
}

template <class Join, class From, class To>
GW_DEVICE void reduce_columns(Global<const From> x, Global<To> y, int64_t outer, int64_t axis,
                              int64_t inner, int64_t piece) {
  using W = WideOf<From>;
  const int64_t lines = outer * inner;
  for (int64_t p = block_index().y; p < pieces_of(axis, piece); p += grid_size().y) {
    const int64_t begin = p * piece;
    const int64_t end = begin + piece < axis ? begin + piece : axis;
    for (int64_t j = global_thread(); j < lines; j += global_threads()) {
      const Global<const From> line = x + (j / inner * axis * inner + j % inner);
      constexpr int64_t kRun = 32;  // Sums of short runs are added: fewer roundings in a row.
      W all = Join::template identity<W>();
      for (int64_t first = begin; first < end; first += kRun) {
        const int64_t behind = first + kRun < end ? first + kRun : end;
        W run = Join::template identity<W>();
        for (int64_t a = first; a < behind; ++a) {
          const From value = line[a * inner];
          run = Join()(run, Join::template term<W>(widen(value)));
        }
        all = Join()(all, run);
      }
      y[p * lines + j] = narrow<To>(all);
    }
  }
}

// y[lines] from parts[pieces, lines]: `across` lines next to one another for each block, whose
// other threads share their pieces. block_size / across is a power of two. `first_line`: of the
// block.
template <class Join, class From, class To>
GW_DEVICE void join_lines(Global<const From> parts, Global<To> y, int64_t pieces, int64_t lines,
                          int32_t across, int64_t first_line) {
  using W = WideOf<From>;
  GW_SHARED(W, shared, kJoinThreadsMax);
  const auto thread = static_cast<int32_t>(thread_index().x);
  const int32_t share = thread / across;
  const int32_t shares = static_cast<int32_t>(block_size().x) / across;
  const int64_t line = first_line + thread % across;
  W all = Join::template identity<W>();
  if (line < lines) {
    constexpr int kAtOnce = 4;  // Loads that wait together.
    int64_t p = share;
    for (; p + (kAtOnce - 1) * shares < pieces; p += kAtOnce * shares) {
      W loaded[kAtOnce];
      GW_UNROLL for (int i = 0; i < kAtOnce; ++i) loaded[i] =
          wide_at(parts, (p + i * shares) * lines + line);
      GW_UNROLL for (int i = 0; i < kAtOnce; ++i) all = Join()(all, loaded[i]);
    }
    for (; p < pieces; p += shares) all = Join()(all, wide_at(parts, p * lines + line));
  }
  shared[thread] = all;
  for (int32_t half = shares / 2; half > 0; half /= 2) {
    sync_block();
    if (share >= half) continue;
    const W other = shared[thread + half * across];
    all = Join()(all, other);
    shared[thread] = all;
  }
  if (share == 0 && line < lines) y[line] = narrow<To>(all);
}

// The sum of each tensor's pieces, by a block each.
template <int kMax, class T>
GW_KERNEL_TEMPLATE void join_many(ManyOf<T, kMax> y, Global<const T> parts,
                                  ManyPieces<kMax> pieces) {
  const auto tensor = static_cast<int32_t>(block_index().x);
  const int64_t count = pieces_of(pieces.elements[tensor], kReducePiece);
  join_lines<AddUp>(parts + pieces.first[tensor], y.at[tensor], count, 1, 1, 0);
}

template <class T>
GW_DEVICE void argmax(Global<const T> x, Global<int32_t> y, int64_t outer, int64_t axis,
                      int64_t inner) {
  for (int64_t j = global_thread(); j < outer * inner; j += global_threads()) {
    const Global<const T> line = x + (j / inner * axis * inner + j % inner);
    int32_t best = 0;
    WideOf<T> top = 0;
    for (int64_t a = 0; a < axis; ++a) {
      const T value = line[a * inner];
      const WideOf<T> here = widen(value);
      if (a > 0 && top != top) break;  // The first NaN wins.
      if (a > 0 && !(here > top) && here == here) continue;
      best = static_cast<int32_t>(a);
      top = here;
    }
    y[j] = best;
  }
}

struct Lowest {
  GW_DEVICE int32_t operator()(int32_t a, int32_t b) const { return a < b ? a : b; }
};

// A block for each row: the largest of all, then the lowest index of a thread that has it.
template <class T>
GW_DEVICE void argmax_rows(Global<const T> x, Global<int32_t> y, int64_t axis) {
  using W = WideOf<T>;
  constexpr int32_t kNowhere = 2147483647;
  const Global<const T> row = x + block_index().x * axis;
  int32_t first = kNowhere;
  W top = Bounds<W>::lowest();
  for (int64_t a = thread_index().x; a < axis; a += block_size().x) {
    const W here = wide_at<T>(row, a);
    if (top != top) break;  // The first NaN wins.
    if (first != kNowhere && !(here > top) && here == here) continue;
    first = static_cast<int32_t>(a);
    top = here;
  }
  const W largest = reduce_block<Largest, W>(top, Bounds<W>::lowest());
  const bool has_it = top == largest || (top != top && largest != largest);
  const int32_t index = reduce_block<Lowest, int32_t>(has_it ? first : kNowhere, kNowhere);
  if (thread_index().x == 0) y[block_index().x] = index == kNowhere ? 0 : index;
}

// Type of a running sum: each element of the result has the precision of a sum of its own, however
// many elements were added before it.
template <class T>
struct RunningSum {
  using Type = double;
};
template <>
struct RunningSum<int32_t> {
  using Type = int32_t;
};

template <class T>
GW_DEVICE void cumsum(Global<const T> x, Global<T> y, int64_t outer, int64_t axis, int64_t inner) {
  for (int64_t j = global_thread(); j < outer * inner; j += global_threads()) {
    const int64_t first = j / inner * axis * inner + j % inner;
    using Running = typename RunningSum<T>::Type;
    Running sum = 0;
    for (int64_t a = 0; a < axis; ++a) {
      const T value = x[first + a * inner];
      sum = op_add(sum, static_cast<Running>(widen(value)));
      y[first + a * inner] = narrow<T>(static_cast<WideOf<T>>(sum));
    }
  }
}

template <class T>
GW_DEVICE void not_finite(Global<const T> x, Global<uint32_t> flag, int64_t n) {
  int32_t found = 0;
  for (int64_t i = global_thread(); i < n; i += global_threads()) {
    const T value = x[i];
    if (!op_is_finite(widen(value))) found = 1;
  }
  found = reduce_block<Largest, int32_t>(found, 0);
  if (thread_index().x == 0 && found != 0) raise(flag);
}

#define GW_REDUCE(name, join, of, from, to)                                               \
  GW_KERNEL void rows_##name##_##of(Global<const from> x, Global<to> y, int64_t axis,     \
                                    int64_t piece) {                                      \
    reduce_rows<join>(x, y, axis, piece);                                                 \
  }                                                                                       \
  GW_KERNEL void columns_##name##_##of(Global<const from> x, Global<to> y, int64_t outer, \
                                       int64_t axis, int64_t inner, int64_t piece) {      \
    reduce_columns<join>(x, y, outer, axis, inner, piece);                                \
  }
#define GW_REDUCES(of, from, to)        \
  GW_REDUCE(sum, AddUp, of, from, to)   \
  GW_REDUCE(max, KeepMax, of, from, to) \
  GW_REDUCE(min, KeepMin, of, from, to)
GW_REDUCES(i32_i32, int32_t, int32_t)
GW_REDUCES(bf16_bf16, bf16, bf16)
GW_REDUCES(bf16_f32, bf16, float)
GW_REDUCES(f32_bf16, float, bf16)
GW_REDUCES(f32_f32, float, float)
GW_REDUCES(f64_f64, double, double)
#undef GW_REDUCES
#undef GW_REDUCE

#define GW_JOIN(name, join, of, from, to)                                                   \
  GW_KERNEL void join_##name##_##of(Global<const from> parts, Global<to> y, int64_t pieces, \
                                    int64_t lines, int32_t across) {                        \
    join_lines<join>(parts, y, pieces, lines, across,                                       \
                     static_cast<int64_t>(block_index().x) * across);                       \
  }
#define GW_JOINS(of, from, to)        \
  GW_JOIN(sum, AddUp, of, from, to)   \
  GW_JOIN(max, KeepMax, of, from, to) \
  GW_JOIN(min, KeepMin, of, from, to)
GW_JOINS(i32_i32, int32_t, int32_t)
GW_JOINS(f32_bf16, float, bf16)
GW_JOINS(f32_f32, float, float)
GW_JOINS(f64_f64, double, double)
#undef GW_JOINS
#undef GW_JOIN

#define GW_SQUARES(of, from, to)                                                     \
  GW_KERNEL void rows_squares_##of(Global<const from> x, Global<to> y, int64_t axis, \
                                   int64_t piece) {                                  \
    reduce_rows<AddSquares>(x, y, axis, piece);                                      \
  }
GW_SQUARES(bf16_f32, bf16, float)
GW_SQUARES(f32_f32, float, float)
GW_SQUARES(f64_f64, double, double)
#undef GW_SQUARES

#define GW_OF_TYPE(of, type)                                                                       \
  GW_KERNEL void argmax_##of(Global<const type> x, Global<int32_t> y, int64_t outer, int64_t axis, \
                             int64_t inner) {                                                      \
    argmax(x, y, outer, axis, inner);                                                              \
  }                                                                                                \
  GW_KERNEL void argmax_rows_##of(Global<const type> x, Global<int32_t> y, int64_t axis) {         \
    argmax_rows(x, y, axis);                                                                       \
  }                                                                                                \
  GW_KERNEL void cumsum_##of(Global<const type> x, Global<type> y, int64_t outer, int64_t axis,    \
                             int64_t inner) {                                                      \
    cumsum(x, y, outer, axis, inner);                                                              \
  }
GW_OF_TYPE(i32, int32_t)
GW_OF_TYPE(bf16, bf16)
GW_OF_TYPE(f32, float)
GW_OF_TYPE(f64, double)
#undef GW_OF_TYPE

GW_KERNEL void not_finite_bf16(Global<const bf16> x, Global<uint32_t> flag, int64_t n) {
  not_finite(x, flag, n);
}
GW_KERNEL void not_finite_f32(Global<const float> x, Global<uint32_t> flag, int64_t n) {
  not_finite(x, flag, n);
}
GW_KERNEL void not_finite_f64(Global<const double> x, Global<uint32_t> flag, int64_t n) {
  not_finite(x, flag, n);
}

#define GW_JOIN_ENTRIES(of) \
  GW_ENTRY(join_sum_##of), GW_ENTRY(join_max_##of), GW_ENTRY(join_min_##of)
static_assert(kFewTensors == 32 && kManyTensors == 400);
#define GW_ENTRIES(of)                                                       \
  GW_ENTRY(rows_sum_##of), GW_ENTRY(rows_max_##of), GW_ENTRY(rows_min_##of), \
      GW_ENTRY(columns_sum_##of), GW_ENTRY(columns_max_##of), GW_ENTRY(columns_min_##of)
GW_KERNEL_TABLE(reduce, GW_ENTRIES(i32_i32), GW_ENTRIES(bf16_bf16), GW_ENTRIES(bf16_f32),
                GW_ENTRIES(f32_bf16), GW_ENTRIES(f32_f32), GW_ENTRIES(f64_f64),
                GW_JOIN_ENTRIES(i32_i32), GW_JOIN_ENTRIES(f32_bf16), GW_JOIN_ENTRIES(f32_f32),
                GW_JOIN_ENTRIES(f64_f64), GW_ENTRY(rows_squares_bf16_f32),
                GW_ENTRY(rows_squares_f32_f32), GW_ENTRY(rows_squares_f64_f64),
                GW_INSTANCE("squares_32_bf16_f32", squares_many<32, bf16, float>),
                GW_INSTANCE("squares_32_f32_f32", squares_many<32, float, float>),
                GW_INSTANCE("squares_32_f64_f64", squares_many<32, double, double>),
                GW_INSTANCE("squares_400_bf16_f32", squares_many<400, bf16, float>),
                GW_INSTANCE("squares_400_f32_f32", squares_many<400, float, float>),
                GW_INSTANCE("squares_400_f64_f64", squares_many<400, double, double>),
                GW_INSTANCE("join_squares_32_f32", join_many<32, float>),
                GW_INSTANCE("join_squares_32_f64", join_many<32, double>),
                GW_INSTANCE("join_squares_400_f32", join_many<400, float>),
                GW_INSTANCE("join_squares_400_f64", join_many<400, double>), GW_ENTRY(argmax_i32),
                GW_ENTRY(argmax_bf16), GW_ENTRY(argmax_f32), GW_ENTRY(argmax_f64),
                GW_ENTRY(argmax_rows_i32), GW_ENTRY(argmax_rows_bf16), GW_ENTRY(argmax_rows_f32),
                GW_ENTRY(argmax_rows_f64), GW_ENTRY(cumsum_i32), GW_ENTRY(cumsum_bf16),
                GW_ENTRY(cumsum_f32), GW_ENTRY(cumsum_f64), GW_ENTRY(not_finite_bf16),
                GW_ENTRY(not_finite_f32), GW_ENTRY(not_finite_f64));
#undef GW_ENTRIES
#undef GW_JOIN_ENTRIES

}  // namespace gangway::cuda
