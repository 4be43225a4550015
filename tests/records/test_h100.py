"""What pages say in words of the H100's numbers is what its records say; a record taken anew may need other words."""

from __future__ import annotations

import re

import pytest
from samples import H100, recorded

from firstlight.timing.specs import spec

WHERE = (("cpu", "cpu"), ("gpu", "cuda:0"))


@pytest.fixture
def median():
    """Look up the median of a row by its page and name."""
    return lambda page, name: recorded(page).timings[name].median


def printed(page: str, machine: str = H100) -> str:
    """All that a page printed on a machine."""
    return "\n".join(recorded(page, machine).outputs.values())


def test_an_addition_is_close_to_its_floor_and_loses_on_the_way(median) -> None:
    page = "1_setup/02_first_speedup"
    there, back = (
        median(page, f"vector-add/GPU, {way}/cuda:0/n=99000000") for way in ("same result", "there and back")
    )
    cpu = median(page, "vector-add/torch, same result/cpu/n=99000000")
    assert 12 * 99e6 / spec("H100 SXM", "bandwidth") < there < 1.2 * 12 * 99e6 / spec("H100 SXM", "bandwidth")
    assert back > 10 * cpu
    assert 12 * 99e6 / spec("PCIe 5 x16", "bandwidth") == pytest.approx(1.5 * cpu, rel=0.05)


def test_beside_an_h200_a_copy_in_memory_takes_as_long_for_any_size() -> None:
    copies = recorded("2_devices/04_small_copies", "nvidia-h200").timings
    for power in (18, 22, 26):
        assert copies[f"transfers/within the CPU's memory/cpu/n={2**power}"].median == pytest.approx(8e-3, rel=0.02)


def test_a_chain_has_its_latency_and_half_its_throughput(median) -> None:
    page, steps, clock = "1_setup/04_count_your_cpu", 100_000, 1.98e9
    one, million = (median(page, f"count-your-cpu/GPU, kernel/cuda:0/n={n}") for n in (1, 2**20))
    assert one == pytest.approx(4 * steps / clock, rel=0.1)
    assert 2 < million / (2**20 * steps / (132 * 128 * clock)) < 2.5


def test_all_cores_do_ten_thousand_times_what_a_loop_in_python_does() -> None:
    timings = recorded("1_setup/04_count_your_cpu").timings
    loop, cores = (timings[f"count-your-cpu/{way}"] for way in ("Python loop/cpu/n=1", "SIMD, all cores/cpu/n=65536"))
    assert 10_000 < cores.flop_rate / loop.flop_rate < 15_000
    assert cores.cores == pytest.approx(10, abs=0.5)  # of sixteen


def test_float64_takes_less_than_float32_and_memory_has_half_as_much_again_as_pcie(median) -> None:
    double, single = (
        median("2_devices/13_precision", f"precision/GPU, matmul, float{b}/cuda:0/n=4096") for b in (64, 32)
    )
    assert double < single
    copied = median("3_kernels/11_bytes_in_flight", "bytes-in-flight/Numba-CPU/cpu/n=314572801")
    assert 8 * 314_572_801 / copied / spec("PCIe 5 x16", "bandwidth") == pytest.approx(1.5, abs=0.15)


def test_a_small_network_is_lost_on_an_h100_and_a_larger_batch_catches_up(median) -> None:
    page, table = "2_devices/17_training_a_cnn", re.compile(r"^ +(?:16|256) +\d+ +([\d.]+)", re.MULTILINE)
    one, cores = (median(page, f"training-a-cnn/small, {on}/n=1") for on in ("GPU/cuda:0", "CPU/cpu"))
    assert cores < one
    assert recorded(page, "cpu-amd-epyc").timings["training-a-cnn/small, CPU/cpu/n=1"].median < one  # on two cores
    assert median(page, "training-a-cnn/small, GPU/cuda:0/n=256") == pytest.approx(one, rel=0.25)
    epochs = {}
    for machine in (H100, "cpu-amd-epyc"):
        epochs[machine] = [float(seconds) for seconds in table.findall(printed("2_devices/02_training_loop", machine))]
    (few, many), (few_cpu, many_cpu) = epochs.values()
    assert few > 1.3 * few_cpu
    assert many < 1.1 * many_cpu
    assert 6 * median(page, "training-a-cnn/small, GPU/cuda:0/n=256") < 0.5 * many


