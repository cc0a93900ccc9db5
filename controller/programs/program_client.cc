#include "controller/programs/program_client.h"

namespace gangway {

void ProgramClient::detach() {
  peer_ = nullptr;
  runs_ = transfers_ = 0;
  before_name_ = last_name_;
  before_request_ = last_request_;
}

void ProgramClient::begin_transfer(const HostTransferFrame& transfer) {
  ++transfers_;
  note_name(transfer.array.value);
  last_request_ = std::max(last_request_, transfer.request);
}

bool ProgramClient::end_run(RunId run) {
  if (run.value <= before_name_) return false;
  --runs_;
  return true;
}

bool ProgramClient::end_transfer(uint64_t request) {
  if (request <= before_request_) return false;
  --transfers_;
  return true;
}

void ProgramClient::note_names(const RunFrame& run) {
  note_name(run.run.value);
  for (const ArrayId output : run.outputs) note_name(output.value);
}

}  // namespace gangway
