// The scheduler of emulated threads; see scheduler.h. Never compiled with a sanitizer's checks: the sanitizers shall see
// the kernels' memory accesses, and hear from here only what CUDA says about their order.
#include "scheduler.h"

#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "sanitizers.h"

namespace emulation {

Index thread_index, block_index, block_size, grid_size;

namespace {

constexpr int WARP = 32;
constexpr int THREADS_MAX = 1024;
constexpr size_t PAGE = 4096;
constexpr size_t STACK = 256 << 10;

enum class State { READY, IN_BARRIER, IN_EXCHANGE, EXITED };
enum class Order { FORWARD, REVERSE, RANDOM, GREEDY_WARP };

struct Thread {
    void* jump[5];         // of __builtin_setjmp, which no sanitizer intercepts
    ucontext_t beginning;  // the first entry onto the stack
    unsigned char* stack = nullptr;
    bool entered = false;
    State state = State::EXITED;
    Site site = {};
    Vote vote = Vote::NONE;
    bool predicate = false;
    unsigned mask = 0;
    uint64_t value = 0, argument = 0, result = 0;
    Rule rule = nullptr;
    FiberMark mark;
};

struct Removed {
    const char* file;  // its last part; "" for none
    int line;
    long long passed;  // how often a thread came by
};

struct Launch {
    void (*kernel)(const void*);
    const void* arguments;
    Removed* removed;  // a barrier that is passed over as if it did not stand in the source
};

Thread threads[THREADS_MAX];
Thread* current;
int current_id;
int count;  // threads of the block
unsigned ready_lanes[WARP], ready_warps;
int in_barrier, exited;
int barrier_result;
unsigned generation, warp_generation[THREADS_MAX];
char block_objects[2], warp_objects[THREADS_MAX][2], fence_object, start_object, end_object;
void* main_jump[5];
FiberMark main_mark;
Launch launch;
std::string error;
bool failed;
std::unique_ptr<unsigned char[]> dynamic_memory;
uint64_t random_state;
int favoured_warp;

uint64_t random_number() {
    random_state += 0x9e3779b97f4a7c15u;  // splitmix64 (Steele et al. 2014)
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int warps() { return (count + WARP - 1) / WARP; }

void make_ready(int id) {
    threads[id].state = State::READY;
    ready_lanes[id / WARP] |= 1u << (id % WARP);
    ready_warps |= 1u << (id / WARP);
}

void not_ready(int id) {
    unsigned& lanes = ready_lanes[id / WARP];
    lanes &= ~(1u << (id % WARP));
    if (!lanes) ready_warps &= ~(1u << (id / WARP));
}

// Position of the k-th set bit.
int nth_bit(unsigned bits, int k) {
    while (k--) bits &= bits - 1;
    return __builtin_ctz(bits);
}

// First set bit above `after` (-1: any), going round.
int next_up(unsigned bits, int after) {
    const unsigned above = after >= 31 ? 0 : bits & (~0u << (after + 1));
    return __builtin_ctz(above ? above : bits);
}
int next_down(unsigned bits, int before) {
    const unsigned below = before <= 0 ? 0 : bits & ((1u << before) - 1);
    return 31 - __builtin_clz(below ? below : bits);
}

int pick_forward(int last) {
    const int warp = last < 0 ? -1 : last / WARP;
    const unsigned rest =
        warp < 0 ? 0 : ready_lanes[warp] & (last % WARP == 31 ? 0 : ~0u << (last % WARP + 1));
    if (rest) return warp * WARP + __builtin_ctz(rest);
    const int next = next_up(ready_warps, warp);
    return next * WARP + __builtin_ctz(ready_lanes[next]);
}

int pick_reverse(int last) {
    const int warp = last < 0 ? WARP : last / WARP;
    const unsigned rest = last < 0 ? 0 : ready_lanes[warp] & ((1u << (last % WARP)) - 1);
    if (rest) return warp * WARP + 31 - __builtin_clz(rest);
    const int next = next_down(ready_warps, warp);
    return next * WARP + 31 - __builtin_clz(ready_lanes[next]);
}

int pick_random() {
    const int warp = nth_bit(ready_warps, int(random_number() % unsigned(__builtin_popcount(ready_warps))));
    const unsigned lanes = ready_lanes[warp];
    return warp * WARP + nth_bit(lanes, int(random_number() % unsigned(__builtin_popcount(lanes))));
}

int pick_greedy() {
    const int warp = next_up(ready_warps, favoured_warp - 1);
    return warp * WARP + __builtin_ctz(ready_lanes[warp]);
}

int pick(Order order, int last) {
    switch (order) {
        case Order::FORWARD: return pick_forward(last);
        case Order::REVERSE: return pick_reverse(last);
        case Order::RANDOM: return pick_random();
        case Order::GREEDY_WARP: return pick_greedy();
    }
    return -1;
}

[[gnu::noinline, noreturn]] void jump_to(void** where) { __builtin_longjmp(where, 1); }

// Gives the turn back to the scheduler.
[[gnu::noinline]] void pause() {
    Thread& me = *current;
    leave_fiber(me.mark, main_mark);
    if (__builtin_setjmp(me.jump) == 0) jump_to(main_jump);
    arrive_in_fiber(current->mark.fake_stack, main_mark);
}

// What stands at the bottom of each thread's stack.
void thread_main() {
    arrive_in_fiber(nullptr, main_mark);
    for (;;) {
        acquire(&start_object);
        launch.kernel(launch.arguments);
        release(&end_object);
        not_ready(current_id);
        current->state = State::EXITED;
        exited++;
        pause();
    }
}

void prepare_stack(Thread& thread) {
    if (!thread.stack) {
        void* memory = mmap(nullptr, STACK + PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) abort();
        mprotect(memory, PAGE,
                 PROT_NONE);  // a stack that runs over ends the process instead of another thread's memory
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
    Thread& thread = threads[id];
    current = &thread;
    current_id = id;
    thread_index = {unsigned(id), 0, 0};
    leave_fiber(main_mark, thread.mark);
    if (__builtin_setjmp(main_jump) == 0) {
        if (thread.entered) jump_to(thread.jump);
        thread.entered = true;
        setcontext(&thread.beginning);
    }
    current = nullptr;
    FiberMark left;
    arrive_in_fiber(main_mark.fake_stack, left);
}

std::string at(const Site& site) {
    const char* file = std::strstr(site.file, "csrc/");
    return std::string(site.operation) + " in " + (file ? file : site.file) + ":" + std::to_string(site.line);
}

std::string where(int id) {
    const Thread& thread = threads[id];
    switch (thread.state) {
        case State::READY: return "is running";
        case State::EXITED: return "has exited";
        case State::IN_BARRIER: return "waits at " + at(thread.site);
        case State::IN_EXCHANGE: {
            char mask[16];
            std::snprintf(mask, sizeof mask, "0x%08x", thread.mask);
            return "waits at " + at(thread.site) + " for lanes " + mask;
        }
    }
    return "";
}

// One line for each run of threads that stand at the same place.
std::string positions() {
    std::string text;
    for (int first = 0, next; first < count; first = next) {
        const std::string place = where(first);
        for (next = first + 1; next < count && where(next) == place; next++) continue;
        text += "\n  thread " + std::to_string(first);
        if (next - first > 1) text += " to " + std::to_string(next - 1);
        text += " " + place;
    }
    return text;
}

std::string block_name() {
    return "block (" + std::to_string(block_index.x) + ", " + std::to_string(block_index.y) + ")";
}

// Why nobody can go on.
std::string reason() {
    for (int id = 0; id < count; id++) {
        const Thread& thread = threads[id];
        if (thread.state != State::IN_EXCHANGE) continue;
        for (int lane = 0; lane < WARP; lane++) {
            if (!(thread.mask >> lane & 1)) continue;
            const int other = id / WARP * WARP + lane;
            if (other >= count)
                return "lane " + std::to_string(lane) + " is named in a mask, but the block is smaller";
            if (threads[other].state == State::EXITED) return "a lane that has exited is named in a mask";
        }
    }
    if (in_barrier && in_barrier + exited == count && exited)
        return "threads have exited before a barrier of the block";
    return "the threads wait at different places and none can go on (deadlock)";
}

bool same_site(const Site& a, const Site& b) {
    return a.line == b.line && (a.file == b.file || !std::strcmp(a.file, b.file));
}

bool is_removed(const Site& site) {
    Removed* removed = launch.removed;
    if (!removed || removed->line != site.line) return false;
    const char* slash = std::strrchr(site.file, '/');
    if (std::strcmp(slash ? slash + 1 : site.file, removed->file)) return false;
    removed->passed++;
    return true;
}

// Whether all lanes of a thread's mask wait where it does.
bool complete(int id) {
    const Thread& me = threads[id];
    const int first = id / WARP * WARP;
    const int last = first + WARP - 1 - __builtin_clz(me.mask);
    if (last >= count || threads[last].state != State::IN_EXCHANGE)
        return false;  // the common case, soon told
    for (unsigned rest = me.mask; rest; rest &= rest - 1) {
        const int other = first + __builtin_ctz(rest);
        if (other >= count) return false;
        const Thread& thread = threads[other];
        if (thread.state != State::IN_EXCHANGE || thread.mask != me.mask || thread.rule != me.rule ||
            !same_site(thread.site, me.site))
            return false;
    }
    return true;
}

void finish_exchange(int id) {
    const unsigned mask = threads[id].mask;
    const int first = id / WARP * WARP;
    uint64_t values[WARP] = {};
    for (unsigned rest = mask; rest; rest &= rest - 1)
        values[__builtin_ctz(rest)] = threads[first + __builtin_ctz(rest)].value;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        Thread& thread = threads[first + __builtin_ctz(rest)];
        thread.result = thread.rule({values, mask, __builtin_ctz(rest), thread.argument});
    }
    for (unsigned rest = mask; rest; rest &= rest - 1) make_ready(first + __builtin_ctz(rest));
    warp_generation[first + __builtin_ctz(mask)]++;
}

// Lets the block's threads go on once all have come to one barrier.
void finish_barrier() {
    int ayes = 0;
    for (int id = 0; id < count; id++) {
        if (!same_site(threads[id].site, threads[0].site) || threads[id].vote != threads[0].vote)
            fail("the threads of the block wait at different barriers");
        ayes += threads[id].predicate;
    }
    const Vote vote = threads[0].vote;
    barrier_result = vote == Vote::COUNT ? ayes : vote == Vote::ANY ? ayes > 0 : ayes == count;
    in_barrier = 0;
    generation++;
    for (int id = 0; id < count; id++) make_ready(id);
}

struct SharedMemory {
    const unsigned char* anchor;  // something that lies in it
    unsigned char* begin;
    size_t size;
};

// The __shared__ variables of a library are its thread-local ones: one block of memory, found by an address in it.
extern "C" int find_shared(dl_phdr_info* info, size_t, void* data) {
    auto* range = static_cast<SharedMemory*>(data);
    if (!info->dlpi_tls_data) return 0;
    auto* begin = static_cast<unsigned char*>(info->dlpi_tls_data);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_TLS || range->anchor < begin || range->anchor >= begin + header.p_memsz)
            continue;
        range->begin = begin;
        range->size = header.p_memsz;
        return 1;
    }
    return 0;
}

// Shared memory starts each block as NaN (all bits set), so that what nobody wrote spoils results.
void spoil(unsigned char* begin, size_t size) {
    for (volatile unsigned char* byte = begin; byte != begin + size; byte++) *byte = 0xff;
}

void spoil_shared_memory(const SharedMemory& range, size_t dynamic_bytes) {
    const size_t words = range.size / 8;
    for (size_t i = 0; i < words; i++) reinterpret_cast<volatile uint64_t*>(range.begin)[i] = ~0ull;
    spoil(range.begin + 8 * words, range.size - 8 * words);
    spoil(dynamic_memory.get(), dynamic_bytes);
}

#if !defined(EMULATION_ADDRESS) && !defined(EMULATION_THREAD)
void on_bad_address(int number, siginfo_t* info, void*) {
    if (!current) {  // not a kernel's: the process ends as it would without us, when the instruction is repeated
        signal(number, SIG_DFL);
        return;
    }
    char address[32];
    std::snprintf(address, sizeof address, "%p", info->si_addr);
    error = std::string("a thread touches memory at ") + address + ", which is not there (thread " +
            std::to_string(current_id) + ")";
    failed = true;
    jump_to(main_jump);
}

// While it lives, an address that is not there, or a stack that runs over, is an error of the launch. The sanitizers have
// their own way.
class BadAddresses {
  public:
    BadAddresses() {
        static unsigned char stack[64 << 10];
        const stack_t alternative = {stack, 0, sizeof stack};
        sigaltstack(&alternative, &stack_before_);
        struct sigaction action = {};
        action.sa_sigaction = on_bad_address;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &segv_before_);
        sigaction(SIGBUS, &action, &bus_before_);
    }
    ~BadAddresses() {
        sigaction(SIGSEGV, &segv_before_, nullptr);
        sigaction(SIGBUS, &bus_before_, nullptr);
        sigaltstack(&stack_before_, nullptr);
    }

