"""Right answers to the puzzles, beside those of their page, and the edits that make them wrong."""

import math

import variants
from compiler import cuda, float32, int32

RIGHT = {}


def answer(puzzle):
    """Keep a function as a right answer to a puzzle, in the order in which they come."""

    def keep(function):
        RIGHT.setdefault(puzzle, []).append(cuda.jit(function))
        return function

    return keep


def edited(puzzle, which, *edits):
    """Make a kernel out of a right answer in which pieces, that must be there, are replaced."""
    return variants.edited(RIGHT[puzzle][which], (f'@answer("{puzzle}")', "@cuda.jit"), *edits)


@answer("map")
def square(x, out):
    i = cuda.grid(1)
    value = x[i]
    out[i] = value * value


@answer("map")
def square_power(x, out):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = x[i] ** 2


@answer("guard")
def calibrate(x, gain, n, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = gain * x[i]


@answer("guard")
def calibrate_early(x, gain, n, out):
    i = cuda.grid(1)
    if i >= n:
        return
    out[i] = x[i]*gain  # fmt: skip


@answer("zip")
def rotate(re, im, c, s):
    i = cuda.grid(1)
    if i < re.size:
        a, b = re[i], im[i]
        re[i] = c * a - s * b
        im[i] = s * a + c * b


@answer("image")
def positive(image, out):
    x, y = cuda.grid(2)
    if y < image.shape[0] and x < image.shape[1]:
        out[y, x] = max(image[y, x], 0)


@answer("image")
def positive_if(image, out):
    x, y = cuda.grid(2)
    if y >= image.shape[0] or x >= image.shape[1]:
        return
    value = image[y, x]
    out[y, x] = value if value > 0 else 0


@answer("broadcast")
def distance(u, v, out):
    x, y = cuda.grid(2)
    if y < v.size and x < u.size:
        a, b = u[x], v[y]
        out[y, x] = a * a + b * b


@answer("stride")
def attenuate(tau, out):
    for i in range(cuda.grid(1), tau.size, cuda.gridsize(1)):
        out[i] = 1 - tau[i] / 2


@answer("stride")
def attenuate_while(tau, out):
    i = cuda.grid(1)
    while i < tau.size:
        out[i] = 1 - tau[i] / 2
        i += cuda.gridDim.x * cuda.blockDim.x


@answer("neighbours")
def smooth(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = (x[max(i - 1, 0)] + x[i] + x[min(i + 1, x.size - 1)]) / 3


@answer("neighbours")
def smooth_branches(x, out):
    i = cuda.grid(1)
    if i < x.size:
        middle = x[i]
        left = x[i - 1] if i > 0 else middle
        right = x[i + 1] if i + 1 < x.size else middle
        out[i] = (left + middle + right) / 3


@answer("transpose")
def transpose(x, out):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, top = cuda.blockIdx.x * 32 + tx, cuda.blockIdx.y * 32
    for r in range(ty, 32, 8):
        if top + r < x.shape[0] and column < x.shape[1]:
            tile[r, tx] = x[top + r, column]
    cuda.syncthreads()
    column, top = cuda.blockIdx.y * 32 + tx, cuda.blockIdx.x * 32
    for r in range(ty, 32, 8):
        if top + r < out.shape[0] and column < out.shape[1]:
            out[top + r, column] = tile[tx, r]


@answer("tile")
def smooth_tile(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    last = x.size - 1
    if i <= last:
        tile[t + 1] = x[i]
        if t == 0:
            tile[0] = x[max(i - 1, 0)]
        if t == 31 or i == last:
            tile[t + 2] = x[min(i + 1, last)]
    cuda.syncthreads()
    if i <= last:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3


@answer("tile")
def smooth_tile_first_two(x, out):
    tile = cuda.shared.array(34, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    start = i - t - 1
    for k in range(t, 34, 32):
        tile[k] = x[min(max(start + k, 0), x.size - 1)]
    cuda.syncthreads()
    if i < x.size:
        out[i] = (tile[t] + tile[t + 1] + tile[t + 2]) / 3


@answer("block sum")
def block_sum(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    cuda.syncthreads()
    half = 32
    while half > 0:
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@answer("dot")
def dot(x, y, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] * y[i] if i < x.size else 0
    cuda.syncthreads()
    for half in (32, 16, 8, 4, 2, 1):
        if t < half:
            part[t] += part[t + half]
        cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


@answer("dot")
def dot_shared_atomic(x, y, out):
    whole = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t == 0:
        whole[0] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(whole, 0, x[i] * y[i])
    cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(out, 0, whole[0])


@answer("histogram")
def histogram(x, counts):
    mine = cuda.shared.array(16, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t < 16:
        mine[t] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(counts, t, mine[t])


@answer("scan")
def scan(x, out):
    part = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else 0
    step = 1
    while step < 64:
        cuda.syncthreads()
        before = part[t - step] if t >= step else 0
        cuda.syncthreads()
        part[t] += before
        step *= 2
    if i < x.size:
        out[i] = part[t]


@answer("matmul")
def matmul(a, b, out):
    a_tile = cuda.shared.array((8, 8), float32)
    b_tile = cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], 8):
        a_tile[ty, tx] = a[row, start + tx] if row < a.shape[0] and start + tx < a.shape[1] else 0
        b_tile[ty, tx] = b[start + ty, column] if start + ty < b.shape[0] and column < b.shape[1] else 0
        cuda.syncthreads()
        for k in range(8):
            total += a_tile[ty, k] * b_tile[k, tx]
        cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@answer("matmul")
def matmul_short_tiles(a, b, out):
    a_tile = cuda.shared.array((8, 9), float32)
    b_tile = cuda.shared.array((8, 8), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    depth, total = a.shape[1], float32(0)
    for start in range(0, depth, 8):
        cuda.syncthreads()
        if row < a.shape[0] and start + tx < depth:
            a_tile[ty, tx] = a[row, start + tx]
        if column < b.shape[1] and start + ty < depth:
            b_tile[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        if row < out.shape[0] and column < out.shape[1]:
            for k in range(min(8, depth - start)):
                total += a_tile[ty, k] * b_tile[k, tx]
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = total


@answer("warp sum")
def warp_sum(x, out):
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    for by in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, by)
    if i % 32 == 0:
        out[i // 32] = value


@answer("gridding")
def grid(u, v, re, im, weight, grid_re, grid_im, grid_weight):
    i = cuda.grid(1)
    if i >= u.size:
        return
    size, w = grid_re.shape[0], weight[i]
    a, b, wre, wim = u[i], v[i], w * re[i], w * im[i]
    for sign in (1, -1):
        column = int32(math.floor(sign * a + 0.5)) + size // 2
        row = int32(math.floor(sign * b + 0.5)) + size // 2
        if 0 <= row < size and 0 <= column < size:
            cuda.atomic.add(grid_re, (row, column), wre)
            cuda.atomic.add(grid_im, (row, column), sign * wim)
            cuda.atomic.add(grid_weight, (row, column), w)
