#include "runtime/native_error.h"

namespace sluice {

// errno is the system's own code.
std::optional<NativeError> take_native_error(int) { return std::nullopt; }

}  // namespace sluice
