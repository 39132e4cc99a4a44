// From the ranges of a read to a job for one device's readers: decides which way each file's bytes
// take, holds files and buffers, plans the pieces.
#pragma once

#include "io/read_check.h"
#include "io/reader.h"

namespace sluice {

// Fills in what the job reads. Needs the device's context current; `given` was checked.
Status plan_job(Reader &reader, RangeList given, ReadJob &job);

}  // namespace sluice
