// Runs the threads of a CUDA block on the CPU, each on a stack of its own, one at a time: what cuda_on_cpu.h is made of.
//
// A thread runs until it waits: at a barrier of its block, or at an operation of its warp. Then another takes its turn,
// in the order that the launch chose. A wait that can never end is an error that names the line where each thread stands.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulation {

struct Index {
    unsigned x, y, z;
};

// The thread that has its turn. The scheduler sets them; kernels read them as CUDA's built-ins.
#define EMULATION_API __attribute__((visibility("default")))

extern EMULATION_API Index thread_index, block_index, block_size, grid_size;

// Where in the sources a thread waits, and in what.
struct Site {
    const char* operation;
    const char* file;
    int line;
};

// What a barrier of the block gives back.
enum class Vote { NONE, COUNT, ANY, ALL };

// Waits for all threads of the block. `orders`: what the threads wrote before it can be read after it.
EMULATION_API int block_barrier(Site site, Vote vote, bool predicate);

// How a lane's result follows from the values of all 32 lanes (of those in the mask), its lane and its own argument. Calls
// `fail` for an error.
struct Exchange {
    const uint64_t* values;
    unsigned mask;
    int lane;
    uint64_t argument;
};
using Rule = uint64_t (*)(const Exchange&);
EMULATION_API uint64_t rule_lane(const Exchange&);    // the value of the lane in `argument`
EMULATION_API uint64_t rule_ballot(const Exchange&);  // the lanes whose value is not 0
EMULATION_API uint64_t rule_match(const Exchange&);   // the lanes with the same value
EMULATION_API uint64_t rule_nothing(const Exchange&);
EMULATION_API uint64_t rule_add(const Exchange&);
EMULATION_API uint64_t rule_min_signed(const Exchange&);
EMULATION_API uint64_t rule_max_signed(const Exchange&);
EMULATION_API uint64_t rule_min_unsigned(const Exchange&);
EMULATION_API uint64_t rule_max_unsigned(const Exchange&);
EMULATION_API uint64_t rule_and(const Exchange&);
EMULATION_API uint64_t rule_or(const Exchange&);
EMULATION_API uint64_t rule_xor(const Exchange&);

// Waits for the lanes of the mask and returns the rule's result. `orders`: as __syncwarp does, and shuffles do not.
EMULATION_API uint64_t warp_exchange(Site site, unsigned mask, uint64_t value, Rule rule, uint64_t argument,
                                     bool orders);

// The block's dynamic shared memory.
EMULATION_API unsigned char* dynamic_shared_memory();

// Ends the launch with an error; `detail` may be empty.
[[noreturn]] EMULATION_API void fail(const char* message);

// __threadfence: orders nothing between threads that run one at a time, but the thread sanitizer must hear of it.
EMULATION_API void fence();

// A lane of this thread's warp, 0 to 31.
EMULATION_API int lane_index();

}  // namespace emulation
