#include "io/types.h"

#include <numeric>

namespace sluice {
namespace {

constexpr TypeBlock plain_block(uint32_t bits) {
  constexpr uint32_t kByte = 8;
  return {kByte / std::gcd(bits, kByte), bits / std::gcd(bits, kByte)};
}

}  // namespace

const char *type_name(sluice_type type) noexcept {
  switch (type) {
#define SLUICE_CASE(name, number, bits, spelling) \
  case SLUICE_TYPE_##name:                        \
    return spelling;
    SLUICE_TYPE_LIST(SLUICE_CASE)
#undef SLUICE_CASE
#define SLUICE_CASE(name, number, elements, bytes, spelling) \
  case SLUICE_TYPE_##name:                                   \
    return spelling;
    SLUICE_BLOCK_TYPE_LIST(SLUICE_CASE)
#undef SLUICE_CASE
    case SLUICE_TYPE_UNKNOWN:
      break;
  }
  return "UNKNOWN";
}

uint32_t type_bits(sluice_type type) noexcept {
  switch (type) {
#define SLUICE_CASE(name, number, bits, spelling) \
  case SLUICE_TYPE_##name:                        \
    return bits;
    SLUICE_TYPE_LIST(SLUICE_CASE)
#undef SLUICE_CASE
    default:
      return 0;
  }
}

TypeBlock type_block(sluice_type type) noexcept {
  switch (type) {
#define SLUICE_CASE(name, number, bits, spelling) \
  case SLUICE_TYPE_##name:                        \
    return plain_block(bits);
    SLUICE_TYPE_LIST(SLUICE_CASE)
#undef SLUICE_CASE
#define SLUICE_CASE(name, number, elements, bytes, spelling) \
  case SLUICE_TYPE_##name:                                   \
    return {elements, bytes};
    SLUICE_BLOCK_TYPE_LIST(SLUICE_CASE)
#undef SLUICE_CASE
    case SLUICE_TYPE_UNKNOWN:
      break;
  }
  return {0, 0};
}

}  // namespace sluice
