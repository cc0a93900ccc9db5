#include "controller/programs/more_room.h"

#include "ir/plan/rows_overflow.h"
#include "runtime/base/cat.h"

namespace gangway {

MoreRoom more_room(const Program& program) {
  std::string bounds;
  for (const RowsBound& was : rows_bounds(program)) {
    bounds += cat(bounds.empty() ? "" : ", ", "bound ", was.bound, " became ",
                  with_more_room(was.bound), was.at.empty() ? "" : " at ", was.at);
  }
  return {std::make_shared<const Program>(with_more_room(program)),
          cat("program \"", program.name, "\": more rows came to a device's experts than it has ",
              "room for, so it was compiled again, and its runs are run again: ", bounds)};
}

}  // namespace gangway
