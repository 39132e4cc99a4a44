// By asking first: memory that goes away while it is used ends the process, as anywhere.
#include "guard.h"

#include "pages.h"

namespace emulated {

namespace {

bool present(const void *memory, uint64_t bytes, bool read_only) {
  const auto begin = reinterpret_cast<uint64_t>(memory);
  return !memory || !bytes || populate_pages(begin, begin + bytes, read_only);
}

}  // namespace

void install_fault_handler() {}

bool run_guarded(const Touched &touched, void (*body)(const void *), const void *argument) {
  if (!present(touched.source, touched.bytes, true)) return false;
  if (!present(touched.target, touched.bytes, false)) return false;
  body(argument);
  return true;
}

}  // namespace emulated
