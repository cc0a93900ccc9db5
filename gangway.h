// All of Gangway that a training program needs: include this, link gangway::gangway.
#pragma once

#include "runtime/base/error.h"
