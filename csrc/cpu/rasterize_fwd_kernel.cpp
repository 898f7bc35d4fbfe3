// Forward rasterizer: bin the splats (bin_kernel.cpp), then blend each macro tile from front to back.
//
// One thread takes one tile at a time; which thread gets which does not change the result.  The state of all 64 blocks of
// a tile (T and C sums, a vector each) stays in the first-level cache. A batch of pairs at a time: first the alphas in the
// blocks `mask & alive` of each pair, then their blending. A block leaves `alive` when all its rays have ended, and the tile
// ends when no block is alive.
//
// Where each pixel has its own order (by_ray.h) a tile's blocks are blended one after the other. Weights come in the order
// of the rays, one candidate a lane; what they weigh is added in the order of the candidates, one for all lanes.
#include "by_ray.h"

SPLAT_BEGIN_ISA

namespace {

template <class T, int C>
struct alignas(64) ForwardBlock {
    typename Simd<T>::V transmittance;  // sign: see blend.h
    typename Simd<T>::V sums[C];
};

// Gives out tiles from both ends of the image, each once: threads with an even number work downwards from its top, the others
// upwards from its bottom. So with two threads each has the half that is its own in the loss and in the backward pass, whose
// pixels, records and gradients then are in its own cache, wherever the work lies.
class TileQueue {
  public:
    explicit TileQueue(int64_t tiles) : left_(tiles), last_(tiles - 1) {}
    bool take(int thread, int64_t& tile) {
        if (__atomic_sub_fetch(&left_, 1, __ATOMIC_RELAXED) < 0) return false;
        tile = thread % 2 == 0 ? __atomic_fetch_add(&first_, 1, __ATOMIC_RELAXED)
                               : __atomic_fetch_sub(&last_, 1, __ATOMIC_RELAXED);
        return true;
    }

  private:
    int64_t left_;  // not yet taken
    int64_t first_ = 0, last_;
};

template <class T, int C>
struct ForwardRaster {
    using M = Simd<T>;
    using V = typename M::V;

    const RasterizeFwdArgs<T>& args;
    const Binned<T> binned;

    // Blends one tile; returns the work it took, in blocks.
    int64_t blend_tile(const Tile<T>& tile, int64_t index, ForwardBlock<T, C>* blocks,
                       Batch<T>& batch) const {
        uint64_t alive = tile.blocks_inside();
        for (int block = 0; block < TILE_BLOCKS; ++block) {
            blocks[block].transmittance = fresh_transmittance<T>(tile.place(block, args.width));
            for (V& sum : blocks[block].sums) sum = V{};
        }
        batch.work = 0;
        const int64_t end = binned.tile_starts[index + 1];
        for (int64_t pair = binned.tile_starts[index]; pair < end && alive;) {
            pair = batch.fill(binned, tile, pair, end, alive, [&](int32_t splat) SPLAT_INLINE {
                __builtin_prefetch(&binned.records[splat]);
            });
            int entry = 0;
            for (int taken = 0; taken < batch.pairs; ++taken) {
                const Record<T>& record = binned.records[batch.splats[taken]];
                for (; entry < batch.ends[taken]; ++entry) {
                    const int block = batch.blocks[entry];
                    if (SPLAT_UNLIKELY(!blend_block(record, batch.alphas[entry], blocks[block])))
                        alive &= ~(uint64_t(1) << block);
                }
            }
        }
        return batch.work;
    }

    // What a thread needs to blend tiles whose pixels have orders of their own.
    struct RayWork {
        BlockLists lists;
        RayQueues<T> queues;
        LaneRows<T> weights;
        RayWork(Arrays& arrays, const RaySizes& sizes, bool keeps)
            : lists(arrays, sizes), queues(arrays, sizes, keeps), weights(arrays, sizes.entries_of_block) {}
    };

