#include <windows.h>

#include "plain_driver_next.h"

/* It lies beside the program. */
void *symbol_of_emulated_driver(const char *name) {
  const HMODULE driver = LoadLibraryA("sluice_emulated_driver.dll");
  return driver ? (void *)GetProcAddress(driver, name) : NULL;
}
