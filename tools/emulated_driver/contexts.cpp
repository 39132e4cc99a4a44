// Contexts: primary ones by reference, created ones, and each thread's stack of current contexts.
// Locks: the contexts mutex for creation and teardown; a context's `live` flag may be read without.
// Invariant: a live context has a legacy stream; everything that belongs to a context is gone
// before its object goes back to the slab.
#include "gate.h"
#include "state.h"

namespace emulated {

namespace {

// A fixed array without a destructor: static destructors and the ends of threads still make calls.
class ContextStack {
 public:
  bool empty() const { return depth_ == 0; }
  bool full() const { return depth_ == kMost; }
  Context *&back() { return contexts_[depth_ - 1]; }
  void push_back(Context *context) { contexts_[depth_++] = context; }
  void pop_back() { --depth_; }
  void clear() { depth_ = 0; }

 private:
  static constexpr unsigned kMost = 256;
  Context *contexts_[kMost];
  unsigned depth_;
};

thread_local ContextStack stack;

constexpr unsigned kKnownFlags = 0xFF;

Context *create_context(Device &device, unsigned flags, bool primary) {
  Context *context = state.contexts.take();
  if (!context) return nullptr;
  install_fault_handler();
  pretouch(device);
  context->device = &device;
  context->flags = flags;
  context->primary = primary;
  context->sticky = 0;
  context->peers = 0;
  context->id = state.next_context_id++;
  context->legacy = make_stream(*context, StreamKind::legacy, 0, 0);
  if (!context->legacy) {
    state.contexts.give_back(context);
    return nullptr;
  }
  context->live = true;
  return context;
}

void destroy_context(Context &context, const char *when) {
  drain_context(context);
  abandon_captures(context);
  report_leaks(&context, when);
  stop_streams(context);
  destroy_context_events(context);
  unload_context_modules(context);
  free_context_memory(context);
  free_context_host_memory(context);
  context.live = false;
  state.contexts.give_back(&context);
}

Context *resolve_context(CUcontext handle) {
  if (!handle || !state.contexts.owns(handle)) return nullptr;
  Context *context = reinterpret_cast<Context *>(handle);
  return context->live ? context : nullptr;
}

CUcontext handle_of(Context *context) { return reinterpret_cast<CUcontext>(context); }

}  // namespace

Context *current_context() {
  return stack.empty() || !stack.back()->live ? nullptr : stack.back();
}

CUresult current_sticky() {
  const Context *context = current_context();
  return context ? static_cast<CUresult>(context->sticky.load()) : CUDA_SUCCESS;
}

bool any_context_live() {
  for (size_t i = 0; i < state.contexts.size(); ++i)
    if (state.contexts[i].live) return true;
  return false;
}

void forget_thread_contexts() { stack.clear(); }

// ---- entry points: primary contexts ------------------------------------------------------------

CUresult device_primary_ctx_retain(CUcontext *out, CUdevice ordinal) {
  Device *device = device_of(ordinal);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(state.contexts_mutex);
  if (device->primary_references == 0) {
    device->primary = create_context(*device, device->primary_flags, true);
    if (!device->primary) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++device->primary_references;
  *out = handle_of(device->primary);
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_release(CUdevice ordinal) {
  Device *device = device_of(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(state.contexts_mutex);
  if (device->primary_references == 0) {
    report_misuse("cuDevicePrimaryCtxRelease of device %d, which isn't retained", ordinal);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (--device->primary_references) return CUDA_SUCCESS;
  destroy_context(*device->primary, "the last release of the primary context");
  device->primary = nullptr;
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_reset(CUdevice ordinal) {
  Device *device = device_of(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(state.contexts_mutex);
  if (!device->primary) return CUDA_SUCCESS;
  destroy_context(*device->primary, "a reset of the primary context");
  device->primary = nullptr;
  device->primary_references = 0;
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_set_flags(CUdevice ordinal, unsigned flags) {
  Device *device = device_of(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~kKnownFlags) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state.contexts_mutex);
  device->primary_flags = flags;
  if (device->primary) device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult device_primary_ctx_set_flags_v1(CUdevice ordinal, unsigned flags) {
  Device *device = device_of(ordinal);
  if (device && device->primary) return CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE;
  return device_primary_ctx_set_flags(ordinal, flags);
}

CUresult device_primary_ctx_get_state(CUdevice ordinal, unsigned *flags, int *active) {
  Device *device = device_of(ordinal);
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard lock(state.contexts_mutex);
  *flags = device->primary_flags;
  *active = device->primary_references != 0;
  return CUDA_SUCCESS;
}

// ---- entry points: created contexts ------------------------------------------------------------

CUresult ctx_create(CUcontext *out, unsigned flags, CUdevice ordinal) {
  Device *device = device_of(ordinal);
  if (!out || (flags & ~kKnownFlags)) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (stack.full()) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard lock(state.contexts_mutex);
  Context *context = create_context(*device, flags, false);
  if (!context) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.push_back(context);
  *out = handle_of(context);
  return CUDA_SUCCESS;
}

CUresult ctx_create_v3(CUcontext *out, CUexecAffinityParam *, int affinities, unsigned flags,
                       CUdevice ordinal) {
  return affinities ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY : ctx_create(out, flags, ordinal);
}

CUresult ctx_create_v4(CUcontext *out, CUctxCreateParams *parameters, unsigned flags,
                       CUdevice ordinal) {
  if (parameters && (parameters->numExecAffinityParams || parameters->cigParams))
    return CUDA_ERROR_NOT_SUPPORTED;
  return ctx_create(out, flags, ordinal);
}

CUresult ctx_destroy(CUcontext handle) {
  Context *context = resolve_context(handle);
  if (!context || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(state.contexts_mutex);
  destroy_context(*context, "the destruction of a context");
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult ctx_set_current(CUcontext handle) {
  if (!handle) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  Context *context = resolve_context(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty())
    stack.push_back(context);
  else
    stack.back() = context;
  return CUDA_SUCCESS;
}

CUresult ctx_get_current(CUcontext *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(current_context());
  return CUDA_SUCCESS;
}

CUresult ctx_push_current(CUcontext handle) {
  Context *context = resolve_context(handle);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.full()) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.push_back(context);
  return CUDA_SUCCESS;
}

CUresult ctx_pop_current(CUcontext *out) {
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out) *out = handle_of(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult ctx_get_device(CUdevice *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = current_context()->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult ctx_get_device_v2(CUdevice *out, CUcontext handle) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const Context *context = handle ? resolve_context(handle) : current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  *out = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult ctx_synchronize() {
  drain_context(*current_context());
  return current_sticky();
}

CUresult ctx_synchronize_v2(CUcontext handle) {
  Context *context = handle ? resolve_context(handle) : current_context();
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  drain_context(*context);
  return static_cast<CUresult>(context->sticky.load());
}

CUresult ctx_get_api_version(CUcontext handle, unsigned *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!(handle ? resolve_context(handle) : current_context())) return CUDA_ERROR_INVALID_CONTEXT;
  *out = 3020;
  return CUDA_SUCCESS;
}

CUresult ctx_get_id(CUcontext handle, unsigned long long *out) {
  const Context *context = handle ? resolve_context(handle) : current_context();
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!context) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *out = context->id;
  return CUDA_SUCCESS;
}

CUresult ctx_get_flags(unsigned *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = current_context()->flags;
  return CUDA_SUCCESS;
}

CUresult ctx_get_stream_priority_range(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult ctx_enable_peer_access(CUcontext handle, unsigned flags) {
  const Context *peer = resolve_context(handle);
  Context *context = current_context();
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
  if (peer->device == context->device) return CUDA_ERROR_INVALID_DEVICE;
  const unsigned bit = 1u << peer->device->ordinal;
  return context->peers.fetch_or(bit) & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult ctx_disable_peer_access(CUcontext handle) {
  const Context *peer = resolve_context(handle);
  if (!peer) return CUDA_ERROR_INVALID_CONTEXT;
  const unsigned bit = 1u << peer->device->ordinal;
  return current_context()->peers.fetch_and(~bit) & bit ? CUDA_SUCCESS
                                                        : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace emulated