  private:
    stack_t stack_before_;
    struct sigaction segv_before_, bus_before_;
};
#else
class BadAddresses {};
#endif

void begin_block() {
    in_barrier = exited = 0;
    ready_warps = 0;
    for (int warp = 0; warp < WARP; warp++) ready_lanes[warp] = 0;
    for (int id = 0; id < count; id++) {
        if (!threads[id].entered) prepare_stack(threads[id]);
        make_ready(id);
    }
}

void run_block(Order order) {
    begin_block();
    for (int last = -1; !failed;) {
        if (!ready_warps) {
            if (exited == count) return;
            error = reason();
            failed = true;
            break;
        }
        resume(last = pick(order, last));
    }
    error += "; " + block_name() + ":" + positions();
    for (int id = 0; id < count; id++)
        threads[id].entered = false;  // their stacks are in the middle of a kernel
}

std::vector<uint64_t> order_of_blocks(Order order, uint64_t blocks) {
    std::vector<uint64_t> ids(blocks);
    for (uint64_t i = 0; i < blocks; i++) ids[i] = order == Order::REVERSE ? blocks - 1 - i : i;
    if (order != Order::RANDOM) return ids;
    for (uint64_t i = blocks; i > 1; i--) std::swap(ids[i - 1], ids[random_number() % i]);
    return ids;
}

}  // namespace

