// z = x + y, four floats a thread. Nothing beyond the end of z is touched.
@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read> y: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> z: array<vec4f>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) thread: vec3u) {
  let i = thread.x;
  if (i < arrayLength(&z)) { z[i] = x[i] + y[i]; }
}
