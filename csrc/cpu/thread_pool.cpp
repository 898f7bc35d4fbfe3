// The library's own threads. Work is split by the callers, statically, so results do not depend on timing.
//
// The pool lives until the process ends and is never destroyed: joining threads while a DLL is unloaded deadlocks on
// Windows. After fork() the child has none of its parent's threads, so it starts with a new pool.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels.h"
#include "services.h"

#if defined(_WIN32)
#include <process.h>
#define SPLAT_PROCESS_ID _getpid
#else
#include <unistd.h>
#define SPLAT_PROCESS_ID getpid
#endif

namespace splat {
namespace {

constexpr int MAX_THREADS = 256;
// A waiting thread looks this often before it sleeps: some 20 us, the time a wake-up costs. Longer would take a core
// from other work on a busy machine.
constexpr int SPINS = 1000;

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

thread_local bool inside_job = false;
thread_local int held_threads = 0;  // of the call that this thread is in; 0 outside of calls

class Pool {
  public:
    // Runs the job on `threads` threads, this one among them.
    void run(int threads, void (*task)(void*, int, int), void* user) {
        std::lock_guard<std::mutex> one_job(job_mutex_);
        const int workers = start_workers(threads - 1);
        // The parts that have no thread of their own (the system refused one) are done here, after part 0.
        {
            std::lock_guard<std::mutex> lock(mutex_);
            task_ = task;
            user_ = user;
            parts_ = threads;
            active_ = workers < threads - 1 ? workers : threads - 1;
            remaining_.store(active_, std::memory_order_relaxed);
            generation_.fetch_add(1, std::memory_order_release);
        }
        wake_.notify_all();
        inside_job = true;
        task(user, 0, threads);
        for (int part = active_ + 1; part < threads; ++part) task(user, part, threads);
        inside_job = false;
        for (int spin = 0; spin < SPINS && remaining_.load(std::memory_order_acquire); ++spin) relax();
        if (remaining_.load(std::memory_order_acquire)) {
            std::unique_lock<std::mutex> lock(mutex_);
            done_.wait(lock, [&] { return remaining_.load(std::memory_order_acquire) == 0; });
        }
    }

    const int process = int(SPLAT_PROCESS_ID());

  private:
    int start_workers(int wanted) {
        while (workers_ < wanted) {
            try {
                std::thread(&Pool::work, this, workers_ + 1, generation_.load()).detach();
            } catch (const std::system_error&) {
                break;  // fewer threads than asked for: run() does the rest itself
            }
            ++workers_;
        }
        return workers_;
    }

    void work(int index, uint64_t seen) {
        inside_job = true;
        for (;;) {
            for (int spin = 0; spin < SPINS && generation_.load(std::memory_order_acquire) == seen; ++spin)
                relax();
            void (*task)(void*, int, int);
            void* user;
            int parts;
            {
                std::unique_lock<std::mutex> lock(mutex_);
                wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
                seen = generation_.load(std::memory_order_relaxed);
                if (index > active_) continue;
                task = task_;
                user = user_;
                parts = parts_;
            }
            task(user, index, parts);
            if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
                std::lock_guard<std::mutex> lock(mutex_);
                done_.notify_one();
            }
        }
    }

    std::mutex job_mutex_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<int> remaining_{0};
    void (*task_)(void*, int, int) = nullptr;
    void* user_ = nullptr;
    int parts_ = 0;
    int active_ = 0;
    int workers_ = 0;
};

std::atomic<int> chosen_threads{0};
std::atomic<Pool*> current_pool{nullptr};

Pool& pool() {
    Pool* known = current_pool.load(std::memory_order_acquire);
    if (known && known->process == int(SPLAT_PROCESS_ID())) return *known;
    Pool* fresh = new Pool;
    if (current_pool.compare_exchange_strong(known, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;  // another thread was quicker; this one has started no worker yet
    return *known;
}

}  // namespace

int thread_count() {
    if (held_threads > 0) return held_threads;
    const int chosen = chosen_threads.load(std::memory_order_relaxed);
    if (chosen > 0) return chosen;
    const int cores = int(std::thread::hardware_concurrency());
    return cores < 1 ? 1 : cores < MAX_THREADS ? cores : MAX_THREADS;
}

HeldThreadCount::HeldThreadCount() { held_threads = thread_count(); }
HeldThreadCount::~HeldThreadCount() { held_threads = 0; }

void run_on_threads(int threads, void (*task)(void*, int, int), void* user) {
    if (threads <= 1 || inside_job) {
        for (int part = 0; part < threads; ++part) task(user, part, threads);
        return;
    }
    pool().run(threads, task, user);
}

}  // namespace splat

// 0 means one thread for each core this process may use.
SPLAT_EXPORT int splat_set_num_threads(int32_t threads) {
    if (threads < 0 || threads > splat::MAX_THREADS)
        return splat::fail(splat::STATUS_BAD_ARGUMENT, "expected 0 to %d threads, got %d", splat::MAX_THREADS,
                           int(threads));
    splat::chosen_threads.store(threads, std::memory_order_relaxed);
    return splat::STATUS_OK;
}

SPLAT_EXPORT int32_t splat_get_num_threads() { return splat::thread_count(); }
