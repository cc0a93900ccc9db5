// The program that run_counts.sh runs under callgrind.
#include <initializer_list>

#include "tests/ratchet/controller_runs.h"
#include "tests/ratchet/executor_runs.h"

int main() {
  bool good = true;
  for (const int hosts : {4, 64}) {
    for (const int clients : {1, 100}) good = ratchet::count_controller(hosts, clients) && good;
  }
  for (const int hosts : {1, 4}) good = ratchet::count_executors(hosts) && good;
  return good ? 0 : 1;
}
