/* A program that knows the driver API alone: adds nothing, but moves vectors as any example would.
 * It is linked with -lcuda and must run on the emulated library without knowing it. */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

static void check(CUresult result, const char *call) {
  const char *name = "?";
  if (result == CUDA_SUCCESS) return;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", call, name);
  exit(1);
}
#define CHECK(call) check(call, #call)

int main(void) {
  enum { kCount = 1 << 20 };
  const size_t bytes = kCount * sizeof(float);
  CUdevice device;
  CUcontext context;
  CUstream stream;
  CUevent start, stop;
  CUdeviceptr a, b;
  float *host = NULL, *back = NULL, milliseconds = -1.0f;
  char name[100];
  int i, major = 0, wrong = 0;

  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDeviceGetName(name, sizeof name, device));
  CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  CHECK(cuCtxCreate(&context, NULL, 0, device));
  CHECK(cuMemAlloc(&a, bytes));
  CHECK(cuMemAlloc(&b, bytes));
  CHECK(cuMemAllocHost((void **)&host, bytes));
  back = malloc(bytes);
  CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  CHECK(cuEventCreate(&start, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&stop, CU_EVENT_DEFAULT));
  for (i = 0; i < kCount; ++i) host[i] = (float)i;

  CHECK(cuEventRecord(start, stream));
  CHECK(cuMemcpyHtoDAsync(a, host, bytes, stream));
  CHECK(cuMemcpyDtoDAsync(b, a, bytes, stream));
  CHECK(cuMemsetD32Async(b, 0, kCount / 2, stream));
  CHECK(cuEventRecord(stop, stream));
  CHECK(cuEventSynchronize(stop));
  CHECK(cuEventElapsedTime(&milliseconds, start, stop));
  CHECK(cuMemcpyDtoH(back, b, bytes));
  for (i = 0; i < kCount; ++i) wrong += back[i] != (i < kCount / 2 ? 0.0f : (float)i);
  printf("%s (%d.x): %d wrong, %.3f ms\n", name, major, wrong, milliseconds);

  CHECK(cuEventDestroy(start));
  CHECK(cuEventDestroy(stop));
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFreeHost(host));
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  CHECK(cuCtxDestroy(context));
  free(back);
  return wrong != 0 || milliseconds < 0.0f;
}
