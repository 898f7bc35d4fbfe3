// What a launch needs of the scheduler: stacks, and one block of threads run on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "scheduler.h"
#include "turns.h"

namespace emulation {

// A barrier that is passed over as if it did not stand in the source.
struct Removed {
    const char* file;  // without its folder
    int line;          // 0: no barrier is removed
    long long passed;  // how often a thread came by
};

struct Block {
    void (*kernel)(const void*);
    const void* arguments;
    unsigned char* dynamic_memory;
    int threads;
    Order order;
    int favoured_warp;
    uint64_t seed;
    Removed* removed;
};

// The stacks of up to 1024 threads, kept from block to block. Blocks that run on the same stacks are ordered for the thread
// sanitizer; those on different ones are not.
class Stacks;
Stacks* new_stacks();

// Runs a block to its end on the calling thread; one block at a time. Returns "", or what went wrong.
std::string run_block(Stacks& stacks, const Block& block);

// For a signal's handler: ends the block with an error, if it was a thread of it that was interrupted; else returns.
void fail_from_signal(const char* message);

}  // namespace emulation
