// Names that examples in headers may use without declaring them. They are compiled, never linked.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>

#include "gangway.h"
#include "programs/train/language_model.h"

namespace gangway::example_context {

extern Mesh mesh;    // {data: 4}
extern Tree params;  // "w": f32[16, 16]
extern Value x;      // f32[64, 16]
extern programs::LanguageModelConfig config;

void write_files_into(const std::filesystem::path& folder);

}  // namespace gangway::example_context
