// The store of free contexts, so that a training loop does not ask the system for the same memory at each step.
#include "context.h"

#include <cstring>
#include <mutex>
#include <new>

#include "kernels.h"
#include "services.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace splat {
namespace {

constexpr int KEPT = 4;  // more than a training step has in flight; the rest is given back to the system
std::mutex store_mutex;
Context* store[CONTEXT_KINDS][KEPT];
int stored[CONTEXT_KINDS];

// AddressSanitizer (tools/test_sanitizers) knows the blocks that the system gave; these two tell it what in them a kernel
// may touch. Otherwise they do nothing.
#if defined(__SANITIZE_ADDRESS__)
void reveal(void* memory, size_t bytes, size_t size) {
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(memory) + bytes, size - bytes);
}
// The old contents become NaN, and -1 as an integer.
void hide(void* memory, size_t size) {
    ASAN_UNPOISON_MEMORY_REGION(memory, size);
    if (memory) std::memset(memory, 0xff, size);
    ASAN_POISON_MEMORY_REGION(memory, size);
}
#else
void reveal(void*, size_t, size_t) {}
void hide(void*, size_t) {}
#endif

void destroy(Context* context) {
    for (void* memory : context->memory) deallocate(memory);
    delete context;
}

}  // namespace

Context* context_acquire(ContextKind kind) {
    {
        std::lock_guard<std::mutex> lock(store_mutex);
        if (stored[kind] > 0) return store[kind][--stored[kind]];
    }
    Context* context = new (std::nothrow) Context{};
    if (context) context->kind = kind;
    return context;
}

void context_release(Context* context) {
    if (!context) return;
    for (int slot = 0; slot < CONTEXT_BUFFERS; ++slot) hide(context->memory[slot], context->bytes[slot]);
    {
        std::lock_guard<std::mutex> lock(store_mutex);
        int& count = stored[context->kind];
        if (count < KEPT) {
            store[context->kind][count++] = context;
            return;
        }
    }
    destroy(context);
}

void* context_reserve(Context* context, int slot, size_t bytes) {
    if (context->bytes[slot] < bytes || !context->memory[slot]) {
        deallocate(context->memory[slot]);
        const size_t wanted = bytes + bytes / 4 + 64;  // a little more: pair counts vary from view to view
        context->memory[slot] = allocate(wanted);
        context->bytes[slot] = context->memory[slot] ? wanted : 0;
    }
    if (context->memory[slot]) reveal(context->memory[slot], bytes, context->bytes[slot]);
    return context->memory[slot];
}

}  // namespace splat

SPLAT_EXPORT void splat_context_free(void* context) {
    splat::context_release(static_cast<splat::Context*>(context));
}

// Gives the memory of all free contexts back to the system.
SPLAT_EXPORT void splat_trim_memory() {
    using namespace splat;
    std::lock_guard<std::mutex> lock(store_mutex);
    for (int kind = 0; kind < CONTEXT_KINDS; ++kind)
        while (stored[kind] > 0) destroy(store[kind][--stored[kind]]);
}
