// Makes the functions that a body of the conformance suite uses from one member of a group.
//
// Threads: that of the member. Ownership: the collective outlives the functions made from it.
#pragma once

#include <functional>
#include <utility>

#include "executor/collectives/collective.h"
#include "tests/conformance/collective_suite.h"

namespace gangway {

// `finish` advances the begun collective until it is done, and decides how the member waits.
inline CollectiveMember member_of(Collective& collective, std::function<void()> finish) {
  return {.rank = collective.rank(),
          .size = collective.size(),
          .run =
              [&collective, finish](const CollectiveCall& call, bool poisoned) {
                collective.begin(call, poisoned);
                finish();
                return !collective.poisoned();
              },
          .exchange =
              [&collective, finish](uint64_t word, bool poisoned, WordRange& words) {
                collective.begin_exchange(word, poisoned);
                finish();
                words = {collective.least(), collective.most()};
                return !collective.poisoned();
              },
          .failure = [&collective] { return collective.failure(); }};
}

}  // namespace gangway
