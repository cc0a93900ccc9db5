// All of Gangway that a training program needs: include this, link gangway::gangway.
#pragma once

#include "client/checkpoint_dir.h"
#include "client/client.h"
#include "client/tensor.h"
#include "ir/autodiff.h"
#include "ir/custom_call.h"
#include "ir/ops.h"
#include "ir/program_builder.h"
#include "ir/text.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/propagate_shardings.h"
#include "ir/tree.h"
#include "runtime/base/error.h"
