// A tiny language model trains on emulated cards, through client, controller and executor, as it
// does on a CPU.
#include "tests/cuda/card_suites.h"
#include "tests/cuda/emulated_gpu.h"

namespace gangway {
namespace {

INSTANTIATE_TEST_SUITE_P(Emulated, CardTraining, testing::ValuesIn(emulated::card_makers(1, 4)),
                         card_name);

}  // namespace
}  // namespace gangway
