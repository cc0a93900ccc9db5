#include "runtime/base/printable.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(Printable, ShowsNoByteThatATerminalWouldObey) {
  EXPECT_EQ(printable("a\033[2Jb\n\x7f"), "a\\u001b[2Jb\\n\\u007f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\u009b2J");  // A control character of two bytes.
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "evil"),
            "\\u202eevil");                        // Turns the text around.
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");  // No UTF-8.
  EXPECT_EQ(printable("Zo\xc3\xab\t"), "Zo\xc3\xab\\t");
}

TEST(Printable, LeavesLinesWhereTheTextHasThem) {
  EXPECT_EQ(printable_lines("a\r\nb\033c\n"), "a\\u000d\nb\\u001bc\n");
}

TEST(Printable, IsTheSameWhenItIsCalledAgain) {
  const std::string once = printable("a\033\n\xff");
  EXPECT_EQ(printable(once), once);
}

}  // namespace
}  // namespace gangway
