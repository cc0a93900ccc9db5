#include "protocol/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace gangway {
namespace {

TEST(MachineTest, AProcessOfAnotherMachineIsNotTakenForOneOfItsNumberHere) {
  const Machine here = this_machine();
  EXPECT_EQ(process_of(here, getpid()), identity_of(getpid()));
  EXPECT_EQ(has_ended(process_of(here, getpid())), HasEnded::kNo);
  const Machine other{.identity = here.identity + " of another boot", .host = here.host};
  EXPECT_EQ(has_ended(process_of(other, getpid())), HasEnded::kUnknown);
}

}  // namespace
}  // namespace gangway
