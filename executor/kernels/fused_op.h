// Numbers of the element-wise ops of a chain, which kernels on a card use too.
//
// It has a file of its own, without C++ that compilers for cards can't read.
#pragma once

#include <cstdint>

namespace gangway {

enum class FusedOp : uint8_t {
  kConstant,  // `immediate`, of the instruction's type
  kNeg,
  kAbs,
  kSign,
  kExp,
  kLog,
  kLog1p,
  kExpm1,
  kTanh,
  kSqrt,
  kRsqrt,
  kErf,
  kLogistic,
  kSin,
  kCos,
  kFloor,
  kIsFinite,
  kNot,
  kConvert,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMax,
  kMin,
  kPow,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kSelect,  // in[0] (bool) ? in[1] : in[2]
};

}  // namespace gangway
