// The public header first and alone: it must bring all that it needs, as C11 and without a warning.
#include "sluice.h"

#include "sluice.h"  // and a second time

int main(void) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  sluice_error error = SLUICE_ERROR_INIT;
  return options.struct_size == sizeof options && error.struct_size == sizeof error ? 0 : 1;
}