void fail(const char* message) {
    error = message;
    error += " (thread " + std::to_string(current_id) + ")";
    failed = true;
    pause();
    __builtin_unreachable();
}

int block_barrier(Site site, Vote vote, bool predicate) {
    if (vote == Vote::NONE && is_removed(site)) return 0;
    Thread& me = *current;
    me.site = site;
    me.vote = vote;
    me.predicate = predicate;
    me.state = State::IN_BARRIER;
    not_ready(current_id);
    const unsigned now = generation;
    release(&block_objects[now & 1]);
    if (++in_barrier == count) finish_barrier();
    pause();
    acquire(&block_objects[now & 1]);
    return barrier_result;
}

uint64_t warp_exchange(Site site, unsigned mask, uint64_t value, Rule rule, uint64_t argument, bool orders) {
    if (rule == rule_nothing && is_removed(site)) return 0;
    Thread& me = *current;
    me.site = site;
    me.mask = mask;
    me.value = value;
    me.rule = rule;
    me.argument = argument;
    if (!(mask >> lane_index() & 1))
        fail("a lane calls an operation of its warp with a mask that leaves it out");
    me.state = State::IN_EXCHANGE;
    not_ready(current_id);
    const int leader = current_id / WARP * WARP + __builtin_ctz(mask);
    char* object = &warp_objects[leader][warp_generation[leader] & 1];
    if (orders) release(object);
    if (complete(current_id)) finish_exchange(current_id);
    pause();
    if (orders) acquire(object);
    return me.result;
}

