#include "runtime/tls/certified_name.h"

#include <gtest/gtest.h>

namespace gangway {
namespace {

TEST(CertifiedNameTest, ReadsBackWhatACommonNameSays) {
  for (const CertifiedName& name : {CertifiedName{CertifiedKind::kHost, "node-7.lan", 1},
                                    CertifiedName{CertifiedKind::kOwner, "ada_l", 4294967295}}) {
    EXPECT_EQ(parse_common_name(common_name(name)), name) << common_name(name);
  }
  EXPECT_EQ(user_of({CertifiedKind::kHost, "node7", 12}), "host:node7");
  EXPECT_EQ(user_of({CertifiedKind::kOwner, "ada", 13}), "ada");
  EXPECT_EQ(to_text({CertifiedKind::kHost, "node7", 12}), "host node7 (number 12)");
}

TEST(CertifiedNameTest, OtherCommonNamesAreNobodys) {
  for (const char* text :
       {"", ":", "::", "host", "host:node7", "node7", "host:node7:", "host::1", "Host:node7:1",
        "user:ada:1", "owner:ada:0", "owner:ada:01", "owner:ada:-1", "owner:ada:4294967296",
        "owner:ada:1 ", "owner:a:da:1", "owner:a b:1", "host:*.lan:1", "gangway authority 12ab"}) {
    EXPECT_FALSE(parse_common_name(text)) << text;
  }
  const std::string longest(kCertifiedNameBytesMax, 'a');
  EXPECT_TRUE(parse_common_name("owner:" + longest + ":1"));
  EXPECT_FALSE(parse_common_name("owner:a" + longest + ":1"));
}

}  // namespace
}  // namespace gangway
