// Forward rasterizer, each pixel in its own order (ray_window.h has how).
//
// 1. touched_patches: one block of 256 threads a tile, a thread a pair at a time: which patches of the tile the splat touches, a
//    bit each. No shared memory.
// 2. rasterize_by_ray_fwd: one block of 256 threads a tile; a warp a patch of 8x4 px, a thread a pixel. Shared memory: 256 staged
//    splats of 48 bytes (12 KB in float, twice that in double). Local memory: each pixel's window, 384 bytes in float.
//      a. stage: a thread a splat, from memory to shared memory
//      b. cull: 32 splats at a time, a ballot of which of them touch the warp's patch
//      c. meet: all lanes read the same splat; each blends what its window has before the splat's floor, and takes the splat in
//      until all rays of the tile have ended, and again for rays that had more splats than room
//      d. for the backward: patches whose rays had all ended before a pair are taken out of its bits
//
// Bytes, float, C channels: touched_patches 37 a pair. rasterize_by_ray_fwd 45 a visited pair, 4 C a blended splat and pixel (most
// of it served by the caches), 4 C + 4 a pixel, 6 a pair for the backward. Operations: touched_patches 85 + 320 a pair;
// rasterize_by_ray_fwd 34 + 2 C a pixel-splat of a touched patch, and about 12 to insert.
//
// Sources: each pixel's own order by a window: Radl et al. 2024, "StopThePop"; the depth on a ray: Zhang et al. 2024, "RaDe-GS".
// The list by floors and the scans that make the order exact are ours.
#include "ray_window.h"

SPLAT_BEGIN_ISA

template <class T>
SPLAT_DEVICE void touched_patches(const TouchedPatchesArgs<T>& args) {
    const int tile = int(blockIdx.x), tiles_x = tiles_along(args.width);
    const int64_t end = args.tile_starts[tile + 1];
    for (int64_t pair = args.tile_starts[tile] + threadIdx.x; pair < end; pair += TILE_PIXELS) {
        const SplatRecord<T> r = record_of(args.records, args.pairs[pair]);
        const ConicFactor<T> factor = factor_of(r);
        const RectangleTest<Lane<T>> test =
            rectangle_test<Lane<T>>(r.mean_x, r.mean_y, factor, r.log2_opacity);
        unsigned touched = 0;
#pragma unroll 1
        for (int patch = 0; patch < PATCHES; ++patch) {
            const PatchCorner corner = patch_corner(tile, patch, tiles_x);
            if (touches_patch(test, factor, r.log2_opacity, r.mean_x, r.mean_y, corner))
                touched |= 1u << patch;
        }
        args.patches[pair] = uint8_t(touched);
    }
}

template <class T, int C>
struct ForwardRay {
    T center_x, center_y;
    T transmittance;  // sign: see blend.h
    const T* features;
    int channels;
    T sums[C];
    static constexpr bool HAS_SLOTS = false;

    SPLAT_DEVICE void blend_splat(int splat, T drawn, int) {
        const Blend<Lane<T>> step = blend<Lane<T>>(drawn, transmittance);
        transmittance = step.transmittance;
        T values[C];
        load_channels<C>(features + int64_t(splat) * channels, channels, values);
#pragma unroll
        for (int k = 0; k < C; ++k) sums[k] += step.weight * values[k];
    }

    SPLAT_DEVICE void write(const RasterizeByRayArgs<T>& args, int64_t pixel) const {
        const T left = transmittance < T(0) ? -transmittance : transmittance;
        args.alpha[pixel] = T(1) - left;
#pragma unroll
        for (int k = 0; k < C; ++k)
            if (k < channels)
                args.image[pixel * channels + k] =
                    args.background ? sums[k] + left * args.background[k] : sums[k];
    }
};

// d. entered: pairs that each patch looked at.
template <class T>
SPLAT_DEVICE void save_patches(const RasterizeByRayArgs<T>& args, int tile, const int* entered) {
    const int64_t begin = args.tile_starts[tile], end = args.tile_starts[tile + 1];
    for (int64_t pair = begin + threadIdx.x; pair < end; pair += TILE_PIXELS) {
        unsigned seen = 0;
        for (int patch = 0; patch < PATCHES; ++patch)
            seen |= unsigned(pair - begin < entered[patch]) << patch;
        const unsigned left = args.patches[pair] & seen;
        args.patches[pair] = uint8_t(left);
        args.counts[pair] = __popc(left);
    }
}

template <int C>
struct RasterizeByRay {
    template <class T>
    static SPLAT_DEVICE void run(const RasterizeByRayArgs<T>& args) {
        __shared__ int entered[PATCHES];
        const int tile = int(blockIdx.x);
        const int lane = int(threadIdx.x) % WARP, patch = int(threadIdx.x) / WARP;
        const PatchCorner corner = patch_corner(tile, patch, tiles_along(args.width));
        const int x = corner.x + lane % PATCH_WIDTH, y = corner.y + lane / PATCH_WIDTH;
        const bool inside = x < args.width && y < args.height;
        ForwardRay<T, C> ray = {T(x) + T(0.5), T(y) + T(0.5), inside ? T(1) : T(-1),
                                args.features, args.channels, {}};
        const RayWalk walk = walk_rays<T>(args, tile, patch, ray);
        if (inside) ray.write(args, int64_t(y) * args.width + x);
        if (args.scans && threadIdx.x == 0) args.scans[tile] = walk.scans;
        if (!args.counts) return;
        if (lane == 0) entered[patch] = walk.entered;
        __syncthreads();
        save_patches(args, tile, entered);
    }
};

SPLAT_END_ISA

SPLAT_KERNEL(touched_patches, splat::SPLAT_ISA::touched_patches, TouchedPatchesArgs, 256)
SPLAT_CHANNEL_KERNELS(rasterize_by_ray_fwd, RasterizeByRay, RasterizeByRayArgs, 256)
