// The scheduler of emulated threads; see scheduler.h. Never compiled with a sanitizer's checks: the sanitizers shall see
// the kernels' memory accesses, and hear from here only what CUDA says about their order.
#include "scheduler.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "block.h"
#include "sanitizers.h"

namespace emulation {

Index thread_index, block_index, block_size, grid_size;

namespace {

constexpr size_t PAGE = 4096;
constexpr size_t STACK = 256 << 10;

enum class State { READY, IN_BARRIER, IN_EXCHANGE, EXITED };

struct Thread {
    void* jump[5];         // of __builtin_setjmp, which no sanitizer intercepts
    ucontext_t beginning;  // the first entry onto the stack
    unsigned char* stack = nullptr;
    bool entered = false;
    FiberMark mark;
    State state = State::EXITED;
    Site site = {};
    Vote vote = Vote::NONE;
    bool predicate = false;
    unsigned mask = 0;
    uint64_t value = 0, argument = 0, result = 0;
    Rule rule = nullptr;
};

}  // namespace

class Stacks {
  public:
    Thread threads[THREADS_MAX];
    FiberMark own;  // the stack of whoever calls run_block
    // Objects whose addresses tell the thread sanitizer what comes before what. Barriers have two, in turn: who has left one
    // barrier may come to the next before the others have left the first.
    char start, end, barrier[2], exchange[THREADS_MAX][2];
    unsigned barriers = 0, exchanges[THREADS_MAX] = {};
};

Stacks* new_stacks() { return new Stacks; }

namespace {

Stacks* stacks;  // of the block that runs
const Block* block;
Turns turns;
int current = -1;  // the thread that has its turn; -1: the scheduler has it
int in_barrier, exited, barrier_result;
void* scheduler_jump[5];
std::string error;
bool failed;
char device_fence;

[[gnu::noinline, noreturn]] void jump_to(void** where) { __builtin_longjmp(where, 1); }

// Gives the turn back to the scheduler.
[[gnu::noinline]] void pause() {
    Thread& me = stacks->threads[current];
    leave_fiber(me.mark, stacks->own);
    if (__builtin_setjmp(me.jump) == 0) jump_to(scheduler_jump);
    arrive_in_fiber(stacks->threads[current].mark.fake_stack, stacks->own);
}

// What stands at the bottom of each thread's stack.
void thread_main() {
    arrive_in_fiber(nullptr, stacks->own);
    for (;;) {
        acquire(&stacks->start);
        block->kernel(block->arguments);
        release(&stacks->end);
        turns.remove(current);
        stacks->threads[current].state = State::EXITED;
        exited++;
        pause();
    }
}

void prepare(Thread& thread) {
    if (!thread.stack) {
        const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* memory = mmap(nullptr, STACK + PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (memory == MAP_FAILED) abort();
        mprotect(memory, PAGE, PROT_NONE);  // so a stack that runs over does not reach its neighbour
        thread.stack = static_cast<unsigned char*>(memory) + PAGE;
    }
    unpoison(thread.stack, STACK);
    new_fiber(thread.mark, thread.stack, STACK);
    getcontext(&thread.beginning);
    thread.beginning.uc_stack.ss_sp = thread.stack;
    thread.beginning.uc_stack.ss_size = STACK;
    thread.beginning.uc_link = nullptr;
    makecontext(&thread.beginning, thread_main, 0);
}

// Gives the turn to a thread, until it waits, exits or fails.
[[gnu::noinline]] void resume(int id) {
    Thread& thread = stacks->threads[id];
    current = id;
    thread_index = {unsigned(id), 0, 0};
    leave_fiber(stacks->own, thread.mark);
    if (__builtin_setjmp(scheduler_jump) == 0) {
        if (thread.entered) jump_to(thread.jump);
        thread.entered = true;
        setcontext(&thread.beginning);
    }
    current = -1;
    FiberMark left;
    arrive_in_fiber(stacks->own.fake_stack, left);
}

std::string place_of(int id) {
    const Thread& thread = stacks->threads[id];
    if (thread.state == State::READY) return "is running";
    if (thread.state == State::EXITED) return "has exited";
    const char* file = std::strstr(thread.site.file, "csrc/");
    std::string text = std::string("waits at ") + thread.site.operation + " in " +
                       (file ? file : thread.site.file) + ":" + std::to_string(thread.site.line);
    if (thread.state == State::IN_BARRIER) return text;
    char mask[32];
    std::snprintf(mask, sizeof mask, " for lanes 0x%08x", thread.mask);
    return text + mask;
}

// One line for each run of threads that stand at the same place.
std::string positions() {
    std::string text;
    for (int first = 0, next; first < block->threads; first = next) {
        const std::string place = place_of(first);
        for (next = first + 1; next < block->threads && place_of(next) == place; next++) continue;
        text += "\n  thread " + std::to_string(first);
        if (next - first > 1) text += " to " + std::to_string(next - 1);
        text += " " + place;
    }
    return text;
}

// Why nobody can go on.
std::string reason() {
    for (int id = 0; id < block->threads; id++) {
        const Thread& thread = stacks->threads[id];
        if (thread.state != State::IN_EXCHANGE) continue;
        for (unsigned rest = thread.mask; rest; rest &= rest - 1) {
            const int other = id / WARP * WARP + __builtin_ctz(rest);
            if (other >= block->threads) return "a mask names lanes that the block does not have";
            if (stacks->threads[other].state == State::EXITED)
                return "a lane that has exited is named in a mask";
        }
    }
    if (in_barrier && in_barrier + exited == block->threads)
        return "threads have exited before a barrier of the block";
    return "the threads wait at different places and none can go on (deadlock)";
}

bool same_site(const Site& a, const Site& b) {
    return a.line == b.line && (a.file == b.file || !std::strcmp(a.file, b.file));
}

bool is_removed(const Site& site) {
    Removed* removed = block->removed;
    if (removed->line != site.line) return false;
    const char* slash = std::strrchr(site.file, '/');
    if (std::strcmp(slash ? slash + 1 : site.file, removed->file)) return false;
    removed->passed++;
    return true;
}

// Whether all lanes of a thread's mask wait where it does.
bool complete(int id) {
    const Thread& me = stacks->threads[id];
    const int first = id / WARP * WARP;
    const int last = first + WARP - 1 - __builtin_clz(me.mask);
    if (last >= block->threads || stacks->threads[last].state != State::IN_EXCHANGE)
        return false;  // soon told
    for (unsigned rest = me.mask; rest; rest &= rest - 1) {
        const Thread& other = stacks->threads[first + __builtin_ctz(rest)];
        if (other.state != State::IN_EXCHANGE || other.mask != me.mask || other.rule != me.rule ||
            !same_site(other.site, me.site))
            return false;
    }
    return true;
}

void make_ready(int id) {
    stacks->threads[id].state = State::READY;
    turns.add(id);
}

// Gives each lane its result and lets them go on.
void finish_exchange(int id) {
    const unsigned mask = stacks->threads[id].mask;
    Thread* const lanes = stacks->threads + id / WARP * WARP;
    uint64_t values[WARP] = {};
    for (unsigned rest = mask; rest; rest &= rest - 1)
        values[__builtin_ctz(rest)] = lanes[__builtin_ctz(rest)].value;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        lanes[lane].result = lanes[lane].rule({values, mask, lane, lanes[lane].argument});
    }
    for (unsigned rest = mask; rest; rest &= rest - 1) make_ready(id / WARP * WARP + __builtin_ctz(rest));
}

// Lets the block's threads go on once all have come to one barrier.
void finish_barrier() {
    const Thread* const threads = stacks->threads;
    int ayes = 0;
    for (int id = 0; id < block->threads; id++) {
        if (!same_site(threads[id].site, threads[0].site) || threads[id].vote != threads[0].vote)
            fail("the threads of the block wait at different barriers");
        ayes += threads[id].predicate;
    }
    const Vote vote = threads[0].vote;
    barrier_result = vote == Vote::COUNT ? ayes : vote == Vote::ANY ? ayes > 0 : ayes == block->threads;
    in_barrier = 0;
    stacks->barriers++;
    for (int id = 0; id < block->threads; id++) make_ready(id);
}

void begin(Stacks& on, const Block& what) {
    stacks = &on;
    block = &what;
    in_barrier = exited = 0;
    failed = false;
    turns.begin(what.order, what.favoured_warp, what.seed);
    enter_scheduler(on.own);
    for (int id = 0; id < what.threads; id++) {
        if (!on.threads[id].entered) prepare(on.threads[id]);
        make_ready(id);
    }
}

}  // namespace

std::string run_block(Stacks& on, const Block& what) {
    begin(on, what);
    release(&on.start);
    const int before = reports();
    while (!failed && turns.any()) {
        resume(turns.next());
        if (reports() == before) continue;
        error = "the thread sanitizer reports a race";
        failed = true;
    }
    acquire(&on.end);
    if (!failed && exited == what.threads) return "";
    if (!failed) error = reason();
    for (int id = 0; id < what.threads; id++)
        on.threads[id].entered = false;  // they are in the middle of a kernel
    return error + "; block (" + std::to_string(block_index.x) + ", " + std::to_string(block_index.y) +
           "):" + positions();
}

void fail(const char* message) {
    error = std::string(message) + " (thread " + std::to_string(current) + ")";
    failed = true;
    pause();
    __builtin_unreachable();
}

void fail_from_signal(const char* message) {
    if (current < 0) return;
    error = std::string(message) + " (thread " + std::to_string(current) + ")";
    failed = true;
    jump_to(scheduler_jump);
}

int block_barrier(Site site, Vote vote, bool predicate) {
    if (vote == Vote::NONE && is_removed(site)) return 0;
    Thread& me = stacks->threads[current];
    me.site = site;
    me.vote = vote;
    me.predicate = predicate;
    me.state = State::IN_BARRIER;
    turns.remove(current);
    char* const order = &stacks->barrier[stacks->barriers & 1];
    release(order);
    if (++in_barrier == block->threads) finish_barrier();
    pause();
    acquire(order);
    return barrier_result;
}

uint64_t warp_exchange(Site site, unsigned mask, uint64_t value, Rule rule, uint64_t argument, bool orders) {
    if (rule == rule_nothing && is_removed(site)) return 0;
    Thread& me = stacks->threads[current];
    me.site = site;
    me.mask = mask;
    me.value = value;
    me.rule = rule;
    me.argument = argument;
    if (!(mask >> lane_index() & 1))
        fail("a lane calls an operation of its warp with a mask that leaves it out");
    me.state = State::IN_EXCHANGE;
    turns.remove(current);
    const int leader = current / WARP * WARP + __builtin_ctz(mask);
    char* const order = &stacks->exchange[leader][stacks->exchanges[leader] & 1];
    if (orders) release(order);
    if (complete(current)) {
        finish_exchange(current);
        stacks->exchanges[leader]++;
    }
    pause();
    if (orders) acquire(order);
    return me.result;
}

unsigned char* dynamic_shared_memory() { return block->dynamic_memory; }

void fence() {
    release(&device_fence);
    acquire(&device_fence);
}

int lane_index() { return current % WARP; }

}  // namespace emulation
