#include "controller/owners/program_names.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(ProgramNamesTest, NamesAreThereAsLongAsTheirProgram) {
  ProgramNames names;
  {
    const ProgramNames::Entry entry(names, SessionId(3), "ada", "trainer");
    EXPECT_EQ(entry.name().program, "trainer");
    EXPECT_EQ(entry.name().holder, "client 3 of ada");
    EXPECT_EQ(names.owner(SessionId(3)), "ada");
    EXPECT_EQ(names.holder(SessionId(3)), "client 3 of ada");
    EXPECT_EQ(names.find(SessionId(3)), &entry.name());
    EXPECT_EQ(names.find("ada", "trainer"), SessionId(3));
  }
  EXPECT_EQ(names.owner(SessionId(3)), "");
  EXPECT_EQ(names.holder(SessionId(3)), "client 3");
  EXPECT_EQ(names.find(SessionId(3)), nullptr);
  EXPECT_EQ(names.find("ada", "trainer"), std::nullopt);
  EXPECT_TRUE(names.all().empty());
}

TEST(ProgramNamesTest, TheOldestProgramOfAnOwnerAndNameIsFound) {
  ProgramNames names;
  const ProgramNames::Entry second(names, SessionId(2), "ada", "trainer");
  const ProgramNames::Entry third(names, SessionId(3), "ada", "trainer");
  const ProgramNames::Entry first(names, SessionId(1), "bob", "trainer");
  EXPECT_EQ(names.find("ada", "trainer"), SessionId(2));
  EXPECT_EQ(names.find("bob", "trainer"), SessionId(1));
  EXPECT_EQ(names.find("bob", "other"), std::nullopt);
}

}  // namespace
}  // namespace gangway