    // The same, each pixel in its own order. `kept` is null, or where the rows go, those of the tile from `tile_start` on.
    int64_t blend_tile_by_ray(const Tile<T>& tile, int64_t index, ForwardBlock<T, C>* blocks, RayWork& work,
                              int64_t tile_start, const RayRows<T>* kept) const {
        work.lists.fill(binned, index, tile.blocks_inside());
        int64_t done = 0;
        for (int block = 0; block < TILE_BLOCKS; ++block) {
            const int64_t first = tile_start + work.lists.starts[block];
            if (kept) work.queues.candidates = kept->candidates + first;
            const Walked walked = blend_block_by_ray(tile, block, work, blocks[block]);
            if (kept) {
                kept->blocks[index * TILE_BLOCKS + block] = {first, walked};
                kept->store(first, work.queues.places, walked.rows);
            }
            done += walked.candidates;
        }
        return done;
    }

    Walked blend_block_by_ray(const Tile<T>& tile, int block, RayWork& work,
                              ForwardBlock<T, C>& state) const {
        V transmittance = fresh_transmittance<T>(tile.place(block, args.width));
        const LaneRows<T> weights = work.weights;
        const int64_t first = work.lists.starts[block];
        const Walked walked =
            work.queues.walk(binned, work.lists.splats + first, work.lists.starts[block + 1] - first,
                             tile.center_x[block % BLOCKS], tile.center_y[block / BLOCKS],
                             [&](int64_t place) SPLAT_INLINE { weights.store(place, V{}); },
                             [&](typename M::I places, V alpha) SPLAT_INLINE {
            const Blend<M> step = blend<M>(alpha, transmittance);
            transmittance = step.transmittance;
            weights.scatter(places, step.weight);
            return M::any(transmittance > T(0));
        });
        V sums[C] = {};
        for (int64_t i = 0; i < walked.candidates; ++i) {
            const Record<T>& record = binned.records[work.queues.candidates[i]];
            const V weight = weights.load(i);
            for (int k = 0; k < C; ++k) sums[k] += weight * record.features[k];
        }
        state.transmittance = transmittance;
        for (int k = 0; k < C; ++k) state.sums[k] = sums[k];
        return walked;
    }

    // False when all rays of the block have ended.
    SPLAT_FN bool blend_block(const Record<T>& record, V alpha, ForwardBlock<T, C>& state) const {
        const Blend<M> step = blend<M>(alpha, state.transmittance);
        state.transmittance = step.transmittance;
        for (int k = 0; k < C; ++k) state.sums[k] += step.weight * record.features[k];
        return M::any(step.transmittance > T(0));
    }

    void write_tile(const Tile<T>& tile, ForwardBlock<T, C>* blocks) const {
        for (int block = 0; block < TILE_BLOCKS; ++block) {
            ForwardBlock<T, C>& state = blocks[block];
            const BlockPlace place = tile.place(block, args.width);
            const V left = -M::negative_magnitude(state.transmittance);
            if (args.background)
                for (int k = 0; k < C && k < args.channels; ++k) state.sums[k] += left * args.background[k];
            const V alpha = T(1) - left;
            scatter_block<T, C>(place, state.sums, args.channels, args.image);
            scatter_block<T, 1>(place, &alpha, 1, args.alpha);
        }
    }

    // Blends all tiles; `saved` holds the binned splats. Returns a Status.
    int run(Context* saved) const {
        if (binned.planes) return run_by_ray(saved);
        TileQueue queue(binned.tiles());
        on_threads(thread_count(), [&](int thread, int) {
            ForwardBlock<T, C> blocks[TILE_BLOCKS];
            Batch<T> batch;
            for (int64_t index; queue.take(thread, index);) {
                const Tile<T> tile(binned, index, args.width, args.height);
                binned.tile_costs[index] = blend_tile(tile, index, blocks, batch);
                write_tile(tile, blocks);
            }
        });
        return STATUS_OK;
    }

