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
  std::filesystem::path program;  // As Program::save() wrote it.
  std::filesystem::path trace;    // In Chrome's format.
  double last_step_at_s = 0;      // On its clock: the timeline ends there.
  int64_t hosts = 1;              // The program's devices lie on so many, in equal parts.
  std::vector<CurvePoint> points;
};

// Errors: of the program's file, and of the page's.
void write_training_page(const std::filesystem::path& page, const TrainingPictures& pictures);

}  // namespace gangway::tool