def test_the_loader_takes_more_of_an_epoch_beside_an_h100_and_one_go_helped_only_with_larger_pictures(median) -> None:
    share, at_once = re.compile(r"the loader: .*\((\d+)%\)"), re.compile(r"in one go: .*\((\d+)%\)")
    (h100, fast), (cpu, fast_cpu) = (
        [int(line.findall(printed("2_devices/02_training_loop", machine))[0]) for line in (share, at_once)]
        for machine in (H100, "cpu-amd-epyc")
    )
    assert h100 > 1.5 * cpu
    assert h100 < fast
    assert fast_cpu < cpu / 4
    items, one_go = (
        median("2_devices/17_training_a_cnn", f"training-a-cnn/load, {way}/cpu/n=256")
        for way in ("item by item", "in one go")
    )
    assert one_go < items / 4


def test_quick_checks_printed_what_the_pages_say_of_them(median) -> None:
    possible = printed("2_devices/03_is_it_possible")
    assert "ten products on cuda:0: 0.001 s" in possible
    cpu, gpu = (
        median("2_devices/11_when_the_gpu_wins", f"wins-matrix-matrix/{at}/n=4096") for at in ("CPU/cpu", "GPU/cuda:0")
    )
    (quick,) = re.findall(r"ms, ([\d.]+) times as fast", possible)
    assert float(quick) > 1.1 * cpu / gpu
    ways = "torch, new result/cpu", "GPU, new result/cuda:0"
    slow, fast = (median("1_setup/02_first_speedup", f"vector-add/{way}/n=99000000") for way in ways)
    (quick,) = re.findall(r"so (\d+) times as fast", printed("1_setup/02_first_speedup"))
    assert float(quick) == pytest.approx(slow / fast / 3, rel=0.05)


def test_three_timers_agree_and_the_quartiles_of_one_hardly_touch_the_others() -> None:
    row = re.compile(
        r"^(?:twenty lines|Bench|PyTorch) +([\d.]+) µs, quartiles ([\d.]+) µs and ([\d.]+) µs", re.MULTILINE
    )
    ours, bench, torch = ([float(t) for t in found] for found in row.findall(printed("2_devices/07_timing_it_right")))
    assert max(ours[0], bench[0], torch[0]) < 1.02 * min(ours[0], bench[0], torch[0])
    assert bench[2] - min(ours[1], torch[1]) < 0.1 * (bench[2] - bench[1])


def test_stacking_the_events_leaves_less_than_twenty_of_a_thousand(median) -> None:
    page = "2_devices/04_small_copies"
    small, large = (median(page, f"small-copies/{each} a copy/cuda:0") for each in ("1 event", "4096 events"))
    stacked, walk = median(page, "collecting/np.stack/cpu"), median(page, "transfers/to the GPU, pageable/cuda:0/n=64")
    assert 800 < small / large < 1250
    assert 10 < small / (stacked + large) < 20
    assert 41 * walk < stacked / 3, "copies of a hundred walk 41 times"


def test_reading_costs_what_the_model_says_and_half_of_the_hosts_time_is_sleep() -> None:
    times = {t.label: min(t.values) / 20 for t in recorded("2_devices/06_queues").timings.values()}
    host, device = times["GPU, host alone"], times["GPU, device alone"]
    reads = {1: "each step", 2: "each 2nd step", 5: "each 5th step", 10: "each 10th step", 20: "at the end"}
    for every, when in reads.items():
        assert times[f"GPU, read {when}"] == pytest.approx(device + host / every, rel=0.06)
    assert 4e-4 / host == pytest.approx(0.5, abs=0.07)


