// exp, log, log1p, expm1, tanh, erf, logistic of f32 vectors within 4 ulp; f64 goes to libm lane by
// lane. Polynomials are weighted least-squares (Lawson) fits for the intervals that stand beside
// them.

inline vf fma_chain(vf, vf acc) { return acc; }
// Horner: coefficients from the highest power down.
template <class... Rest>
inline vf fma_chain(vf x, vf acc, float next, Rest... rest) {
  return fma_chain(x, acc * x + next, rest...);
}

inline vf abs_of(vf x) { return (vf)((vu)x & 0x7FFFFFFFu); }
inline vd abs_of(vd x) { return (vd)((vl)x & INT64_MAX); }
inline vf copy_sign(vf magnitude, vf sign) {
  return (vf)(((vu)magnitude & 0x7FFFFFFFu) | ((vu)sign & 0x80000000u));
}

// e^x = 2^whole * (1 + rest), with |x - whole * ln 2| at most ln 2 / 2.
struct ExpParts {
  vf whole, rest;
};
inline ExpParts exp_parts(vf x) {
  // 1.5 * 2^23: adding it rounds to an integer in the low bits.
  constexpr float kMagic = 12582912.0f;
  const vf whole = (x * 1.44269504f + kMagic) - kMagic;
  // ln 2 in two parts; the first has few bits, so that its product is exact without FMA too.
  const vf r = (x - whole * 0.693359375f) - whole * -2.12194440e-4f;
  // (exp(r) - 1 - r) / r^2 on [-ln2 / 2, ln2 / 2].
  const vf p = fma_chain(r, vf{} + 0.00139012868464f, 0.00836320002126f, 0.0416668543703f,
                         0.166665769625f, 0.499999995498f);
  return {whole, p * r * r + r};
}

inline vf exp_of(vf x) {
  const ExpParts parts = exp_parts(limit(x, -104.0f, 89.0f));
  return scale_by_power(parts.rest + 1.0f, parts.whole);
}

// Below -30 the result is -1 in f32.
inline vf expm1_of(vf x) {
  const ExpParts parts = exp_parts(limit(x, -30.0f, 89.0f));
  const vf lost = scale_by_power(vf{} + 1.0f, -parts.whole);  // 1, in units of 2^whole.
  return scale_by_power(parts.rest + (1.0f - lost), parts.whole);
}

inline vf log_of(vf x) {
  const vi tiny = x < 1.17549435e-38f;
  const vf scaled = tiny ? x * 8388608.0f : x;
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const vi bits = (vi)scaled - 0x3F3504F3;
  const vi exponent = (bits >> 23) + (tiny ? vi{} - 23 : vi{});
  const vf f = (vf)((bits & 0x007FFFFF) + 0x3F3504F3) - 1.0f;
  // (log(1 + f) - f + f^2 / 2) / f^3.
  const vf p = fma_chain(f, vf{} + 0.0674645482341f, -0.116756233678f, 0.118882320948f,
                         -0.124055972236f, 0.142195432615f, -0.166679951464f, 0.20002119143f,
                         -0.250000096168f, 0.333333125955f);
  const vf e = __builtin_convertvector(exponent, vf);
  const vf square = f * f;
  vf y = p * f * square + e * -2.12194440e-4f;
  y = y - 0.5f * square;
  y = (f + y) + e * 0.693359375f;
  y = x < __builtin_inff() ? y : x;  // +inf and NaN
  y = x == 0.0f ? vf{} - __builtin_inff() : y;
  return x < 0.0f ? vf{} + __builtin_nanf("") : y;
}

inline vf log1p_of(vf x) {
  const vf u = x + 1.0f;
  const vf lost = (x - (u - 1.0f)) / u;
  const vf y = log_of(u) + lost;
  const vf finite = ((u > 0.0f) & (x < __builtin_inff())) ? y : log_of(u);
  return u == 1.0f ? x : finite;
}

inline vf tanh_of(vf x) {
  const vf a = abs_of(x);
  const vf z = x * x;
  // (tanh(x) / x - 1) / z on z in [0, 0.4].
  const vf p = fma_chain(z, vf{} + 0.00226958041002f, -0.00832326611164f, 0.0217625307247f,
                         -0.05395846563f, 0.133333001664f, -0.333333331495f);
  const vf small = x + x * z * p;
  const vf large = 1.0f - 2.0f / (exp_of(a + a) + 1.0f);
  return a < 0.625f ? small : copy_sign(large, x);
}

inline vf erf_of(vf x) {
  const vf a = abs_of(x);
  const vf z = x * x;
  // erf(x) / x - 1 on z in [0, 0.86].
  const vf s = fma_chain(z, vf{} + 8.33408538215e-5f, -0.000813415684764f, 0.0052002763723f,
                         -0.0268590924009f, 0.112836899483f, -0.376126333711f, 0.128379166599f);
  const vf small = x + x * s;
  // log(1 - erf(a)) on [0.92, 4]; beyond, the result is 1 in f32.
  const vf c = a > 4.0f ? vf{} + 4.0f : a;
  const vf q = fma_chain(c, vf{} - 2.10954743134e-5f, 0.000434467253365f, -0.0041710842584f,
                         0.0251194801813f, -0.108280166493f, -0.633346840219f, -1.12951496134f,
                         0.000174690502989f);
  const vf large = copy_sign(1.0f - exp_of(q), x);
  const vf y = a < 0.925f ? small : large;
  return x == x ? y : x;
}

inline vf logistic_of(vf x) {
  const vf e = exp_of((vf)((vu)x | 0x80000000u));  // exp(-|x|)
  const vf y = (x < 0.0f ? e : vf{} + 1.0f) / (1.0f + e);
  return x == x ? y : x;
}

#define GW_LANEWISE(V, name, call)                           \
  inline V name(V x) {                                       \
    for (int i = 0; i < kLanesOf<V>; ++i) x[i] = call(x[i]); \
    return x;                                                \
  }
GW_LANEWISE(vd, exp_of, __builtin_exp)
GW_LANEWISE(vd, log_of, __builtin_log)
GW_LANEWISE(vd, log1p_of, __builtin_log1p)
GW_LANEWISE(vd, expm1_of, __builtin_expm1)
GW_LANEWISE(vd, tanh_of, __builtin_tanh)
GW_LANEWISE(vd, erf_of, __builtin_erf)
GW_LANEWISE(vd, floor_of, __builtin_floor)
GW_LANEWISE(vf, sin_of, __builtin_sinf)
GW_LANEWISE(vf, cos_of, __builtin_cosf)
GW_LANEWISE(vd, sin_of, __builtin_sin)
GW_LANEWISE(vd, cos_of, __builtin_cos)
#undef GW_LANEWISE

inline vd logistic_of(vd x) {
  const vd e = exp_of((vd)((vl)x | INT64_MIN));
  const vd y = (x < 0.0 ? e : vd{} + 1.0) / (1.0 + e);
  return x == x ? y : x;
}

inline vf pow_of(vf x, vf y) {
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_powf(x[i], y[i]);
  return x;
}
inline vd pow_of(vd x, vd y) {
  for (int i = 0; i < kLanesOf<vd>; ++i) x[i] = __builtin_pow(x[i], y[i]);
  return x;
}
