// Backward rasterizer, each pixel in its own order: first along the rays, then a splat at a time.
//
// 1. ray_shares: grid, shared and local memory of rasterize_by_ray_fwd. Each pixel walks its ray anew (ray_window.h: the forward's
//    decisions) and writes for each splat that it blends the weight and g = dL/d(ln alpha) to the slot of the pair and the
//    patch: 32 pixels, 2 numbers. What lies behind is total - prefix, the total from the forward's image: no division, and
//    rounding does not pile up. Slots that no pixel writes stay 0.
// 2. rasterize_by_ray_bwd: one block of 256 threads a tile; a warp a pair at a time. Shared memory: the tile's cotangents (1 KB a
//    channel in float).
//      a. stage: a thread a pixel's cotangents
//      b. each lane sums its pixel of each patch that has a slot
//      c. the warp adds up by 16 shuffles, and adds to the splat's line by one atomic for each of the 6 + C sums
//    Absolute gradients cost two more sums: kernels of their own, rasterize_by_ray_bwd_absolute_*.
// 3. finish_splats of rasterize_bwd.cu.
// No atomic is needed where a pixel meets a splat, which is what the slots are for. Slots are counted, not a whole tile's for each
// pair: of the eight patches a splat touches about a third, and behind the end of all rays there are none. The host makes them for
// a band of tiles at a time where memory is short.
//
// Bytes, float, C channels: ray_shares 53 a visited pair, 4 (2 C + 2) a pixel, 4 C and 8 a blended splat and pixel;
// rasterize_by_ray_bwd 45 a pair, 256 a slot, 4 C a pixel, 8 (6 + C) a pair with a slot. Operations: ray_shares 45 + 6 C a blended
// splat and pixel besides the walk; rasterize_by_ray_bwd 20 + 2 C a pixel of a slot, 32 a lane to add up a pair.
//
// Sources: as rasterize_bwd.cu.
#include "ray_window.h"

SPLAT_BEGIN_ISA

constexpr int SHARES = 2 * WARP;  // numbers of a slot

// ---------------------------------------------------------------------------------------------- 1. ray_shares

template <class T, int C>
struct BackwardRay {
    T center_x, center_y;
    T transmittance;
    T behind;  // what everything not yet passed adds to the loss
    T v_image[C];
    const T* features;
    T* shares;  // of this lane
    int channels;
    static constexpr bool HAS_SLOTS = true;

    SPLAT_DEVICE void blend_splat(int splat, T drawn, int slot) {
        const Blend<Lane<T>> step = blend<Lane<T>>(drawn, transmittance);
        transmittance = step.transmittance;
        T values[C], own = T(0);
        load_channels<C>(features + int64_t(splat) * channels, channels, values);
#pragma unroll
        for (int k = 0; k < C; ++k) own += v_image[k] * values[k];
        behind -= step.weight * own;
        T* share = shares + int64_t(slot) * SHARES;
        share[0] = step.weight;
        share[WARP] = log_alpha_gradient<Lane<T>>(step, drawn, own, behind);
    }
};

template <int C, class T>
SPLAT_DEVICE BackwardRay<T, C> backward_ray(const RaySharesArgs<T>& args, int x, int y) {
    BackwardRay<T, C> ray = {T(x) + T(0.5), T(y) + T(0.5), T(-1),        T(0), {},
                             args.features, args.shares,   args.channels};
    ray.shares += threadIdx.x % WARP;
    if (x >= args.width || y >= args.height) return ray;
    ray.transmittance = T(1);
    const int64_t pixel = int64_t(y) * args.width + x;
    T image[C];
    load_channels<C>(args.v_image + pixel * args.channels, args.channels, ray.v_image);
    load_channels<C>(args.image + pixel * args.channels, args.channels, image);
    // alpha = 1 - T at the end, so dL/dalpha acts as a background of feature -dL/dalpha.
    if (args.v_alpha) ray.behind = (args.alpha[pixel] - T(1)) * args.v_alpha[pixel];
#pragma unroll
    for (int k = 0; k < C; ++k) ray.behind += ray.v_image[k] * image[k];
    return ray;
}

template <int C>
struct RayShares {
    template <class T>
    static SPLAT_DEVICE void run(const RaySharesArgs<T>& args) {
        const int tile = args.first_tile + int(blockIdx.x);
        const int lane = int(threadIdx.x) % WARP, patch = int(threadIdx.x) / WARP;
        const PatchCorner corner = patch_corner(tile, patch, tiles_along(args.width));
        BackwardRay<T, C> ray =
            backward_ray<C>(args, corner.x + lane % PATCH_WIDTH, corner.y + lane / PATCH_WIDTH);
        walk_rays<T>(args, tile, patch, ray);
    }
};

// ---------------------------------------------------------------------------------------------- 2. rasterize_by_ray_bwd

// One lane's sums of a pair, as they stand in a splat's line.
template <class T, int C, bool ABSOLUTE>
struct PairSums {
    T line[SUM_LINE];