def test_a_hundredth_of_a_frames_time_remains_and_its_product_is_less_than_a_sixth_of_it(median) -> None:
    found, cured = (median("2_devices/14_profile", f"profile/{when}/cuda:0") for when in ("as found", "converted once"))
    product = median("2_devices/15_roofline", "roofline/match/cuda:0")
    assert cured / found == pytest.approx(0.01, rel=0.1)
    assert 0.12 < product / cured < 1 / 6


def test_many_operations_cost_their_launches_and_what_captures_twice_is_no_faster(median) -> None:
    page = "2_devices/16_fewer_launches"
    few, many = (median(page, f"launch-slope/GPU, {count} operations/cuda:0/n=1") for count in (24, 192))
    written, compiled, captured, both = (
        {n: median(page, f"fewer-launches/{way}/cuda:0/n={n}") for n in (10, 1000, 10**6, 10**7)}
        for way in ("as written", "compiled", "captured", "compiled and captured")
    )
    one, stacked = (median(page, f"fewer-launches/{way}/cuda:0/n=5000") for way in ("one by one", "stacked"))
    assert written[10] / (38 * (many - few) / 168) == pytest.approx(1.1, abs=0.05)
    assert 0.7 < written[10**6] / written[10] < 1 < written[10**7] / written[10] / 2
    assert 50 < one / stacked < 60
    assert captured[1000] == pytest.approx(compiled[1000] / 2, rel=0.1)
    for n in (1000, 10**7):
        assert min(compiled[n], captured[n]) < both[n]
    assert both[1000] > compiled[1000] > captured[1000]


def test_a_network_is_launches_until_its_batch_is_large(median) -> None:
    def step(row):
        return median("2_devices/17_training_a_cnn", f"training-a-cnn/{row}")

    assert step("small, GPU/cuda:0/n=1") > 0.9 * step("small, CPU/cpu/n=1")
    one, eight, many, most = (step(f"large, GPU/cuda:0/n={n}") for n in (1, 8, 256, 1024))
    assert one == pytest.approx(eight, rel=0.1)
    assert many / eight == pytest.approx(1.25, abs=0.1)
    assert 2 < most / many < 3
    assert step("large, CPU/cpu/n=256") > 50 * many
    load, compute = step("load, item by item/cpu/n=256"), step("lesson, CPU/cpu/n=256")
    launch, real = 45 / 35 * step("small, CPU/cpu/n=1"), step("lesson, GPU/cuda:0/n=256")
    assert 2.5 < (load + compute) / load < 2.8
    assert 1.7 < (load + compute) / (load + real) < 1.95
    assert load > many
    copied = median("2_devices/08_pinned_memory", "pinned-memory/to the GPU, pageable/cuda:0/n=4194304")
    assert copied < min(load, real) / 5
    assert max(step("lesson, GPU/cuda:0/n=1"), launch) < 1.4 * min(step("lesson, GPU/cuda:0/n=1"), launch)
    assert min(step(f"large, {tricks}/cuda:0/n=256") for tricks in ("autocast", "both")) > 0.95 * many
    rows = recorded("2_devices/17_training_a_cnn").timings
    cast, plain = (rows[f"training-a-cnn/large, {way}/cuda:0/n=256"].device_seconds for way in ("autocast", "GPU"))
    assert cast < plain < many
    assert rows["training-a-cnn/large, GPU/cuda:0/n=1"].device_seconds < 0.4 * one


def test_larger_batches_are_faster_and_worse_and_as_many_steps_take_as_long() -> None:
    said = printed("2_devices/17_training_a_cnn")
    found = re.findall(r"^(64|256|1024|256, longer) +\d+ +\d+ +([\d.]+) +([\d.]+)%", said, re.MULTILINE)
    times, right = ({batch: float(row[column]) for batch, *row in found} for column in (0, 1))
    assert max(times["256"], times["1024"]) < 0.5 * times["64"] < times["256, longer"]
    assert right["1024"] < right["256"] < right["64"] - 5
    assert right["256, longer"] > right["64"] - 2
    ((at_once, one_by_one),) = re.findall(r"loading 64: ([\d.]+) ms in one go, ([\d.]+) ms one by one", said)
    assert float(at_once) > float(one_by_one), "in a short look"


