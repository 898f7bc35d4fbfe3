// raster_counts: how much work a forward did, for the benchmark; no image, no part of a training step.
//
// What binning made and what the forward counted stand in its context. The rest comes from a replay of the tiles, one a
// thread at a time, with the loop and the decisions of rasterize_fwd_kernel.cpp: only the transmittance is carried along.
#include "rasterize.h"

SPLAT_BEGIN_ISA

namespace {

struct Replayed {
    int64_t pairs, blocks, blended;
};

template <class T>
struct Replay {
    using M = Simd<T>;
    using V = typename M::V;

    const Binned<T> binned;
    int width, height;

    void tile(int64_t index, Batch<T>& batch, Replayed& sums) const {
        const Tile<T> tile(binned, index, width, height);
        V transmittance[TILE_BLOCKS];
        for (int block = 0; block < TILE_BLOCKS; ++block)
            transmittance[block] = fresh_transmittance<T>(tile.place(block, width));
        uint64_t alive = tile.blocks_inside();
        batch.work = 0;
        const int64_t begin = binned.tile_starts[index], end = binned.tile_starts[index + 1];
        int64_t pair = begin;
        while (pair < end && alive) {
            pair = batch.fill(binned, tile, pair, end, alive, [](int32_t) SPLAT_INLINE {});
            const int entries = batch.pairs ? batch.ends[batch.pairs - 1] : 0;
            for (int entry = 0; entry < entries; ++entry) {
                const int block = batch.blocks[entry];
                sums.blended += blend_block(batch.alphas[entry], transmittance[block]);
                if (!M::any(transmittance[block] > T(0))) alive &= ~(uint64_t(1) << block);
            }
        }
        sums.pairs += pair - begin;
        sums.blocks += batch.work - (pair - begin);
    }

    // Pixels in which a splat of these alphas is blended.
    static SPLAT_FN int blend_block(V alpha, V& transmittance) {
        const Blend<M> step = blend<M>(alpha, transmittance);
        transmittance = step.transmittance;
        const typename M::Mask blended = step.weight > T(0);
        int pixels = 0;
        for (int lane = 0; lane < M::LANES; ++lane) pixels += blended[lane] != 0;
        return pixels;
    }
};

template <class T>
void replay_tiles(const Context* saved, int64_t* counts) {
    const Replay<T> replay{binned_view<T>(saved), int(saved->numbers[SAVED_WIDTH]),
                           int(saved->numbers[SAVED_HEIGHT])};
    int64_t next_tile = 0;
    on_threads(thread_count(), [&](int, int) {
        Replayed sums = {};
        Batch<T> batch;
        for (;;) {
            const int64_t index = __atomic_fetch_add(&next_tile, 1, __ATOMIC_RELAXED);
            if (index >= replay.binned.tiles()) break;
            replay.tile(index, batch, sums);
        }
        __atomic_fetch_add(&counts[COUNT_VISITED_PAIRS], sums.pairs, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts[COUNT_BLOCKS], sums.blocks, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counts[COUNT_BLENDED], sums.blended, __ATOMIC_RELAXED);
    });
}

template <class T>
int run_raster_counts(const RasterCountsArgs<T>& args) {
    const Context* saved = static_cast<const Context*>(args.context);
    if (!saved) return fail(STATUS_BAD_ARGUMENT, "the forward's context is null");
    if (!args.counts) return fail(STATUS_BAD_ARGUMENT, "counts is null");
    if (saved->numbers[SAVED_SCALAR_BYTES] != int64_t(sizeof(T)))
        return fail(STATUS_BAD_ARGUMENT, "the context is of a forward with another type");
    const Binned<T> binned = binned_view<T>(saved);
    for (int count = 0; count < RASTER_COUNTS; ++count) args.counts[count] = 0;
    args.counts[COUNT_PAIRS] = binned.tile_starts[binned.tiles()];
    for (int64_t tile = 0; tile < binned.tiles(); ++tile) args.counts[COUNT_WORK] += binned.tile_costs[tile];
    args.counts[COUNT_LANES] = Simd<T>::LANES;
    args.counts[COUNT_BIN_NS] = saved->numbers[SAVED_BIN_NS];
    args.counts[COUNT_BLEND_NS] = saved->numbers[SAVED_BLEND_NS];
    if (args.replay) replay_tiles<T>(saved, args.counts);
    return STATUS_OK;
}

}  // namespace

int raster_counts(const RasterCountsArgs<float>& args) { return run_raster_counts(args); }
int raster_counts(const RasterCountsArgs<double>& args) { return run_raster_counts(args); }

SPLAT_END_ISA
