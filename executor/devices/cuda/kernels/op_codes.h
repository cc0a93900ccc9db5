// Element-wise ops by number: what a launch tells the kernels of apply.cu; as FusedOp.
#pragma once

namespace gangway::cuda::op_code {

enum : int {
  kConstant,
  kNeg,
  kAbs,
  kSign,
  kExp,
  kLog,
  kLog1p,
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
  kSelect,
};

}  // namespace gangway::cuda::op_code
