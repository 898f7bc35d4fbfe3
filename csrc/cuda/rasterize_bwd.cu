// Backward rasterizer: gradients a splat at a time, not a pixel at a time.
//
// 1. rasterize_bwd: one warp a bucket (32 successive splats of a tile's list), a lane a splat, four warps a block. Shared memory
//    a warp: the cotangents of 64 pixels, and what 32 rays bring along (0.5 KB + 0.25 KB a channel in float).
//      a. cull: each lane tests its splat against the tile's patches; patches that none touches, or whose rays have all ended
//         before the bucket, are left out
//      b. the pixels of the patches left stream through the lanes: in turn t lane i works on pixel t - i of the stream, with T and
//         what lies behind handed on by lane i - 1, which had that pixel a turn before. A patch is read (checkpoint, image,
//         cotangents) whenever lane 0 is at its first pixel; lanes lag by up to 31 pixels, so the last two patches are kept
//      c. each lane adds its splat's sums, which never left its registers, to the splat's line: 6 + C atomics a splat and bucket
//         where a pixel-parallel backward has to sum over a warp for each splat
//    What lies behind is total - prefix, the total from the forward's image and the prefix from the checkpoint: no division, and
//    rounding does not pile up over a ray. Decisions are the forward's, since they come from the same expressions and the same T.
//    Absolute gradients cost two more sums: kernels of their own, rasterize_bwd_absolute_*.
// 2. finish_splats: one thread a splat, from its line of sums to the gradients of its inputs.
//
// Bytes, float, C channels: 40 + 4 C a splat of a bucket (and as much added to its line), 4 (4 C + 3) a pixel of a patch and bucket
// that is not left out. Operations: 40 a splat, patch and bucket (test); 30 a splat-pixel of a patch not left out, and
// 27 + 4 C more where a lane of the warp blends. finish_splats: 96 + 4 (6 + C) bytes, 30 operations a splat.
//
// Sources: per-Gaussian backward over buckets with checkpoints: Mallick et al. 2024, "Taming 3DGS"; leaving out patches:
// Hahlbohm et al., "Faster-GS"; absolute gradients: Ye et al. 2024, "AbsGS"; total - prefix as csrc/cpu/rasterize_bwd_kernel.cpp.
#include "raster.h"

SPLAT_BEGIN_ISA

constexpr int BACKWARD_WARPS = 4;  // of a block
constexpr int KEPT = 2 * WARP;     // pixels whose cotangents are kept

// What a warp shares. Cotangents are of the last two patches, taking turns; rays are of the newest.
template <class T, int C>
struct Stream {
    T v_image[C][KEPT];
    T transmittance[WARP];
    T behind[WARP];  // what everything not yet passed adds to the loss
};

// Where a warp is: a bucket, its tile, and this lane's splat.
template <class T>
struct BucketPlace {
    int64_t bucket;      // number in the tile
    int64_t checkpoint;  // its slot; none for bucket 0
    int tile, tiles_x;
    int lane, splat;  // splat -1: the tile's list has ended
};

template <class T>
SPLAT_DEVICE BucketPlace<T> bucket_place(const RasterizeBucketsArgs<T>& args, int64_t slot) {
    BucketPlace<T> place;
    place.tile = args.bucket_tiles[slot];
    place.tiles_x = tiles_along(args.width);
    place.lane = int(threadIdx.x) % WARP;
    const TileSlots slots = tile_slots(args.tile_starts, place.tile, args.first_tile);
    place.bucket = slot - slots.buckets;
    place.checkpoint = slots.checkpoints + place.bucket - 1;
    const int64_t pair = args.tile_starts[place.tile] + place.bucket * BUCKET + place.lane;
    place.splat = pair < args.tile_starts[place.tile + 1] ? args.pairs[pair] : -1;
    return place;
}

// a. The patches, a bit each, that some ray and some splat of the bucket have in common.
template <class T>
SPLAT_DEVICE unsigned live_patches(const RasterizeBucketsArgs<T>& args, const BucketPlace<T>& place,
                                   const SplatRecord<T>& record) {
    const int entered = place.lane < PATCHES ? args.patch_buckets[place.tile * PATCHES + place.lane] : 0;
    unsigned live = __ballot_sync(FULL_WARP, entered > place.bucket);
    if (!live) return 0;
    const ConicFactor<T> factor = factor_of(record);
    const RectangleTest<Lane<T>> test =
        rectangle_test<Lane<T>>(record.mean_x, record.mean_y, factor, record.log2_opacity);
#pragma unroll 1
    for (int patch = 0; patch < PATCHES; ++patch) {
        const bool touches =
            place.splat >= 0 && touches_patch(test, factor, record.log2_opacity, record.mean_x, record.mean_y,
                                              patch_corner(place.tile, patch, place.tiles_x));
        if (!__any_sync(FULL_WARP, touches)) live &= ~(1u << patch);
    }
    return live;
}

