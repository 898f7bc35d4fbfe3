// Memory that outlives a call: what a forward pass keeps for its backward pass, and scratch that the next call reuses.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../include/macros.h"

namespace splat {

constexpr int CONTEXT_BUFFERS = 9;
constexpr int CONTEXT_NUMBERS = 16;

// Free contexts wait in one store for each kind, since the kinds need very different sizes.
enum ContextKind : int32_t {
    CONTEXT_SAVED = 0,
    CONTEXT_FORWARD_SCRATCH = 1,
    CONTEXT_BACKWARD_SCRATCH = 2,
    CONTEXT_STEP_SCRATCH = 3,
    CONTEXT_RAY_SCRATCH = 4,
    CONTEXT_KINDS = 5
};

// Numbered buffers and numbers; kernels give the slots their meaning. One owner at a time; any number may be in flight.
struct Context {
    void* memory[CONTEXT_BUFFERS];
    size_t bytes[CONTEXT_BUFFERS];
    int64_t numbers[CONTEXT_NUMBERS];
    ContextKind kind;
};

// A context with buffers of any content, from the store of free ones if there is one; null when memory has run out.
Context* context_acquire(ContextKind kind);
// Gives a context back to its store. Null is allowed.
void context_release(Context* context);
// At least `bytes` of memory in a slot; old contents are lost when it must grow. Null when memory has run out.
void* context_reserve(Context* context, int slot, size_t bytes);

}  // namespace splat

SPLAT_BEGIN_ISA

// Acquires on construction, releases when it goes out of scope unless `take` was called.
class ContextOwner {
  public:
    explicit ContextOwner(ContextKind kind) : context_(context_acquire(kind)) {}
    ~ContextOwner() { context_release(context_); }
    ContextOwner(const ContextOwner&) = delete;
    ContextOwner& operator=(const ContextOwner&) = delete;
    Context* get() const { return context_; }
    Context* take() {
        Context* taken = context_;
        context_ = nullptr;
        return taken;
    }

  private:
    Context* context_;
};

SPLAT_END_ISA
