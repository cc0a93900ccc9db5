// What a body of the conformance suite uses of one member of a group.
//
// Threads: that of the member. Ownership: the collective outlives what is made of it.
#pragma once

#include <functional>
#include <utility>

#include "executor/collectives/collective.h"
#include "tests/conformance/collective_suite.h"

namespace gangway {

// `finish` advances what was begun until it is done, however the member waits meanwhile.
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
