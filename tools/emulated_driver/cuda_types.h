// cuda.h for its types only: the entry points' names are written as strings (entry_table.inc), so
// that cuda.h's renaming macros don't touch them.
#pragma once

#include <cuda.h>