    SPLAT_DEVICE void add_pixel(const SplatRecord<T>& r, T center_x, T center_y, T weight, T g,
                                const T* v_image) {
        const T dx = center_x - r.mean_x, dy = center_y - r.mean_y;
        const T u = r.u_x * dx + r.u_y * dy, v = r.v_y * dy;
        const T gu = g * u, gv = g * v;
        line[SUM_G] += g;
        line[SUM_GU] += gu;
        line[SUM_GV] += gv;
        line[SUM_GUU] += gu * u;
        line[SUM_GUV] += gu * v;
        line[SUM_GVV] += gv * v;
#pragma unroll
        for (int k = 0; k < C; ++k) line[SUM_FEATURES + k] += weight * v_image[k * TILE_PIXELS];
        if (ABSOLUTE) {
            line[SUM_ABSOLUTE_X] -= Lane<T>::negative_magnitude(gu);
            line[SUM_ABSOLUTE_Y] -= Lane<T>::negative_magnitude(r.u_y * gu + r.v_y * gv);
        }
    }

    // Lanes with HALF * 2 set keep the upper half of what is left of the line, and give away the lower one.
    template <int HALF>
    SPLAT_DEVICE void halve(int lane) {
        const bool upper = lane & 2 * HALF;
#pragma unroll
        for (int k = 0; k < HALF; ++k) {
            const T kept = upper ? line[k + HALF] : line[k], given = upper ? line[k] : line[k + HALF];
            line[k] = kept + __shfl_xor_sync(FULL_WARP, given, 2 * HALF);
        }
    }

    // c. Sums over the warp, number lane / 2 of the line in each lane.
    SPLAT_DEVICE T warp_sums(int lane) {
        halve<8>(lane);
        halve<4>(lane);
        halve<2>(lane);
        halve<1>(lane);
        return line[0] + __shfl_xor_sync(FULL_WARP, line[0], 1);
    }

    SPLAT_DEVICE void add_to(T* sums, int channels, int lane) {
        const T total = warp_sums(lane);
        const int number = lane / 2;
        const bool is_used = number < SUM_FEATURES + channels || (ABSOLUTE && number >= SUM_ABSOLUTE_X);
        if (lane % 2 == 0 && is_used) atomicAdd(sums + number, total);
    }
};
static_assert(SUM_LINE == 16 && WARP == 32, "a number of the line for two lanes");

// b. One pair: `v_image` is the tile's, a channel after the other, and a pixel at patch * WARP + lane.
template <class T, int C, bool ABSOLUTE>
SPLAT_DEVICE void add_pair(const RasterizeByRayBwdArgs<T>& args, int64_t pair, int tile, int lane,
                           const T* v_image) {
    unsigned patches = args.patches[pair];
    if (!patches) return;
    const int splat = args.pairs[pair], tiles_x = tiles_along(args.width);
    const SplatRecord<T> record = record_of(args.records, splat);
    const T* share = args.shares + int64_t(first_slot(args, pair)) * SHARES + lane;
    PairSums<T, C, ABSOLUTE> own = {};
    bool blended = false;
    for (; patches; patches &= patches - 1, share += SHARES) {
        const int patch = __ffs(int(patches)) - 1;
        const PatchCorner corner = patch_corner(tile, patch, tiles_x);
        const T weight = share[0], g = share[WARP];
        blended |= weight != T(0);
        own.add_pixel(record, T(corner.x + lane % PATCH_WIDTH) + T(0.5),
                      T(corner.y + lane / PATCH_WIDTH) + T(0.5), weight, g, v_image + patch * WARP + lane);
    }
    if (__any_sync(FULL_WARP, blended))
        own.add_to(args.sums + int64_t(splat) * SUM_LINE, args.channels, lane);
}

template <class T, int C, bool ABSOLUTE>
SPLAT_DEVICE void add_tile(const RasterizeByRayBwdArgs<T>& args) {
    __shared__ T v_image[C * TILE_PIXELS];
    const int tile = args.first_tile + int(blockIdx.x), thread = int(threadIdx.x);
    const int lane = thread % WARP, warp = thread / WARP;
    const PatchCorner corner = patch_corner(tile, warp, tiles_along(args.width));
    const int x = corner.x + lane % PATCH_WIDTH, y = corner.y + lane / PATCH_WIDTH;
    T v[C] = {};
    if (x < args.width && y < args.height)
        load_channels<C>(args.v_image + (int64_t(y) * args.width + x) * args.channels, args.channels, v);
#pragma unroll
    for (int k = 0; k < C; ++k) v_image[k * TILE_PIXELS + thread] = v[k];
    __syncthreads();
    const int64_t end = args.tile_starts[tile + 1];
    for (int64_t pair = args.tile_starts[tile] + warp; pair < end; pair += PATCHES)
        add_pair<T, C, ABSOLUTE>(args, pair, tile, lane, v_image);
}

template <int C>
struct RasterizeByRayBackward {
    template <class T>
    static SPLAT_DEVICE void run(const RasterizeByRayBwdArgs<T>& args) {
        add_tile<T, C, false>(args);
    }
};

template <int C>
struct RasterizeByRayBackwardAbsolute {
    template <class T>
    static SPLAT_DEVICE void run(const RasterizeByRayBwdArgs<T>& args) {
        add_tile<T, C, true>(args);
    }
};

SPLAT_END_ISA

SPLAT_CHANNEL_KERNELS(ray_shares, RayShares, RaySharesArgs, 256)
SPLAT_CHANNEL_KERNELS(rasterize_by_ray_bwd, RasterizeByRayBackward, RasterizeByRayBwdArgs, 256)
SPLAT_CHANNEL_KERNELS(rasterize_by_ray_bwd_absolute, RasterizeByRayBackwardAbsolute, RasterizeByRayBwdArgs,
                      256)
