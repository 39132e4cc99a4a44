/* Numeric core of the cast kernel, for host and device alike. Element by element, integer
 * arithmetic only, so that both sides give equal bits whatever the compiler contracts or flushes:
 * round to nearest even, subnormals kept, overflow to infinity, a NaN stays a quiet NaN with its
 * sign and upper payload bits. No state, no library calls. Types: float 0, half 1, bfloat16 2. */
#ifndef SLUICE_PREFETCH_KERNELS_CAST_CORE_H
#define SLUICE_PREFETCH_KERNELS_CAST_CORE_H

#include <stdint.h>

#if defined(__CUDACC__)
#define SLUICE_HD __host__ __device__ __forceinline__
#else
#define SLUICE_HD inline
#endif

enum { SLUICE_CAST_F32 = 0, SLUICE_CAST_F16 = 1, SLUICE_CAST_BF16 = 2 };

/* Bytes of an element; 0 for an unknown type. */
SLUICE_HD uint32_t sluice_cast_type_bytes(uint32_t type) {
  if (type == SLUICE_CAST_F32) return 4u;
  return type == SLUICE_CAST_F16 || type == SLUICE_CAST_BF16 ? 2u : 0u;
}

SLUICE_HD uint32_t sluice_f32_from_bf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  const bool nan = (wide & 0x7FFFFFFFu) > 0x7F800000u;
  return nan ? wide | 0x00400000u : wide;
}

SLUICE_HD uint32_t sluice_f32_from_f16(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1Fu;
  uint32_t fraction = bits & 0x3FFu;
  if (exponent == 0x1Fu) {
    const uint32_t quiet = fraction ? 0x00400000u : 0u;
    return sign | 0x7F800000u | quiet | (fraction << 13);
  }
  if (exponent == 0u) {
    if (fraction == 0u) return sign;
    /* A subnormal half is a normal float: shift the leading one to its place. */
    exponent = 1u;
    while ((fraction & 0x400u) == 0u) {
      fraction <<= 1;
      --exponent; /* may pass below zero; the bias below brings it back */
    }
    fraction &= 0x3FFu;
  }
  return sign | ((exponent + 112u) << 23) | (fraction << 13);
}

SLUICE_HD uint16_t sluice_bf16_from_f32(uint32_t bits) {
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)((bits >> 16) | 0x0040u);
  return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

SLUICE_HD uint16_t sluice_f16_from_f32(uint32_t bits) {
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u); /* rounds to 65536 or more */
  if (magnitude >= 0x38800000u) {
    const uint32_t rebiased = magnitude - 0x38000000u;
    return (uint16_t)(sign | ((rebiased + 0xFFFu + ((rebiased >> 13) & 1u)) >> 13));
  }
  if (magnitude <= 0x33000000u) return (uint16_t)sign; /* up to half of the smallest: to zero */
  {
    const uint32_t shift = 126u - (magnitude >> 23); /* 14 .. 24 */
    const uint32_t fraction = (magnitude & 0x7FFFFFu) | 0x800000u;
    const uint32_t kept = fraction >> shift;
    const uint32_t rest = fraction & ((1u << shift) - 1u);
    const uint32_t half = 1u << (shift - 1u);
    const uint32_t up = rest > half || (rest == half && (kept & 1u)) ? 1u : 0u;
    return (uint16_t)(sign | (kept + up));
  }
}

/* target[i] = source[i], converted. Types must be known ones; equal types copy the bits. */
SLUICE_HD void sluice_cast_element(const void *source, void *target, uint64_t i,
                                   uint32_t source_type, uint32_t target_type) {
  uint32_t wide;
  if (source_type == target_type) {
    if (source_type == SLUICE_CAST_F32)
      ((uint32_t *)target)[i] = ((const uint32_t *)source)[i];
    else
      ((uint16_t *)target)[i] = ((const uint16_t *)source)[i];
    return;
  }
  if (source_type == SLUICE_CAST_F32)
    wide = ((const uint32_t *)source)[i];
  else if (source_type == SLUICE_CAST_F16)
    wide = sluice_f32_from_f16(((const uint16_t *)source)[i]);
  else
    wide = sluice_f32_from_bf16(((const uint16_t *)source)[i]);
  if (target_type == SLUICE_CAST_F32)
    ((uint32_t *)target)[i] = wide;
  else if (target_type == SLUICE_CAST_F16)
    ((uint16_t *)target)[i] = sluice_f16_from_f32(wide);
  else
    ((uint16_t *)target)[i] = sluice_bf16_from_f32(wide);
}

#endif
