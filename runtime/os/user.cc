#include "runtime/os/user.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

#include "runtime/base/cat.h"
#include "runtime/base/plain_name.h"

namespace gangway {

std::string user_name(uid_t user) {
  constexpr size_t kEntryBytes = 16 << 10;
  std::vector<char> text(kEntryBytes);
  passwd entry{};
  passwd* found = nullptr;
  const int error = getpwuid_r(user, &entry, text.data(), text.size(), &found);
  if (error == 0 && found != nullptr && is_plain_name(found->pw_name)) return found->pw_name;
  return cat("uid-", user);
}

const std::string& own_user_name() {
  static const std::string name = user_name(geteuid());
  return name;
}

}  // namespace gangway