// b. Reads the pixels of a patch, a lane one: rays as they enter the bucket, and cotangents, into half `half` of them.
template <int C, class T>
SPLAT_DEVICE void read_patch(const RasterizeBucketsArgs<T>& args, const BucketPlace<T>& place, int patch,
                             int half, PatchCorner corner, Stream<T, C>& stream) {
    const int lane = place.lane, x = corner.x + lane % PATCH_WIDTH, y = corner.y + lane / PATCH_WIDTH;
    T v[C] = {}, transmittance = T(-1), behind = T(0);
    if (x < args.width && y < args.height) {
        const int64_t pixel = int64_t(y) * args.width + x;
        T image[C], sums[C] = {};
        load_channels<C>(args.v_image + pixel * args.channels, args.channels, v);
        load_channels<C>(args.image + pixel * args.channels, args.channels, image);
        transmittance = T(1);
        if (place.bucket > 0) {
            const T* checkpoint =
                args.checkpoints + place.checkpoint * ((1 + C) * TILE_PIXELS) + patch * WARP + lane;
            transmittance = checkpoint[0];
#pragma unroll
            for (int k = 0; k < C; ++k) sums[k] = checkpoint[(1 + k) * TILE_PIXELS];
        }
        // alpha = 1 - T at the end, so dL/dalpha acts as a background of feature -dL/dalpha.
        if (args.v_alpha) behind = (args.alpha[pixel] - T(1)) * args.v_alpha[pixel];
#pragma unroll
        for (int k = 0; k < C; ++k) behind += v[k] * (image[k] - sums[k]);
    }
#pragma unroll
    for (int k = 0; k < C; ++k) stream.v_image[k][half * WARP + lane] = v[k];
    stream.transmittance[lane] = transmittance;
    stream.behind[lane] = behind;
}

// One lane: its splat, its sums, and the pixel it is at.
template <class T, int C, bool ABSOLUTE>
struct SplatLane {
    SplatRecord<T> record;
    T features[C];
    T center_x, center_y;
    T transmittance, behind;  // of the ray that it has just passed
    T sums[SUM_FEATURES + C];
    T absolute[2];
    bool blended;

    // The splat adds its share to a ray that goes on; pixel: whose cotangents stand at this place of v_image.
    SPLAT_DEVICE void pass(const Stream<T, C>& stream, int pixel) {
        const T dx = center_x - record.mean_x, dy = center_y - record.mean_y;
        const T u = record.u_x * dx + record.u_y * dy, v = record.v_y * dy;
        const T drawn = drawn_alpha<Lane<T>>(record.log2_opacity, u, v);
        if (!(drawn > T(0) && transmittance > T(0))) return;
        blended = true;
        const Blend<Lane<T>> step = blend<Lane<T>>(drawn, transmittance);
        transmittance = step.transmittance;
        T own = T(0);
#pragma unroll
        for (int k = 0; k < C; ++k) {
            const T v_image = stream.v_image[k][pixel];
            own += v_image * features[k];
            sums[SUM_FEATURES + k] += step.weight * v_image;
        }
        behind -= step.weight * own;
        add_shape(log_alpha_gradient<Lane<T>>(step, drawn, own, behind), u, v);
    }

    SPLAT_DEVICE void add_shape(T g, T u, T v) {
        const T gu = g * u, gv = g * v;
        sums[SUM_G] += g;
        sums[SUM_GU] += gu;
        sums[SUM_GV] += gv;
        sums[SUM_GUU] += gu * u;
        sums[SUM_GUV] += gu * v;
        sums[SUM_GVV] += gv * v;
        if (ABSOLUTE) {
            absolute[0] -= Lane<T>::negative_magnitude(gu);
            absolute[1] -= Lane<T>::negative_magnitude(record.u_y * gu + record.v_y * gv);
        }
    }

    // To the pixel that follows in its patch, row by row.
    SPLAT_DEVICE void advance(int pixel) {
        const bool wraps = pixel % PATCH_WIDTH == PATCH_WIDTH - 1;
        center_x += wraps ? T(1 - PATCH_WIDTH) : T(1);
        center_y += wraps ? T(1) : T(0);
    }

    // c. To the splat's line.
    SPLAT_DEVICE void add_to(T* line, int channels) const {
        for (int k = 0; k < SUM_FEATURES; ++k) atomicAdd(line + k, sums[k]);
#pragma unroll
        for (int k = 0; k < C; ++k)
            if (k < channels) atomicAdd(line + SUM_FEATURES + k, sums[SUM_FEATURES + k]);
        if (ABSOLUTE) {
            atomicAdd(line + SUM_ABSOLUTE_X, absolute[0]);
            atomicAdd(line + SUM_ABSOLUTE_Y, absolute[1]);
        }
    }
};

