// Forward rasterizer: blends each tile's splats from front to back.
//
// Grid: one block of 256 threads a tile; a warp a patch of 8x4 px, a thread a pixel. Shared memory: 256 staged splats of 12 or 20
// numbers (12 KB for up to 3 channels in float, 20 KB above, twice that in double).
//   1. stage: a thread a splat, from memory to shared memory, with what the test of a patch needs
//   2. cull: 32 splats at a time, a lane a splat; a ballot of which of them touch the warp's patch
//   3. blend: the warp walks the set bits; all lanes read the same splat
//   until all rays of the tile have ended; then write out.
// For the backward, before a warp enters a bucket (other than a tile's first) each pixel saves T, with the ray's state in its
// sign, and its sums of features: a checkpoint. And for each patch the number of buckets that it entered, so that nothing
// behind is asked for. Where memory for all checkpoints is short, the host leaves them out and calls the kernel again while it goes
// backward, for a band of tiles at a time.
//
// Bytes, float, C channels: 36 + 4 C a visited pair (index, record, features), 4 C + 4 a pixel; checkpoints 32 (1 + C) a pair whose
// bucket was entered, 128 for C = 3. Operations (a fused multiply-add is 2, a power 10, a root or quotient 8): 85 a visited pair
// (staging), 40 a pair and patch (test), 29 + 2 C a pixel-splat of a touched patch.
//
// Sources: tiles, staging: Kerbl et al. 2023; checkpoints a bucket: Mallick et al. 2024, "Taming 3DGS", section on the
// per-Gaussian backward; culling by warp: Radl et al. 2024, "StopThePop", and Hahlbohm et al., "Faster-GS". The test of a
// rectangle is ours (footprint.h).
#include "raster.h"

SPLAT_BEGIN_ISA

constexpr int BATCH = TILE_PIXELS;  // splats staged at a time

// Numbers of a staged splat: whole units of 16 bytes (in float), an odd number of them, so that lanes which read one splat each
// meet in few banks.
SPLAT_DEVICE constexpr int staged_numbers(int channels) {
    const int units = (9 + channels + 3) / 4;
    return 4 * (units | 1);
}

template <class T, int C>
struct alignas(16) Staged {
    T mean_x, mean_y, u_x, u_y;
    T v_y, log2_opacity;
    RectangleTest<Lane<T>> test;
    T features[staged_numbers(C) - 9];  // C of them; the rest is unused
};

template <int C, class T>
SPLAT_DEVICE void stage(const RasterizeTilesArgs<T>& args, int64_t pair, Staged<T, C>& staged) {
    const int64_t splat = args.pairs[pair];
    const SplatRecord<T> record = record_of(args.records, splat);
    staged.mean_x = record.mean_x;
    staged.mean_y = record.mean_y;
    staged.u_x = record.u_x;
    staged.u_y = record.u_y;
    staged.v_y = record.v_y;
    staged.log2_opacity = record.log2_opacity;
    staged.test =
        rectangle_test<Lane<T>>(record.mean_x, record.mean_y, factor_of(record), record.log2_opacity);
    load_channels<C>(args.features + splat * args.channels, args.channels, staged.features);
}

template <class T, int C>
struct PixelState {
    T center_x, center_y;
    T transmittance;  // sign: see blend.h
    T sums[C];

    SPLAT_DEVICE void blend_splat(const Staged<T, C>& s) {
        const T dx = center_x - s.mean_x, dy = center_y - s.mean_y;
        const T drawn = drawn_alpha<Lane<T>>(s.log2_opacity, s.u_x * dx + s.u_y * dy, s.v_y * dy);
        const Blend<Lane<T>> step = blend<Lane<T>>(drawn, transmittance);
        transmittance = step.transmittance;
#pragma unroll
        for (int k = 0; k < C; ++k) sums[k] += step.weight * s.features[k];
    }

    SPLAT_DEVICE void save(T* checkpoint, int thread) const {
        checkpoint[thread] = transmittance;
#pragma unroll
        for (int k = 0; k < C; ++k) checkpoint[(1 + k) * TILE_PIXELS + thread] = sums[k];
    }

