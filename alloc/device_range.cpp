#include "alloc/device_range.h"

#include "alloc/buffer_index.h"

namespace sluice {
namespace {

Status not_its_memory(const Device &device, uint64_t address, std::string_view why) {
  return error(SLUICE_INVALID_ARGUMENT, "{:#x} is not memory of GPU {}: {}", address,
               device.ordinal(), why);
}

Status check_byte(const Device &device, uint64_t address) {
  unsigned type = 0;
  int ordinal = -1;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void *values[] = {&type, &ordinal};
  SLUICE_CUDA(device.driver(), cuPointerGetAttributes, fmt::format("{:#x}", address), 2, attributes,
              values, address);
  if (type == 0) return not_its_memory(device, address, "nothing is mapped or allocated there");
  if (type == CU_MEMORYTYPE_DEVICE && ordinal >= 0 && ordinal != device.handle())
    return not_its_memory(device, address, fmt::format("it is memory of GPU {}", ordinal));
  return {};
}

// The driver's word on memory that sluice doesn't know.
Status check_foreign(const Device &device, uint64_t address, uint64_t bytes) {
  uint64_t end = 0;
  if (__builtin_add_overflow(address, bytes - 1, &end))
    return error(SLUICE_INVALID_ARGUMENT, "{} bytes at {:#x} pass the end of all addresses", bytes,
                 address);
  SLUICE_TRY(check_byte(device, address));
  return end == address ? Status() : check_byte(device, end);
}

}  // namespace

Status check_mapped(const GrowableBuffer &buffer, uint64_t address, uint64_t bytes) {
  const uint64_t offset = address - buffer.address();
  const uint64_t size = buffer.size_bytes();
  if (offset <= size && bytes <= size - offset) return {};
  return error(SLUICE_INVALID_ARGUMENT,
               "{} bytes at {:#x} pass the mapped part of their buffer, which ends at {:#x}", bytes,
               address, buffer.address() + size);
}

Result<std::shared_ptr<GrowableBuffer>> find_device_range(Device &device, uint64_t address,
                                                          uint64_t bytes) {
  std::shared_ptr<GrowableBuffer> buffer;
  if (BufferIndex *index = device.existing_part<BufferIndex>()) buffer = index->find(address);
  SLUICE_TRY(buffer ? check_mapped(*buffer, address, bytes)
                    : check_foreign(device, address, bytes));
  return buffer;
}

}  // namespace sluice
