// One launch of a kernel: its blocks in some order, each with spoiled shared memory; see launcher.py.
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "block.h"

namespace emulation {

// What the launcher asks for; mirrored in launcher.py.
struct LaunchRequest {
    void (*kernel)(const void*);
    const void* arguments;
    const unsigned char* (
        *anchor)();  // tells an address among the __shared__ variables of the kernel's library
    int grid_x, grid_y, block;
    int thread_order, block_order;
    int seconds_max;  // of the processor's time
    uint64_t seed, shared_bytes;
    Removed removed;
    char* error;  // out, at most `error_bytes`
    uint64_t error_bytes;
};

namespace {

// The __shared__ variables of a library are its thread-local ones: one piece of memory, found by an address in it.
struct SharedMemory {
    const unsigned char* anchor;
    unsigned char* begin;
    size_t size;
};

extern "C" int find_shared(dl_phdr_info* info, size_t, void* data) {
    auto* memory = static_cast<SharedMemory*>(data);
    if (!info->dlpi_tls_data) return 0;
    auto* begin = static_cast<unsigned char*>(info->dlpi_tls_data);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const auto& header = info->dlpi_phdr[i];
        if (header.p_type != PT_TLS || memory->anchor < begin || memory->anchor >= begin + header.p_memsz)
            continue;
        memory->begin = begin;
        memory->size = header.p_memsz;
        return 1;
    }
    return 0;
}

// Sets all bits: NaN to every float type. Volatile, so that no memset is made of it, which sanitizers would see.
void spoil(unsigned char* begin, size_t size) {
    size_t i = 0;
    if (reinterpret_cast<uintptr_t>(begin) % 8 == 0)
        for (; i + 8 <= size; i += 8) *reinterpret_cast<volatile uint64_t*>(begin + i) = ~uint64_t(0);
    for (; i < size; i++) *static_cast<volatile unsigned char*>(begin + i) = 0xff;
}

std::vector<uint64_t> order_of_blocks(Order order, uint64_t blocks, uint64_t seed) {
    std::vector<uint64_t> ids(blocks);
    for (uint64_t i = 0; i < blocks; i++) ids[i] = order == Order::REVERSE ? blocks - 1 - i : i;
    if (order != Order::RANDOM) return ids;
    Random random(seed);
    for (uint64_t i = blocks; i > 1; i--) std::swap(ids[i - 1], ids[random.below(i)]);
    return ids;
}

#if !defined(EMULATION_ADDRESS) && !defined(EMULATION_THREAD)
void on_bad_address(int number, siginfo_t* info, void*) {
    char message[80];
    std::snprintf(message, sizeof message, "a thread touches memory at %p, which is not there",
                  info->si_addr);
    fail_from_signal(message);
    signal(
        number,
        SIG_DFL);  // not a kernel's: the process ends as it would without us, when the instruction is repeated
}

void on_alarm(int, siginfo_t*, void*) {
    fail_from_signal("a kernel runs for longer than the launcher allows");
}

// While it lives, an address that is not there, a stack that runs over, and a kernel that does not end are errors of the
// launch. The sanitizers have their own way.
class Interrupts {
  public:
    explicit Interrupts(int seconds_max) {
        static unsigned char stack[64 << 10];
        stack_t alternative = {};
        alternative.ss_sp = stack;
        alternative.ss_size = sizeof stack;
        sigaltstack(&alternative, &stack_before_);
        for (int i = 0; i < 3; i++) {
            struct sigaction action = {};
            action.sa_sigaction = SIGNALS[i] == SIGVTALRM ? on_alarm : on_bad_address;
            action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
            sigaction(SIGNALS[i], &action, &before_[i]);
        }
        const itimerval alarm = {{0, 10000},
                                 {seconds_max, 0}};  // again each 10 ms: the first may meet the scheduler
        setitimer(ITIMER_VIRTUAL, &alarm, nullptr);
    }
    ~Interrupts() {
        const itimerval none = {};
        setitimer(ITIMER_VIRTUAL, &none, nullptr);
        for (int i = 0; i < 3; i++) sigaction(SIGNALS[i], &before_[i], nullptr);
        sigaltstack(&stack_before_, nullptr);
    }