def test_a_product_is_at_its_roof_and_three_short_steps_are_far_below_theirs(median) -> None:
    page, said = "2_devices/15_roofline", printed("2_devices/15_roofline")
    rates = [float(rate) for rate in re.findall(r"^(?:memory|float32).*: +([\d.]+) T", said, re.MULTILINE)]
    memory, frame, arithmetic = (1e12 * rate for rate in rates)
    assert memory / spec("H100 SXM", "bandwidth") == pytest.approx(0.9, abs=0.02)
    assert frame == memory
    assert arithmetic / spec("H100 SXM", "fp32") == pytest.approx(0.78, abs=0.02)
    modes, one = 512 * 257, median(page, "roofline/match/cuda:0")
    least = {n: max(4 * modes * (512 + n) / memory, 2 * 512 * modes * n / arithmetic) for n in (1, 8, 256)}
    many = {n: median(page, f"roofline-moved/match, {n} frames/cuda:0") for n in (8, 256)}
    assert one < 1.25 * 4 * 512 * modes / spec("H100 SXM", "bandwidth")
    assert least[1] > 0.9 * one
    assert 0.5 < least[8] / many[8] < 0.65
    assert least[256] > 0.95 * many[256]
    assert many[256] / 256 < one / 30
    power, by_abs = (median(page, f"roofline/{way}/cuda:0") for way in ("power", "power, abs"))
    assert power == pytest.approx(by_abs, rel=0.1)
    assert min(median(page, f"roofline/{step}/cuda:0") for step in ("taper", "FFT", "power")) > 5 * 12 * 2**18 / memory


def test_transfers_follow_the_law_but_pageable_ones_the_cpu(median) -> None:
    page, n = "2_devices/08_pinned_memory", 2**26
    pinned, pageable = (median(page, f"pinned-memory/to the GPU, {way}/cuda:0/n={n}") for way in ("pinned", "pageable"))
    assert pinned == pytest.approx(1e-5 + n / spec("PCIe 5 x16", "bandwidth"), rel=0.25)
    assert pageable > 3 * pinned


def test_the_rate_falls_beyond_a_stride_of_eight() -> None:
    page = "3_kernels/05_coalescing"
    rates = {t.label: t.byte_rate for t in recorded(page).timings.values()}
    share = {k: rates[f"kernel, stride {k}"] / rates["kernel, stride 1"] for k in (2, 4, 8, 16, 64)}
    assert all(share[k] == pytest.approx(1 / k, rel=0.05) for k in (2, 4, 8))
    assert share[64] < share[16] < 0.6 * share[8]


def test_up_to_a_stride_of_16_the_whole_array_moves(median) -> None:
    page, n = "3_kernels/05_coalescing", 419_430_400
    times = {k: median(page, f"coalescing/kernel, stride {k}/cuda:0/n={n // k}") for k in (1, 8, 16, 32, 64)}
    assert times[8] == pytest.approx(times[1], rel=0.05)
    assert times[16] == pytest.approx(times[1], rel=0.05)
    assert times[32] < 0.6 * times[1]
    assert times[64] / times[32] == pytest.approx(2 / 3, rel=0.05)
    assert median(page, f"coalescing/kernel, stride 6/cuda:0/n={n // 6 + 1}") == pytest.approx(times[1], rel=0.05)


def test_caches_forgive_reads_and_not_writes(median) -> None:
    page = "3_kernels/05_coalescing"
    rows, columns = (median(page, f"coalescing/kernel, by {each}/cuda:0/n=1000001") for each in ("rows", "columns"))
    assert 1.2 < rows / columns < 2
    rows, columns = (  # the same with for, whose share of the speed page 06 tells
        median("3_kernels/10_what_the_compiler_did", f"what-the-compiler-did/single_sum, {each}/cuda:0/n=500001")
        for each in ("rows", "columns")
    )
    assert columns / rows == pytest.approx(2 / 5, abs=0.03)
    reads, writes = (
        median(page, f"coalescing/kernel, {each} columns/cuda:0/n={8191**2}") for each in ("read", "write")
    )
    assert writes > 3 * reads
    assert median(page, f"coalescing/torch, transposed/cuda:0/n={8191**2}") > reads


