// Each number is read once, goes through as many fused multiply-adds as links says, and
// is written once.
override links: u32 = 1;

@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> y: array<vec4f>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) thread: vec3u) {
  let i = thread.x;
  if (i >= arrayLength(&y)) { return; }
  var chain = x[i];
  for (var link = 0u; link < links; link++) {
    chain = fma(chain, vec4f(0.5), vec4f(1.0));
  }
  y[i] = chain;
}
