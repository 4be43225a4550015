// Each thread adds up its share of x[::stride]; in each round, neighbouring threads
// read numbers a stride apart.
override stride: u32 = 1;

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> totals: array<f32>;

@compute @workgroup_size(256)
fn main(
  @builtin(global_invocation_id) thread: vec3u, @builtin(num_workgroups) groups: vec3u
) {
  var total = 0.0;
  let step = groups.x * 256 * stride;
  for (var at = thread.x * stride; at < arrayLength(&x); at += step) { total += x[at]; }
  totals[thread.x] = total;
}
