#include "controller/plans/reports.h"

#include <set>

#include "ir/plan/sequential.h"

namespace gangway {

std::string why_no_reports(const PlanRecord& record, const HostTable& hosts) {
  // Work that was launched on a card is not done yet, and the card reports whole runs only.
  for (HostId host : record.hosts) {
    const HostInfo& info = hosts.all().at(host).info;
    if (info.kind == "cuda")
      return cat("the cards of host \"", info.name, "\" tell the end of whole runs only");
  }
  std::set<DeviceRef> devices;
  for (const auto& layout : record.layouts) {
    for (DeviceRef device : layout->devices) {
      if (!devices.insert(device).second)
        return cat(hosts.name_of(device),
                   " is in two of its slices, and does all nodes of a run in their order");
    }
  }
  return "";
}

void require_reports(const PlanRecord& record, const HostTable& hosts) {
  if (!is_sequential(*record.plan)) return;
  const std::string why = why_no_reports(record, hosts);
  if (why.empty()) return;
  throw Error(ErrorKind::kUnimplemented,
              cat("compile: program \"", record.plan->name, "\" can't be dispatched sequentially: ",
                  why_sequential(*record.plan), ", but ", why),
              {.program = record.plan->name}, "compile it with parallel dispatch");
}

}  // namespace gangway
