// What a forward pass keeps for its backward pass: numbered buffers that are used again by later calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace splat {

constexpr int CONTEXT_BUFFERS = 8;
constexpr int CONTEXT_NUMBERS = 16;

// One is owned by one forward/backward pair; any number may be in flight. Kernels give the slots their meaning.
struct Context {
    void* memory[CONTEXT_BUFFERS];
    size_t bytes[CONTEXT_BUFFERS];
    int64_t numbers[CONTEXT_NUMBERS];
};

// A context with buffers of any content, from the store of free ones if there is one; null when memory has run out.
Context* context_acquire();
// Gives a context back to the store.
void context_release(Context* context);
// At least `bytes` of memory in a slot; old contents are lost when it must grow. Null when memory has run out.
void* context_reserve(Context* context, int slot, size_t bytes);

}  // namespace splat
