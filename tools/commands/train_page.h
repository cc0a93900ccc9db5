// The pictures that a training leaves beside its checkpoint, as one page: its loss and its speed
// over its steps, the timeline of the last of them, and the graph of a step.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/page/curves_document.h"

namespace gangway::tool {

struct TrainingPictures {
  std::string name;
  std::filesystem::path program;  // File that Program::save() wrote.
  std::filesystem::path trace;    // In Chrome's format.
  double last_step_at_s = 0;      // End of the timeline, on the trace's clock.
  int64_t hosts = 1;              // Number of hosts that have the devices, in equal parts.
  std::vector<CurvePoint> points;
};

// Errors: those of reading the program's file, and of writing the page.
void write_training_page(const std::filesystem::path& page, const TrainingPictures& pictures);

}  // namespace gangway::tool
