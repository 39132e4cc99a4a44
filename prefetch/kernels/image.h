// The GPU images of all kernels, one fat binary made by nvcc at build time. Empty (size 0) in a
// build without nvcc.
#pragma once

extern "C" {
extern const unsigned char sluice_kernels_fatbin[];
extern const unsigned long long sluice_kernels_fatbin_size;
}