def test_tiles_transpose_hardly_faster_than_caches_and_not_like_a_copy(median) -> None:
    page, n = "3_kernels/05_coalescing", 8191**2
    reads, tiles, copy = (
        median(page, f"coalescing/{how}/cuda:0/n={n}")
        for how in ("kernel, read columns", "kernel, through tiles", "torch, copied")
    )
    assert 0.9 * reads < tiles < reads
    assert tiles > 1.5 * copy


def test_each_product_reaches_two_thirds_of_its_limit_but_the_one_that_waits_for_its_loads(median) -> None:
    steps = ("first try", "column along x", "tile", "4 x 4 each", "8 x 8 each", "torch")
    times = [median("3_kernels/07_shared_memory", f"shared-memory/{step}/cuda:0/n=4096") for step in steps]
    first, plain, tile, four, eight, library = (2 * 4096**3 / time / spec("H100 SXM", "fp32") for time in times)
    # of what their instructions and loads allow: 36, 8, 6 and 508 / 256 slots for a multiply-add
    assert [36 * first, 6 * tile, four * 508 / 256] == pytest.approx([0.7, 0.7, 0.7], abs=0.05)
    assert 8 * plain == pytest.approx(1 / 3, abs=0.05)
    assert eight < 1.05 * four
    assert library == pytest.approx(3 / 4, abs=0.05)
    # of the slots for instructions, a third multiplies and adds, and 508 of its instructions ran for 256 of these
    assert four == pytest.approx(1 / 3, abs=0.01)
    assert four * 508 / 256 == pytest.approx(2 / 3, abs=0.02)


def test_a_limit_on_registers_gives_what_8_x_8_elements_did_not_and_wide_loads_a_little_more(median) -> None:
    page = "3_kernels/07_shared_memory"
    capped, wide = (
        median(page, f"shared-memory/{step}/cuda:0/n=4096") for step in ("8 x 8 each, 128 registers", "wide loads")
    )
    assert 1 - wide / capped == pytest.approx(0.06, abs=0.02)
    tuned = [timing.median for name, timing in recorded(page).timings.items() if "/T = " in name]
    assert len(tuned) == 5
    assert capped < 0.9 * min(tuned)


def test_one_kernel_is_a_softmax_at_the_rate_of_memory(median) -> None:
    ours, four, library, steps, compiled = (
        {n: median("3_kernels/13_triton", f"triton-rows/{label}/cuda:0/n={n}") for n in (256, 1024, 4096, 16384)}
        for label in ("Triton", "Triton, four warps", "torch.softmax", "five steps", "torch.compile")
    )
    assert 4 < steps[1024] / ours[1024] < 5.5
    assert 2 * 2**28 / ours[1024] > 0.8 * spec("H100 SXM", "bandwidth")
    assert library[1024] == pytest.approx(ours[1024], rel=0.05)
    assert library[4096] > 1.2 * ours[4096]
    assert all(1.01 < four[n] / ours[n] < 1.1 for n in (256, 16384))
    assert all(four[n] == pytest.approx(ours[n], rel=0.01) for n in (1024, 4096))
    assert all(compiled[n] == pytest.approx(ours[n], rel=0.02) for n in ours)


def test_a_turned_grid_loses_less_than_its_sectors_and_a_loop_gains_nothing(median) -> None:
    page, n = "3_kernels/03_grids", 67_108_863
    right, square, turned, loop = (
        median(page, f"grids/kernel, {how}/cuda:0/n={n}") for how in ("32 × 8", "16 × 16", "turned", "4 a thread")
    )
    assert right == pytest.approx(square, rel=0.05)
    assert 1.5 * right < turned < 32 / 4.9 * right
    assert loop > right
    assert median(page, f"grids/torch, avg_pool2d/cuda:0/n={n}") > right > 2 * 8 * n / spec("H100 SXM", "bandwidth")


