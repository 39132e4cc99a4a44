// Modules, libraries and kernel launches. An image is accepted when it carries sluice's marker; its
// device code is never looked at: a kernel's body is the one of that name in kernels.cpp.
// Locks: the modules mutex. Invariant: a function's handle is known while its module is loaded.
#include <cstring>
#include <string_view>

#include "kernels.h"
#include "state.h"

namespace emulated {

namespace {

constexpr char kMarker[] = "sluice_kernels_v1";

struct Module;

// CUfunction and CUkernel alike.
struct Function {
  const KernelEntry *kernel;
  Module *module;
};

struct Module {
  Context *context;
  bool library;
  std::vector<std::unique_ptr<Function>> functions;
};

std::mutex mutex;
std::unordered_map<Module *, std::unique_ptr<Module>> &modules =
    *new std::unordered_map<Module *, std::unique_ptr<Module>>;
std::unordered_set<Function *> &functions = *new std::unordered_set<Function *>;

template <class T>
T read_at(const void *from, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char *>(from) + offset, sizeof value);
  return value;
}

size_t elf_bytes(const void *image) {
  // The section headers come last in what nvcc writes; program headers may follow them.
  const auto sections = read_at<uint64_t>(image, 40), segments = read_at<uint64_t>(image, 32);
  const size_t section_end =
      sections + size_t{read_at<uint16_t>(image, 58)} * read_at<uint16_t>(image, 60);
  const size_t segment_end =
      segments + size_t{read_at<uint16_t>(image, 54)} * read_at<uint16_t>(image, 56);
  return section_end > segment_end ? section_end : segment_end;
}

// A fat binary (header of 16 bytes, payload length at 8), its wrapper, an ELF image, or PTX text.
size_t image_bytes(const void *&image) {
  constexpr uint32_t kWrapper = 0x466243b1, kFatBinary = 0xBA55ED50;
  const auto magic = read_at<uint32_t>(image, 0);
  if (magic == kWrapper) {
    image = read_at<const void *>(image, 8);
    return image ? image_bytes(image) : 0;
  }
  if (magic == kFatBinary) return read_at<uint16_t>(image, 6) + read_at<uint64_t>(image, 8);
  if (!std::memcmp(image, "\177ELF", 4)) return elf_bytes(image);
  return std::strlen(static_cast<const char *>(image));
}

CUresult load(const void *image, bool library, Module **out) {
  if (!image) return CUDA_ERROR_INVALID_VALUE;
  const std::string_view text(static_cast<const char *>(image), image_bytes(image));
  if (text.find(kMarker) == std::string_view::npos) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto module = std::make_unique<Module>();
  module->context = library ? nullptr : current_context();
  module->library = library;
  *out = module.get();
  std::lock_guard lock(mutex);
  modules[*out] = std::move(module);
  return CUDA_SUCCESS;
}

Module *find_module(void *handle, bool library) {
  const auto it = modules.find(static_cast<Module *>(handle));
  return it == modules.end() || it->second->library != library ? nullptr : it->second.get();
}

CUresult unload(void *handle, bool library) {
  std::lock_guard lock(mutex);
  Module *module = find_module(handle, library);
  if (!module) {
    report_misuse("unloading a module or library that isn't loaded (%p)", handle);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  for (const auto &function : module->functions) functions.erase(function.get());
  modules.erase(module);
  return CUDA_SUCCESS;
}

CUresult get_function(Module *module, const char *name, Function **out) {
  if (!module) return CUDA_ERROR_INVALID_HANDLE;
  const KernelEntry *kernel = find_kernel(name);
  if (!kernel) return CUDA_ERROR_NOT_FOUND;
  for (const auto &function : module->functions)
    if (function->kernel == kernel) return *out = function.get(), CUDA_SUCCESS;
  module->functions.push_back(std::make_unique<Function>(Function{kernel, module}));
  *out = module->functions.back().get();
  functions.insert(*out);
  return CUDA_SUCCESS;
}

const KernelEntry *kernel_of(CUfunction handle) {
  std::lock_guard lock(mutex);
  auto *function = reinterpret_cast<Function *>(handle);
  if (functions.count(function)) return function->kernel;
  return nullptr;
}

uint64_t argument_value(const KernelArgument &argument, const void *from) {
  uint64_t value = 0;
  std::memcpy(&value, from, argument.size_bytes);
  return value;
}

// Arguments packed by the caller: each at its natural alignment.
CUresult unpack(const KernelEntry &kernel, void **extra, KernelOp &op) {
  const char *buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = static_cast<const char *>(extra[1]);
    else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = *static_cast<size_t *>(extra[1]);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  size_t at = 0;
  for (unsigned i = 0; i < kernel.argument_count; ++i) {
    const uint32_t size = kernel.arguments[i].size_bytes;
    at = (at + size - 1) / size * size;
    if (!buffer || at + size > bytes) return CUDA_ERROR_INVALID_VALUE;
    op.arguments[i] = argument_value(kernel.arguments[i], buffer + at);
    at += size;
  }
  return CUDA_SUCCESS;
}

struct Shape {
  unsigned grid[3];
  unsigned block[3];
};

CUresult check_shape(const Shape &shape) {
  for (unsigned n : shape.grid)
    if (!n) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned n : shape.block)
    if (!n || n > 1024) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (threads > 1024 || shape.block[2] > 64) return CUDA_ERROR_INVALID_VALUE;
  return shape.grid[1] > 65535 || shape.grid[2] > 65535 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult launch(CUfunction handle, const Shape &shape, CUstream stream_handle, void **arguments,
                void **extra) {
  CUresult why;
  Stream *stream = resolve_stream(stream_handle, &why);
  if (!stream) return why;
  const KernelEntry *kernel = kernel_of(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult answer = check_shape(shape)) return answer;
  if (!arguments == !extra) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  op.kind = OpKind::kernel;
  op.kernel = {};
  op.kernel.kernel = kernel;
  if (extra) {
    if (CUresult answer = unpack(*kernel, extra, op.kernel)) return answer;
  } else {
    for (unsigned i = 0; i < kernel->argument_count; ++i)
      op.kernel.arguments[i] = argument_value(kernel->arguments[i], arguments[i]);
  }
  return submit(*stream, op);
}

}  // namespace

uint64_t live_modules() {
  std::lock_guard lock(mutex);
  return modules.size();
}

void unload_context_modules(Context &context) {
  std::lock_guard lock(mutex);
  std::erase_if(modules, [&](const auto &entry) {
    if (entry.second->context != &context) return false;
    for (const auto &function : entry.second->functions) functions.erase(function.get());
    return true;
  });
}

// ---- entry points ------------------------------------------------------------------------------

CUresult module_load_data(CUmodule *out, const void *image) {
  return out ? load(image, false, reinterpret_cast<Module **>(out)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult module_load_data_ex(CUmodule *out, const void *image, unsigned, CUjit_option *, void **) {
  return module_load_data(out, image);
}

CUresult module_unload(CUmodule handle) { return unload(handle, false); }

CUresult module_get_function(CUfunction *out, CUmodule handle, const char *name) {
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  return get_function(find_module(handle, false), name, reinterpret_cast<Function **>(out));
}

CUresult library_load_data(CUlibrary *out, const void *image, CUjit_option *, void **, unsigned,
                           CUlibraryOption *, void **, unsigned) {
  return out ? load(image, true, reinterpret_cast<Module **>(out)) : CUDA_ERROR_INVALID_VALUE;
}

CUresult library_unload(CUlibrary handle) { return unload(handle, true); }

CUresult library_get_kernel(CUkernel *out, CUlibrary handle, const char *name) {
  if (!out || !name) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  return get_function(find_module(handle, true), name, reinterpret_cast<Function **>(out));
}

// The library's module in the current context belongs to the library: the same object serves.
CUresult library_get_module(CUmodule *out, CUlibrary handle) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  if (!find_module(handle, true)) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(handle);
  return CUDA_SUCCESS;
}

CUresult kernel_get_function(CUfunction *out, CUkernel kernel) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!kernel_of(reinterpret_cast<CUfunction>(kernel))) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult func_get_attribute(int *out, CUfunction_attribute attribute, CUfunction handle) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!kernel_of(handle)) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = 32;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out = 90;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *out = 49152;
      break;
    default:
      if (attribute >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *out = 0;
  }
  return CUDA_SUCCESS;
}

CUresult func_set_attribute(CUfunction handle, CUfunction_attribute attribute, int) {
  if (!kernel_of(handle)) return CUDA_ERROR_INVALID_HANDLE;
  return attribute >= CU_FUNC_ATTRIBUTE_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult launch_kernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CUstream stream, void **arguments, void **extra) {
  if (shared_bytes > 232448) return CUDA_ERROR_INVALID_VALUE;
  return launch(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}}, stream,
                arguments, extra);
}

CUresult launch_kernel_ex(const CUlaunchConfig *config, CUfunction function, void **arguments,
                          void **extra) {
  if (!config) return CUDA_ERROR_INVALID_VALUE;
  return launch_kernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                       config->blockDimX, config->blockDimY, config->blockDimZ,
                       config->sharedMemBytes, config->hStream, arguments, extra);
}

}  // namespace emulated