unsigned char* dynamic_shared_memory() { return dynamic_memory.get(); }

void fence() {
    release(&fence_object);
    acquire(&fence_object);
}

int lane_index() { return current_id % WARP; }

}  // namespace emulation

using namespace emulation;

// What the launcher asks for; mirrored in launcher.py.
struct LaunchRequest {
    void (*kernel)(const void*);
    const void* arguments;
    const unsigned char* anchor;  // see SharedMemory
    int grid_x, grid_y, block;
    int thread_order, block_order;
    uint64_t seed, shared_bytes;
    Removed removed;
    char* error;  // out, at most `error_bytes`
    uint64_t error_bytes;
};

// Runs a kernel; returns 0, or 1 with a text about what went wrong.
extern "C" EMULATION_API int emulation_launch(LaunchRequest* request) {
    launch = {request->kernel, request->arguments, request->removed.line ? &request->removed : nullptr};
    count = request->block;
    grid_size = {unsigned(request->grid_x), unsigned(request->grid_y), 1};
    block_size = {unsigned(count), 1, 1};
    random_state = request->seed;
    failed = false;
    SharedMemory range = {request->anchor, nullptr, 0};
    dl_iterate_phdr(find_shared, &range);
    dynamic_memory.reset(new unsigned char[request->shared_bytes]);
    enter_scheduler(main_mark);
    [[maybe_unused]] const BadAddresses bad_addresses;
    const uint64_t blocks = uint64_t(request->grid_x) * uint64_t(request->grid_y);
    for (uint64_t id : order_of_blocks(Order(request->block_order), blocks)) {
        block_index = {unsigned(id % grid_size.x), unsigned(id / grid_size.x), 0};
        favoured_warp = int((request->seed + id) % uint64_t(warps()));
        spoil_shared_memory(range, request->shared_bytes);
        release(&start_object);
        run_block(Order(request->thread_order));
        acquire(&end_object);
        if (failed) break;
    }
    if (!failed) return 0;
    std::snprintf(request->error, request->error_bytes, "%s", error.c_str());
    return 1;
}