    SPLAT_DEVICE void write(const RasterizeTilesArgs<T>& args, int64_t pixel) const {
        const T left = transmittance < T(0) ? -transmittance : transmittance;
        args.alpha[pixel] = T(1) - left;
#pragma unroll
        for (int k = 0; k < C; ++k)
            if (k < args.channels)
                args.image[pixel * args.channels + k] =
                    args.background ? sums[k] + left * args.background[k] : sums[k];
    }
};

// Phases 2 and 3 for one bucket, whose splats are staged[0] to staged[number - 1].
template <class T, int C>
SPLAT_DEVICE void blend_bucket(const Staged<T, C>* staged, int number, PatchCorner corner, int lane,
                               PixelState<T, C>& pixel) {
    bool touches = false;
    if (lane < number) {
        const Staged<T, C>& s = staged[lane];
        touches = touches_patch<T>(s.test, {s.u_x, s.u_y, s.v_y}, s.log2_opacity, s.mean_x, s.mean_y, corner);
    }
    unsigned touched = __ballot_sync(FULL_WARP, touches);
    while (touched) {
        const int next = __ffs(int(touched)) - 1;
        touched &= touched - 1;
        pixel.blend_splat(staged[next]);
    }
}

// Blends the tile's list; returns the number of buckets that this warp entered. checkpoints: the tile's, or null.
template <class T, int C>
SPLAT_DEVICE int blend_tile(const RasterizeTilesArgs<T>& args, int64_t begin, int64_t end, T* checkpoints,
                            PatchCorner corner, PixelState<T, C>& pixel) {
    __shared__ Staged<T, C> staged[BATCH];
    const int thread = int(threadIdx.x), lane = thread % WARP;
    int64_t bucket = 0;
    for (int64_t first = begin; first < end; first += BATCH) {
        // Nobody reads the batch before any more, and somebody's ray goes on.
        if (!__syncthreads_or(pixel.transmittance > T(0))) break;
        if (first + thread < end) stage<C>(args, first + thread, staged[thread]);
        __syncthreads();
        for (int offset = 0; offset < BATCH && first + offset < end; offset += BUCKET, ++bucket) {
            if (!__any_sync(FULL_WARP, pixel.transmittance > T(0))) break;
            if (checkpoints && bucket > 0)
                pixel.save(checkpoints + (bucket - 1) * ((1 + C) * TILE_PIXELS), thread);
            const int64_t left = end - first - offset;
            blend_bucket(staged + offset, left < BUCKET ? int(left) : BUCKET, corner, lane, pixel);
        }
    }
    return int(bucket);
}

template <int C>
struct RasterizeForward {
    template <class T>
    static SPLAT_DEVICE void run(const RasterizeTilesArgs<T>& args) {
        const int tile = args.first_tile + int(blockIdx.x);
        const int lane = int(threadIdx.x) % WARP, patch = int(threadIdx.x) / WARP;
        const PatchCorner corner = patch_corner(tile, patch, tiles_along(args.width));
        const int x = corner.x + lane % PATCH_WIDTH, y = corner.y + lane / PATCH_WIDTH;
        const bool inside = x < args.width && y < args.height;
        PixelState<T, C> pixel = {T(x) + T(0.5), T(y) + T(0.5), inside ? T(1) : T(-1), {}};
        const TileSlots slots = tile_slots(args.tile_starts, tile, args.first_tile);
        T* checkpoints =
            args.checkpoints ? args.checkpoints + slots.checkpoints * ((1 + C) * TILE_PIXELS) : nullptr;
        const int buckets = blend_tile<T, C>(args, args.tile_starts[tile], args.tile_starts[tile + 1],
                                             checkpoints, corner, pixel);
        if (inside && args.image) pixel.write(args, int64_t(y) * args.width + x);
        if (!args.patch_buckets) return;
        if (lane == 0) args.patch_buckets[tile * PATCHES + patch] = buckets;
        const int64_t end = tile_slots(args.tile_starts, tile + 1, args.first_tile).buckets;
        for (int64_t slot = slots.buckets + threadIdx.x; slot < end; slot += TILE_PIXELS)
            args.bucket_tiles[slot] = tile;
    }
};

SPLAT_END_ISA

SPLAT_CHANNEL_KERNELS(rasterize_fwd, RasterizeForward, RasterizeTilesArgs, 256)
