// The store of free contexts, so that a training loop does not ask the system for the same memory at each step.
#include "context.h"

#include <mutex>
#include <new>

#include "kernels.h"
#include "services.h"

namespace splat {
namespace {

constexpr int KEPT = 4;  // more than a training step has in flight; the rest is given back to the system
std::mutex store_mutex;
Context* store[CONTEXT_KINDS][KEPT];
int stored[CONTEXT_KINDS];

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
    if (context->bytes[slot] >= bytes && context->memory[slot]) return context->memory[slot];
    deallocate(context->memory[slot]);
    const size_t wanted = bytes + bytes / 4 + 64;  // a little more: pair counts vary from view to view
    context->memory[slot] = allocate(wanted);
    context->bytes[slot] = context->memory[slot] ? wanted : 0;
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
