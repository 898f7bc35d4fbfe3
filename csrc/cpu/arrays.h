// Arrays that each thread has of its own, for the time of one pass.
#pragma once

#include "context.h"

SPLAT_BEGIN_ISA

// Cuts arrays out of one piece of memory, each on cache lines of its own. Without memory it only counts the bytes.
class Arrays {
  public:
    explicit Arrays(char* memory) : memory_(memory) {}
    template <class U>
    U* take(int64_t count) {
        char* const piece = memory_ ? memory_ + bytes_ : nullptr;
        bytes_ += (size_t(count) * sizeof(U) + 63) / 64 * 64;
        return reinterpret_cast<U*>(piece);
    }
    size_t bytes() const { return bytes_; }

  private:
    char* memory_;
    size_t bytes_ = 0;
};

// Arrays that each thread has of its own, for one pass. lay(arrays) takes what a thread needs.
class ThreadArrays {
  public:
    template <class Lay>
    ThreadArrays(int threads, Lay lay) : scratch_(CONTEXT_RAY_SCRATCH) {
        Arrays counted(nullptr);
        lay(counted);
        bytes_ = counted.bytes();
        if (scratch_.get())
            memory_ = static_cast<char*>(context_reserve(scratch_.get(), 0, bytes_ * threads + 1));
    }
    explicit operator bool() const { return memory_ != nullptr; }
    Arrays of(int thread) const { return Arrays(memory_ + thread * bytes_); }

  private:
    const ContextOwner scratch_;
    size_t bytes_;
    char* memory_ = nullptr;
};

SPLAT_END_ISA
