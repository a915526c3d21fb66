/** Random decisions of requests, drawn by hashing: the same whatever the order of events. */

/** Mixes two 32-bit numbers (the finaliser of MurmurHash3, Appleby 2011). */
export function mixHash(a: number, b: number): number {
  let hash = Math.imul(a, 0x9e3779b1) ^ Math.imul(b + 0x7f4a7c15, 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/** Uniform in [0, 1). */
export const toUniform = (hash: number): number => hash / 2 ** 32

/** Number of calls of one request, with a mean of `ratio`. */
export const drawCallCount = (ratio: number, hash: number): number =>
  Math.floor(ratio) + (toUniform(hash) < ratio % 1 ? 1 : 0)
