#include "runtime/base/limit_hint.h"

#include <cerrno>

namespace gangway {

std::string limit_hint(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT: return "free some space, raise the limit, or choose a folder on another disk";
    case EFBIG:
      return "raise the limit on the size of a file (ulimit -f), or choose a folder on another "
             "disk";
    case EMFILE:
    case ENFILE: return "raise the limit on open files (ulimit -n)";
    case ENOMEM:
      return "raise the limit on this process's memory (ulimit -v; address space counts, of which "
             "more is taken than is used), or ask for less";
    case EAGAIN: return "raise the limit on processes (ulimit -u)";
    default: return "";
  }
}

}  // namespace gangway
