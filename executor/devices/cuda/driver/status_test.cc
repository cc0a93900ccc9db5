#include "executor/devices/cuda/driver/status.h"

#include <gtest/gtest.h>

#include "executor/devices/cuda/driver/driver.h"

namespace gangway::cuda {
namespace {

TEST(Status, NotReadyIsNeitherFineNorAFailure) {
  const Status status{.kind = StatusKind::kNotReady};
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(status.failed());
}

TEST(Status, AnErrorSaysWhatTheCallerShouldDo) {
  const auto kind_of = [](StatusKind kind) { return to_error({.kind = kind}).kind(); };
  EXPECT_EQ(kind_of(StatusKind::kOutOfMemory), ErrorKind::kOverloaded);
  EXPECT_EQ(kind_of(StatusKind::kAborted), ErrorKind::kUnavailable);
  EXPECT_EQ(kind_of(StatusKind::kUnsupported), ErrorKind::kUnimplemented);
  EXPECT_EQ(kind_of(StatusKind::kInvalid), ErrorKind::kBug);
}

TEST(Status, AStickyErrorSaysThatTheExecutorMustStartAgain) {
  const Error error = to_error({StatusKind::kFault, true, "%14 dot: an illegal address"});
  EXPECT_EQ(error.message(), "cuda: device fault: %14 dot: an illegal address");
  EXPECT_NE(error.hint().find("start its executor again"), std::string::npos);
}

}  // namespace
}  // namespace gangway::cuda
