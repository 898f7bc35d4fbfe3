// Each pixel's own order: a walk through a tile's list that hands every pixel its splats by their depths on its ray.
//
// A splat's depth on a ray is  depth + slope . (pixel - mean). Of two equal ones the splat whose centre is nearer comes first, then
// the one with the smaller number.
//
// The tile's list is sorted by floors: what is still to come lies behind the floor of the next splat, on every ray of the
// image. Each pixel has a window of splats that it has met and not yet blended, sorted by their depths on its ray. Those before
// the next splat's floor have nothing left to wait for: they are blended. A splat that finds the window full puts the last of
// them out, or itself. The nearest one that was put out bounds the scan: what lies before it is blended, and then the list is gone
// through again for what begins with it. So the order is exact, however many splats a ray meets; more than one scan is the
// exception (docs/cuda.md). Each scan blends WINDOW splats of a ray that goes on to the next.
//
// By floors and not by centres: in a list by centres the one splat whose floor is far before its centre would hold up all
// windows until it comes. On a fit of 10 thousand splats 26 % of the rays then had more than 32 splats waiting, of these 2 %.
//
// Forward and backward walk by this header alone, so they take the same decisions. Depths on a ray come of explicit fused
// multiply-adds: their bits do not hang on what a compiler contracts where.
#pragma once

#include "raster.h"

SPLAT_BEGIN_ISA

constexpr int WINDOW = 32;                  // a power of two
constexpr int BATCH = TILE_PIXELS;          // splats staged at a time
constexpr double NOWHERE = 1.1 * FARTHEST;  // behind every depth

// A splat's place in the order of one ray.
template <class T>
struct RayPlace {
    T depth;  // on the ray
    int splat;
};

template <class T>
SPLAT_DEVICE bool is_before(const T* depths, RayPlace<T> one, RayPlace<T> other) {
    if (one.depth != other.depth) return one.depth < other.depth;
    if (one.splat < 0 || other.splat < 0) return one.splat < other.splat;  // an end of the order, no splat
    const T near = depths[one.splat], far = depths[other.splat];
    return near != far ? near < far : one.splat < other.splat;
}

// Of one pixel: splats met and not yet blended, from the nearest on. A ring, so that the first leaves without moving others.
template <class T, bool HAS_SLOTS>
struct RayWindow {
    T depths[WINDOW], alphas[WINDOW];  // on the ray; drawn_alpha of blend.h
    int splats[WINDOW], slots[HAS_SLOTS ? WINDOW : 1];
    int first, number;
    T nearest;          // depth of the first, or NOWHERE
    RayPlace<T> from;   // what lies before it was blended in an earlier scan
    RayPlace<T> limit;  // nearest splat that found no room in this one

    static SPLAT_DEVICE RayPlace<T> nowhere() { return {T(NOWHERE), -1}; }
    SPLAT_DEVICE int at(int place) const { return (first + place) & (WINDOW - 1); }
    SPLAT_DEVICE bool has_room_for_all() const { return limit.splat < 0; }

    SPLAT_DEVICE void begin_scan(RayPlace<T> begin) {
        first = number = 0;
        nearest = T(NOWHERE);
        from = begin;
        limit = nowhere();
    }

    template <class Ray>
    SPLAT_DEVICE void blend_first(Ray& ray) {
        const int entry = first;
        first = at(1);
        nearest = --number ? depths[first] : T(NOWHERE);
        ray.blend_splat(splats[entry], alphas[entry], HAS_SLOTS ? slots[entry] : 0);
    }

    // Makes room for a splat at its place; false: there is none for it.
    SPLAT_DEVICE bool makes_room(const T* centers, RayPlace<T> place) {
        if (is_before(centers, place, from) || !is_before(centers, place, limit)) return false;
        if (number < WINDOW) return true;
        const int last = at(WINDOW - 1);
        const RayPlace<T> end = {depths[last], splats[last]};
        const bool is_last = is_before(centers, end, place);
        limit = is_last ? place : end;
        if (!is_last) --number;
        return !is_last;
    }

    SPLAT_DEVICE void insert(const T* centers, RayPlace<T> place, T alpha, int slot) {
        if (!makes_room(centers, place)) return;
        int index = number++;
#pragma unroll 1
        for (; index > 0; --index) {
            const int before = at(index - 1), here = at(index);
            if (is_before(centers, {depths[before], splats[before]}, place)) break;
            depths[here] = depths[before];
            alphas[here] = alphas[before];
            splats[here] = splats[before];
            if (HAS_SLOTS) slots[here] = slots[before];
        }
        const int here = at(index);
        depths[here] = place.depth;
        alphas[here] = alpha;
        splats[here] = place.splat;
        if (HAS_SLOTS) slots[here] = slot;
        if (index == 0) nearest = place.depth;
    }
};

// A splat as it is staged; 48 bytes in float.
template <class T>
struct alignas(16) RaySplat {
    SplatRecord<T> record;
    T depth, floor;
    int splat;
    int slot;  // first of the pair's
};