// b. 32 turns, from the one where lane 0 is at the first pixel of a patch. corner: the patch's; real: there is one, else the
// stream has ended and the last lanes catch up.
template <class T, int C, bool ABSOLUTE>
SPLAT_DEVICE void take_turns(const Stream<T, C>& stream, PatchCorner corner, int half, bool real, int lane,
                             SplatLane<T, C, ABSOLUTE>& splat) {
#pragma unroll 2
    for (int turn = 0; turn < WARP; ++turn) {
        splat.transmittance = __shfl_up_sync(FULL_WARP, splat.transmittance, 1);
        splat.behind = __shfl_up_sync(FULL_WARP, splat.behind, 1);
        if (lane == 0) {
            splat.transmittance = real ? stream.transmittance[turn] : T(-1);
            splat.behind = stream.behind[turn];
        }
        if (lane == turn) {
            splat.center_x = T(corner.x) + T(0.5);
            splat.center_y = T(corner.y) + T(0.5);
        }
        const int pixel = (half * WARP + turn - lane) & (KEPT - 1);
        splat.pass(stream, pixel);
        splat.advance(pixel);
    }
}

template <class T, int C, bool ABSOLUTE>
SPLAT_DEVICE void rasterize_bucket(const RasterizeBucketsArgs<T>& args) {
    __shared__ Stream<T, C> streams[BACKWARD_WARPS];
    Stream<T, C>& stream = streams[threadIdx.x / WARP];
    const int64_t slot = int64_t(blockIdx.x) * BACKWARD_WARPS + threadIdx.x / WARP;
    if (slot >= args.buckets) return;  // a whole warp
    const BucketPlace<T> place = bucket_place(args, slot);
    SplatLane<T, C, ABSOLUTE> splat = {};
    splat.transmittance = T(-1);  // no ray has passed
    splat.record.log2_opacity = T(-1000);
    if (place.splat >= 0) {
        splat.record = record_of(args.records, place.splat);
        load_channels<C>(args.features + int64_t(place.splat) * args.channels, args.channels, splat.features);
    }
    unsigned patches = live_patches(args, place, splat.record);
    if (!patches) return;
    for (int half = 0;; half ^= 1, patches &= patches - 1) {
        const bool real = patches != 0;
        PatchCorner corner = {0, 0};
        if (real) {
            const int patch = __ffs(int(patches)) - 1;
            corner = patch_corner(place.tile, patch, place.tiles_x);
            __syncwarp();  // the lanes are through with what is overwritten
            read_patch<C>(args, place, patch, half, corner, stream);
            __syncwarp();
        }
        take_turns(stream, corner, half, real, place.lane, splat);
        if (!real) break;
    }
    if (splat.blended) splat.add_to(args.sums + int64_t(place.splat) * SUM_LINE, args.channels);
}

template <int C>
struct RasterizeBackward {
    template <class T>
    static SPLAT_DEVICE void run(const RasterizeBucketsArgs<T>& args) {
        rasterize_bucket<T, C, false>(args);
    }
};

template <int C>
struct RasterizeBackwardAbsolute {
    template <class T>
    static SPLAT_DEVICE void run(const RasterizeBucketsArgs<T>& args) {
        rasterize_bucket<T, C, true>(args);
    }
};

template <class T>
SPLAT_DEVICE void finish_splats(const FinishSplatsArgs<T>& args) {
    const int64_t i = global_thread();
    if (i >= args.count) return;
    const T* sum = args.sums + i * SUM_LINE;
    const ConicFactor<T> factor = factor_of(record_of(args.records, i));
    const SplatGradient<T> v = splat_gradient(factor, args.opacities[i], sum);
    for (int k = 0; k < 2; ++k) args.v_means2d[2 * i + k] = v.mean[k];
    for (int k = 0; k < 3; ++k) args.v_conics[3 * i + k] = v.conic[k];
    args.v_opacities[i] = v.opacity;
    for (int k = 0; k < args.channels; ++k) args.v_features[i * args.channels + k] = sum[SUM_FEATURES + k];
    if (args.v_abs_means2d) absolute_mean_gradient(factor, sum, args.v_abs_means2d + 2 * i);
}

SPLAT_END_ISA

SPLAT_CHANNEL_KERNELS(rasterize_bwd, RasterizeBackward, RasterizeBucketsArgs, 128)
SPLAT_CHANNEL_KERNELS(rasterize_bwd_absolute, RasterizeBackwardAbsolute, RasterizeBucketsArgs, 128)
SPLAT_KERNEL(finish_splats, splat::SPLAT_ISA::finish_splats, FinishSplatsArgs, 256)