def test_one_block_too_many_doubles_the_time() -> None:
    times = {t.n: t.median for t in recorded("3_kernels/04_waves_and_blocks").timings.values()}
    waves = {132: 1, 133: 2, 198: 2, 264: 2, 265: 3, 528: 4}
    assert {n: times[n] / times[132] for n in waves} == pytest.approx(waves, rel=0.03)


def test_a_second_block_costs_little_while_the_first_waits_for_memory(median) -> None:
    one, two = (
        median("3_kernels/11_bytes_in_flight", f"bytes-in-flight/1 load, {part} full/cuda:0/n=314572801")
        for part in ("6%", "12%")
    )
    assert one > 1.8 * two


def test_an_array_in_l2_is_read_faster_than_one_in_memory() -> None:
    timings = recorded("3_kernels/06_caches").timings.values()
    rates = {t.n: t.byte_rate for t in timings if t.label == "kernel"}
    assert rates[2**25] > rates[2**26] > rates[2**27] > 0.95 * rates[2**30]
    assert rates[2**25] > 1.3 * rates[2**30]


def test_a_small_image_is_no_faster_and_a_larger_one_is(median) -> None:
    page = "4_imaging/01_first_light"
    small, large = (
        {on: median(page, f"first-light/a step, {side}, {on.upper()}/{where}/n={side**2}") for on, where in WHERE}
        for side in (180, 512)
    )
    assert small["gpu"] > 0.95 * small["cpu"]
    assert large["gpu"] < 1.25 * small["gpu"]
    assert large["gpu"] < large["cpu"] / 4


def test_digits_are_cheaper_on_the_gpu_and_a_direct_sum_takes_little_longer(median) -> None:
    page = "4_imaging/05_dirty_image"
    direct, four, twelve = (
        median(page, f"dirty-image/{name}, GPU/cuda:0/n=90300") for name in ("direct", "NUFFT 1e-4", "NUFFT 1e-12")
    )
    cpu_four, cpu_twelve = (median(page, f"dirty-image/NUFFT 1e-{digits}/cpu/n=90300") for digits in (4, 12))
    assert direct < cpu_four / 4
    assert 0.7 * direct < four < 1.1 * direct
    assert twelve / four < 1.5 < cpu_twelve / cpu_four


def test_pieces_take_longer_than_their_sectors_say(median) -> None:
    pieces, side_by_side = (
        median("3_kernels/14_puzzles", f"puzzles-stride/{how}/cuda:0/n=67108865") for how in ("pieces", "side by side")
    )
    assert pieces > 1.5 * 8 * side_by_side


def test_another_cpu_turns_two_antennas_otherwise_and_hardly_changes_the_flux() -> None:
    after, off = (
        re.compile(r"^after +([\d.]+) Jy", re.MULTILINE),
        re.compile(r"self-calibration:.*?antenna 4 by ([\d.]+)°", re.DOTALL),
    )
    (flux, of_4), (flux_cpu, of_4_cpu) = (
        [float(part.search(printed("4_imaging/03_real_sky", machine))[1]) for part in (after, off)]
        for machine in (H100, "cpu-amd-epyc")
    )
    assert [of_4, of_4_cpu] == [22.3, 12.8]
    assert flux == pytest.approx(flux_cpu, rel=1e-3)


def test_a_step_takes_four_times_its_bare_launches(median) -> None:
    page, usual = "4_imaging/08_faster", "faster-step/GPU, as usual/cuda:0/n=262144"
    assert median(page, usual) / (97 * 8e-6) == pytest.approx(4, rel=0.15)
    assert median(page, "faster-step/GPU, fused Adam/cuda:0/n=262144") == pytest.approx(median(page, usual), rel=0.3)
