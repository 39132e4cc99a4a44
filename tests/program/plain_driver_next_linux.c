#define _GNU_SOURCE
#include <dlfcn.h>

#include "plain_driver_next.h"

void *symbol_of_emulated_driver(const char *name) { return dlsym(RTLD_NEXT, name); }
