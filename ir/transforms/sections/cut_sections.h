// Cuts a local function into sections: the pieces between which a device may go over to another
// program's work, so that a long call lets others have their turn.
//
// A section takes at most `limit_ns` by the cost model, but for one step that alone takes longer. A
// cut lies behind a collective wherever one ends in the last three quarters of the section: the
// devices of the slice get there at one time. None crosses the commit point. A cut may lie between
// two iterations of a scan, or inside one. A function that takes so long that there would be more
// than some kSectionsMax sections has longer ones.
//
// The limit is finer than the millisecond or two for which a device is granted at a time, so that
// an estimate that is off by four still lets others in; the scheduler joins sections by what they
// are measured to take.
//
// Threads: pure. Errors: kInvalid for a function of too many steps (ir/plan/step_map.h).
// Cost: O(nodes + sections * log steps): iterations are not gone through.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/plan/plan.h"
#include "ir/plan/rates.h"

namespace gangway {

inline constexpr int64_t kSectionLimitNs = 250'000;
inline constexpr int64_t kSectionsMax = int64_t{1} << 16;

std::vector<LocalFunction::Section> cut_sections(const Function& local, NodeId commit_begin,
                                                 const DeviceRates& rates,
                                                 int64_t limit_ns = kSectionLimitNs);

}  // namespace gangway
