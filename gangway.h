// All of Gangway that a training program needs: include this, link gangway::gangway.
#pragma once

#include "client/checkpoint/checkpoint_dir.h"
#include "client/client.h"
#include "client/tensor.h"
#include "ir/build/autodiff.h"
#include "ir/build/custom_call.h"
#include "ir/build/ops.h"
#include "ir/build/program_builder.h"
#include "ir/build/tree.h"
#include "ir/text/text.h"
#include "ir/transforms/pipeline.h"
#include "ir/transforms/propagation/propagate_shardings.h"
#include "runtime/base/error.h"
