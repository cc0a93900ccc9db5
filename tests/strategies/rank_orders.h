// Eight orders of eight ranks, no two of which add in the same way. They show how far the results
// of a step depend on the order of sums alone.
//
// Members of a collective are added in the tree of executor/collectives/hosts/rank_tree.h: eight in
// ((0 1) (2 3)) ((4 5) (6 7)). Two orders differ if their trees do, where left and right are the
// same: 315 of the 8! orders differ. Seven of these eight orders first add rank 0 to a different
// rank each. The eighth adds it to one of these again, and then to another pair. Two ranks have one
// such order and four have three, so the rounding of cases of fewer ranks is measured on eight too.
//
// Threads: values and pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "ir/graph/program.h"
#include "programs/strategies/strategy.h"

namespace gangway::programs {

inline constexpr int64_t kOrderedRanks = 8;
using RankOrder = std::array<int64_t, kOrderedRanks>;

inline constexpr std::array<RankOrder, 8> kRankOrders = {{{0, 1, 2, 3, 4, 5, 6, 7},
                                                          {0, 2, 1, 3, 4, 6, 5, 7},
                                                          {0, 3, 1, 2, 4, 7, 5, 6},
                                                          {0, 4, 1, 5, 2, 6, 3, 7},
                                                          {0, 5, 1, 4, 2, 7, 3, 6},
                                                          {0, 6, 1, 7, 2, 4, 3, 5},
                                                          {0, 7, 1, 6, 2, 5, 3, 4},
                                                          {0, 1, 4, 5, 2, 3, 6, 7}}};

// `step`, changed so that rank i of the eight that the batch is cut over has the rows of rank
// order[i]. Its results are the same but for rounding.
Program with_ranks_in_order(const Program& step, const RankOrder& order);

}  // namespace gangway::programs