  private:
    static constexpr int SIGNALS[3] = {SIGSEGV, SIGBUS, SIGVTALRM};
    stack_t stack_before_;
    struct sigaction before_[3];
};
#else
class Interrupts {
  public:
    explicit Interrupts(int) {}
};
#endif

// Workers take the blocks in turn, still one block at a time. For the thread sanitizer there are two, and it is told of no
// order between them: so it sees two neighbouring blocks that write the same global memory. Each has its own shared memory,
// since that is thread-local.
#if defined(EMULATION_THREAD)
constexpr int WORKERS = 2;
#else
constexpr int WORKERS = 1;
#endif

class Launch {
  public:
    explicit Launch(LaunchRequest& request)
        : request_(request),
          blocks_(order_of_blocks(Order(request.block_order),
                                  uint64_t(request.grid_x) * uint64_t(request.grid_y), request.seed)) {
        grid_size = {unsigned(request.grid_x), unsigned(request.grid_y), 1};
        block_size = {unsigned(request.block), 1, 1};
    }

    // Returns "", or what went wrong.
    std::string run() {
        if (WORKERS == 1) {
            work(0);
            return error_;
        }
        std::vector<std::thread> threads;
        for (int worker = 0; worker < WORKERS; worker++)
            threads.emplace_back([this, worker] { work(worker); });
        for (std::thread& thread : threads) thread.join();
        return error_;
    }

  private:
    void work(int worker) {
        static Stacks* stacks[WORKERS] = {};
        if (!stacks[worker]) stacks[worker] = new_stacks();
        const Interrupts interrupts(request_.seconds_max);
        SharedMemory shared = {request_.anchor(), nullptr, 0};
        dl_iterate_phdr(find_shared, &shared);
        const std::unique_ptr<unsigned char[]> dynamic(new unsigned char[request_.shared_bytes]);
        for (unsigned i = unsigned(worker); i < blocks_.size(); i += WORKERS) {
            wait_for(i);
            spoil(shared.begin, shared.size);
            spoil(dynamic.get(), request_.shared_bytes);
            if (error_.empty()) error_ = run_block(*stacks[worker], block(blocks_[i], dynamic.get()));
            hand_on(i + 1);
        }
    }

    Block block(uint64_t id, unsigned char* dynamic) {
        block_index = {unsigned(id % grid_size.x), unsigned(id / grid_size.x), 0};
        const uint64_t seed = request_.seed + id;
        const int warps = (request_.block + WARP - 1) / WARP;
        return {request_.kernel,
                request_.arguments,
                dynamic,
                request_.block,
                Order(request_.thread_order),
                int(seed % uint64_t(warps)),
                seed,
                &request_.removed};
    }

    // Waiting without a word to the thread sanitizer, which knows every lock and condition of the C library.
    void wait_for(unsigned turn) {
        for (unsigned now; (now = __atomic_load_n(&turn_, __ATOMIC_ACQUIRE)) != turn;)
            syscall(SYS_futex, &turn_, FUTEX_WAIT, now, nullptr, nullptr, 0);
    }
    void hand_on(unsigned turn) {
        __atomic_store_n(&turn_, turn, __ATOMIC_RELEASE);
        if (WORKERS > 1) syscall(SYS_futex, &turn_, FUTEX_WAKE, WORKERS, nullptr, nullptr, 0);
    }

    LaunchRequest& request_;
    const std::vector<uint64_t> blocks_;  // in the order in which they run
    unsigned turn_ = 0;                   // position of the block that may run
    std::string error_;
};

}  // namespace

// Runs a kernel; returns 0, or 1 with a text about what went wrong.
extern "C" EMULATION_API int emulation_launch(LaunchRequest* request) {
    const std::string error = Launch(*request).run();
    if (error.empty()) return 0;
    std::snprintf(request->error, request->error_bytes, "%s", error.c_str());
    return 1;
}

}  // namespace emulation
