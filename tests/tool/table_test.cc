#include "tools/io/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gangway::tool {
namespace {

using testing::ElementsAre;

Table programs() {
  return {.columns = {{.title = "ID", .is_number = true, .drop = 1},
                      {.title = "NAME", .least = 6},
                      {.title = "ON", .drop = 2, .least = 4},
                      {.title = "STEP", .is_number = true}},
          .rows = {{"1", "pre-training", "host-0,host-1", "12"}, {"20", "b", "host-0", "7"}}};
}

TEST(Table, IsAsWideAsNeedBeWhereNothingLimitsIt) {
  EXPECT_THAT(lines_of(programs(), 0), ElementsAre("ID  NAME          ON             STEP",
                                                   " 1  pre-training  host-0,host-1    12",
                                                   "20  b             host-0            7"));
  EXPECT_EQ(lines_of(programs(), 37), lines_of(programs(), 0));
}

TEST(Table, ShortensTextsFirstAndThenLeavesColumnsOutInTheirOrder) {
  EXPECT_THAT(lines_of(programs(), 30),
              ElementsAre("ID  NAME       ON         STEP", " 1  pre-trai…  host-0,h…    12",
                          "20  b          host-0        7"));
}

TEST(Table, LeavesColumnsOutFromTheHighestAndGivesTheirPlaceToTexts) {
  EXPECT_THAT(lines_of(programs(), 20),
              ElementsAre("ID  NAME        STEP", " 1  pre-train…    12", "20  b              7"));
  EXPECT_THAT(lines_of(programs(), 12),
              ElementsAre("NAME    STEP", "pre-t…    12", "b          7"));
  EXPECT_THAT(lines_of(programs(), 8), ElementsAre("NAME   …", "pre-t… …", "b      …"));
}

TEST(Table, ARowStaysOneLineWhateverANameHas) {
  Table table = programs();
  table.rows[1][1] = "b\n\033[2J";
  EXPECT_EQ(lines_of(table, 0)[2], "20  b\\n\\u001b[2J  host-0            7");
}

TEST(Table, CountsLettersAndNotBytes) {
  EXPECT_EQ(width_of("Zo\xc3\xab"), 3u);
  EXPECT_EQ(width_of("\xe6\xa8\xa1\xe5\x9e\x8b"), 4u);  // Two letters, two columns each.
  EXPECT_EQ(shortened("Zo\xc3\xab"
                      "Zo\xc3\xab",
                      4),
            "Zo\xc3\xab…");
  EXPECT_EQ(shortened("\xe6\xa8\xa1\xe5\x9e\x8b", 3), "\xe6\xa8\xa1…");
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("abc", 0), "");
}

}  // namespace
}  // namespace gangway::tool