// What a block shares while it walks.
template <class T>
struct RayBatch {
    RaySplat<T> splats[BATCH];
    uint8_t patches[BATCH];
};

// One pixel meets a splat. Returns whether it is to meet more of them in this scan.
template <class T, class Args, class Ray>
SPLAT_DEVICE bool meet(const Args& args, const RaySplat<T>& s, int slot, RayWindow<T, Ray::HAS_SLOTS>& window,
                       Ray& ray) {
#pragma unroll 1
    while (window.nearest < s.floor && ray.transmittance > T(0)) window.blend_first(ray);
    if (!(ray.transmittance > T(0)) || s.floor > window.limit.depth) return false;
    const SplatRecord<T>& r = s.record;
    const T dx = ray.center_x - r.mean_x, dy = ray.center_y - r.mean_y;
    const T drawn = drawn_alpha<Lane<T>>(r.log2_opacity, r.u_x * dx + r.u_y * dy, r.v_y * dy);
    if (drawn > T(0)) {
        const T there = Lane<T>::fused(r.slope_y, dy, Lane<T>::fused(r.slope_x, dx, s.depth));
        const T depth = Lane<T>::max(Lane<T>::min(there, T(FARTHEST)), T(-FARTHEST));
        window.insert(args.depths, {depth, s.splat}, drawn, slot);
    }
    return true;
}

// First slot of a pair, among those of the launch's band of tiles. The forward has none.
template <class Args>
SPLAT_DEVICE int first_slot(const Args& args, int64_t pair) {
    return int(args.slots[pair] - args.slots[args.tile_starts[args.first_tile]]);
}
template <class T>
SPLAT_DEVICE int first_slot(const RasterizeByRayArgs<T>&, int64_t) {
    return 0;
}

// A thread stages a splat of the batch.
template <class T, class Args>
SPLAT_DEVICE void stage(const Args& args, int64_t pair, RayBatch<T>& batch, int place) {
    const int splat = args.pairs[pair];
    batch.splats[place] = {record_of(args.records, splat), args.depths[splat], args.floors[splat], splat,
                           first_slot(args, pair)};
    batch.patches[place] = args.patches[pair];
}

// How far a walk went.
struct RayWalk {
    int entered;  // pairs of the list, in whole buckets, that this warp looked at in the longest scan
    int scans;    // of the list, by the block
};

// One scan of the list from `begin` to `end` by a block; `meets`: whether this pixel takes part.
template <class T, class Args, class Ray>
SPLAT_DEVICE void scan(const Args& args, int64_t begin, int64_t end, int patch, bool meets,
                       RayBatch<T>& batch, RayWindow<T, Ray::HAS_SLOTS>& window, Ray& ray, RayWalk& walk) {
    const int thread = int(threadIdx.x), lane = thread % WARP;
    for (int64_t first = begin; first < end; first += BATCH) {
        // Nobody reads the batch before any more, and somebody's ray goes on.
        if (!__syncthreads_or(meets)) break;
        if (first + thread < end) stage(args, first + thread, batch, thread);
        __syncthreads();
#pragma unroll 1
        for (int offset = 0; offset < BATCH && first + offset < end; offset += BUCKET) {
            if (!__any_sync(FULL_WARP, meets)) break;
            const int entered = int(first - begin) + offset + BUCKET;
            walk.entered = entered > walk.entered ? entered : walk.entered;
            const bool touches = first + offset + lane < end && batch.patches[offset + lane] >> patch & 1;
            unsigned touched = __ballot_sync(FULL_WARP, touches);
#pragma unroll 1
            while (touched) {
                const int next = offset + __ffs(int(touched)) - 1;
                touched &= touched - 1;
                const RaySplat<T>& s = batch.splats[next];
                const int before = __popc(batch.patches[next] & ((1u << patch) - 1));
                if (meets) meets = meet(args, s, s.slot + before, window, ray);
            }
        }
    }
}

// A block blends a tile's list, a thread a pixel, a warp a patch. Ray: center_x, center_y, transmittance (its sign as in
// blend.h), HAS_SLOTS, and blend_splat(splat, drawn alpha, slot), which is called from front to back while the transmittance is
// positive.
template <class T, class Args, class Ray>
SPLAT_DEVICE RayWalk walk_rays(const Args& args, int tile, int patch, Ray& ray) {
    __shared__ RayBatch<T> batch;
    const int64_t begin = args.tile_starts[tile], end = args.tile_starts[tile + 1];
    RayWindow<T, Ray::HAS_SLOTS> window;
    RayWalk walk = {0, 0};
    RayPlace<T> from = {T(-NOWHERE), -1};
    bool goes_on = ray.transmittance > T(0);
    do {
        window.begin_scan(from);
        scan(args, begin, end, patch, goes_on, batch, window, ray, walk);
#pragma unroll 1
        while (window.number > 0 && ray.transmittance > T(0)) window.blend_first(ray);
        goes_on = goes_on && ray.transmittance > T(0) && !window.has_room_for_all();
        from = window.limit;
        ++walk.scans;
    } while (__syncthreads_or(goes_on));
    return walk;
}

SPLAT_END_ISA