    // The rows are kept in `saved` if a backward shall follow.
    int run_by_ray(Context* saved) const {
        const bool keeps = args.context != nullptr;
        const int64_t tiles = binned.tiles();
        auto* const starts = static_cast<int64_t*>(
            context_reserve(saved, SAVED_RAY_STARTS, size_t(tiles + 1) * sizeof(int64_t)));
        if (!starts) return fail(STATUS_OUT_OF_MEMORY, "no memory for %lld tiles", (long long)tiles);
        const RaySizes sizes(binned, starts);
        saved->numbers[SAVED_RAY_MOST] = sizes.entries_of_block;
        RayRows<T> rows(saved);
        const ThreadArrays memory(thread_count(), [&](Arrays& arrays) { RayWork(arrays, sizes, keeps); });
        if (!memory || (keeps && !rows.reserve(saved, tiles, starts[tiles])))
            return fail(STATUS_OUT_OF_MEMORY, "no memory for the queues of %lld splats",
                        (long long)sizes.entries_of_block);
        TileQueue queue(tiles);
        on_threads(thread_count(), [&](int thread, int) {
            ForwardBlock<T, C> blocks[TILE_BLOCKS];
            Arrays arrays = memory.of(thread);
            RayWork work(arrays, sizes, keeps);
            for (int64_t index; queue.take(thread, index);) {
                const Tile<T> tile(binned, index, args.width, args.height);
                binned.tile_costs[index] =
                    blend_tile_by_ray(tile, index, blocks, work, starts[index], keeps ? &rows : nullptr);
                write_tile(tile, blocks);
            }
        });
        return STATUS_OK;
    }
};

template <class T>
int check(const RasterizeFwdArgs<T>& args) {
    const long long count = args.count;
    if (count < 0 || count > INT32_MAX)
        return fail(STATUS_BAD_ARGUMENT, "expected 0 to %d splats, got %lld", INT32_MAX, count);
    if (args.width < 1 || args.height < 1 || args.width > MAX_IMAGE_SIZE || args.height > MAX_IMAGE_SIZE)
        return fail(STATUS_BAD_ARGUMENT, "expected an image of 1 to %d px a side, got %d x %d",
                    MAX_IMAGE_SIZE, int(args.width), int(args.height));
    if (args.channels < 1 || args.channels > MAX_CHANNELS)
        return fail(STATUS_BAD_ARGUMENT, "expected 1 to %d channels, got %d", MAX_CHANNELS,
                    int(args.channels));
    if (!args.image || !args.alpha) return fail(STATUS_BAD_ARGUMENT, "image or alpha is null");
    if (count && (!args.means2d || !args.conics || !args.opacities || !args.features || !args.depths))
        return fail(STATUS_BAD_ARGUMENT, "an input array is null");
    return STATUS_OK;
}

template <class T>
int run_fwd(const RasterizeFwdArgs<T>& args) {
    if (const int status = check(args)) return status;
    ContextOwner saved(CONTEXT_SAVED);
    if (!saved.get()) return fail(STATUS_OUT_OF_MEMORY, "no memory for a context");
    int64_t* numbers = saved.get()->numbers;
    numbers[SAVED_COUNT] = args.count;
    numbers[SAVED_WIDTH] = args.width;
    numbers[SAVED_HEIGHT] = args.height;
    numbers[SAVED_CHANNELS] = args.channels;
    numbers[SAVED_SCALAR_BYTES] = sizeof(T);
    numbers[SAVED_BY_RAY] = args.depth_slopes != nullptr;
    const int64_t begin = now_ns();
    if (const int status = bin_splats(args, saved.get())) return status;
    const int64_t binned = now_ns();
    const int status = with_channels(args.channels, [&](auto channels) {
        return ForwardRaster<T, decltype(channels)::VALUE>{args, binned_view<T>(saved.get())}.run(
            saved.get());
    });
    if (status) return status;
    numbers[SAVED_BIN_NS] = binned - begin;
    numbers[SAVED_BLEND_NS] = now_ns() - binned;
    if (args.context) *args.context = saved.take();
    return STATUS_OK;
}

}  // namespace

int rasterize_fwd(const RasterizeFwdArgs<float>& args) { return run_fwd(args); }
int rasterize_fwd(const RasterizeFwdArgs<double>& args) { return run_fwd(args); }

SPLAT_END_ISA
