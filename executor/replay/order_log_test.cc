#include "tests/support/order_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string broken(std::vector<OrderedStep> steps) {
  OrderLog log;
  for (OrderedStep& step : steps) log.record(std::move(step));
  return broken_order(log);
}

OrderedStep step(const std::string& device, uint64_t plan, uint64_t run, uint32_t node,
                 uint64_t ticket) {
  return {
      .device = device, .plan = PlanId(plan), .run = RunId(run), .node = node, .ticket = ticket};
}

TEST(OrderCheck, RankStreamsMayOvertakeOneAnother) {
  EXPECT_THAT(broken({step("a", 1, 1, 0, 5), step("a", 2, 2, 0, 3), step("a", 1, 1, 1, 6)}),
              IsEmpty());
}

TEST(OrderCheck, ARankStreamThatGoesBackIsFound) {
  EXPECT_THAT(
      broken({step("a", 1, 2, 0, 5), step("a", 1, 1, 0, 3)}),
      HasSubstr("a: the plan's rank stream: run 1 node 0 ticket 3 came after run 2 node 0"));
}

TEST(OrderCheck, CollectivesAndStatesThatGoBackAreFound) {
  std::vector<OrderedStep> steps{step("a", 1, 1, 0, 5), step("a", 2, 2, 0, 3)};
  for (OrderedStep& one : steps) one.in_order = true;
  EXPECT_THAT(broken(steps), HasSubstr("a: collectives: run 2"));
  const int state = 0;
  for (OrderedStep& one : steps) {
    one.in_order = false;
    one.states = {&state};
  }
  EXPECT_THAT(broken(steps), HasSubstr("a: a state: run 2"));
}

TEST(OrderCheck, AStateThatAClientReadsTooLateIsFound) {
  const int state = 0, other = 0;
  OrderedStep run = step("a", 1, 1, 0, 5), read{.device = "a", .ticket = 4, .states = {&state}};
  run.states = {&state};
  EXPECT_THAT(broken({run, read}), HasSubstr("a: a state: a client's ticket 4 came after run 1"));
  EXPECT_THAT(broken({read, run}), IsEmpty());
  read.states = {&other};
  EXPECT_THAT(broken({run, read}), IsEmpty());
}

TEST(OrderCheck, DevicesThatDisagreeAboutTheTicketOfANodeAreFound) {
  EXPECT_THAT(broken({step("a", 1, 1, 0, 5), step("b", 1, 1, 0, 6)}),
              HasSubstr("run 1 node 0: b and a did it with other tickets"));
}

TEST(OrderCheck, ADeviceMayHaveDoneOnlyTheFirstSectionsOfARunThatWasCutShort) {
  OrderLog log;
  for (const OrderedStep& one :
       {step("a", 1, 1, 0, 5), step("a", 1, 1, 0, 6), step("b", 1, 1, 0, 5)})
    log.record(one);
  EXPECT_THAT(broken_order(log), HasSubstr("b and a did it with other tickets"));
  EXPECT_THAT(broken_order(log, RunsAre::kPerhapsCut), IsEmpty());
  log.record(step("c", 1, 1, 0, 6));
  EXPECT_THAT(broken_order(log, RunsAre::kPerhapsCut), HasSubstr("c and a did it with"));
}

TEST(OrderCheck, AReceiveThatWaitedOnAHigherTicketIsFound) {
  OrderedStep receive = step("b", 1, 1, 1, 4);
  receive.receives = true;
  EXPECT_THAT(broken({step("a", 1, 1, 0, 5), receive}),
              HasSubstr("b: run 1 node 1 ticket 4 waited for a send with ticket 5"));
}

TEST(OrderCheck, AnArrayThatARunWithAHigherTicketFilledIsFoundWhereItWasRead) {
  const int array = 0;
  OrderedStep fills = step("a", 1, 1, 0, 5), reads = step("a", 2, 2, 0, 4);
  fills.fills = {&array};
  reads.reads = {&array};
  EXPECT_THAT(broken({fills, reads}), HasSubstr("a: run 2 node 0 ticket 4 waited for an array of "
                                                "run 1 node 0 ticket 5"));
  reads.ticket = 6;
  EXPECT_THAT(broken({fills, reads}), IsEmpty());
  reads.device = "b";  // It has another part of the array.
  reads.ticket = 4;
  EXPECT_THAT(broken({fills, reads}), IsEmpty());
}

}  // namespace
}  // namespace gangway
