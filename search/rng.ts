import type { Rng } from './types.ts'

/** 128 bits of state from a text: cyrb128, four interleaved multiplicative hashes. */
function hash128(text: string): [number, number, number, number] {
  let a = 1779033703
  let b = 3144134277
  let c = 1013904242
  let d = 2773480762
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    a = b ^ Math.imul(a ^ code, 597399067)
    b = c ^ Math.imul(b ^ code, 2869860233)
    c = d ^ Math.imul(c ^ code, 951274213)
    d = a ^ Math.imul(d ^ code, 2716044179)
  }
  a = Math.imul(c ^ (a >>> 18), 597399067)
  b = Math.imul(d ^ (b >>> 22), 2869860233)
  c = Math.imul(a ^ (c >>> 17), 951274213)
  d = Math.imul(b ^ (d >>> 19), 2716044179)
  return [a ^ b ^ c ^ d, b ^ a, c ^ a, d ^ a]
}

/**
 * Creates a seeded generator: sfc32 (Chris Doty-Humphrey's small fast chaotic generator), period
 * about 2^128. `fork(name)` depends on the seed and the names, never on the numbers drawn before.
 * The profiler has its own sfc32, because neither folder imports the other.
 */
export function createRng(seed: number | string): Rng {
  const key = String(seed)
  let [a, b, c, d] = hash128(key)
  const next = (): number => {
    const t = (a + b + d) | 0
    d = (d + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = ((c << 21) | (c >>> 11)) + t
    return ((t >>> 0) + 0.5) / 4294967296
  }
  for (let i = 0; i < 12; i++) next()
  return {
    next,
    normal: () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next()),
    int: (n) => Math.floor(next() * n),
    fork: (name) => createRng(`${key}/${name}`),
  }
}

/** Returns a random permutation of the items (Fisher-Yates), as a new array. */
export function shuffle<T>(items: readonly T[], rng: Rng): T[] {
  const shuffled = [...items]
  for (let i = shuffled.length - 1; i > 0; i--) {
    const j = rng.int(i + 1)
    const swapped = shuffled[i]!
    shuffled[i] = shuffled[j]!
    shuffled[j] = swapped
  }
  return shuffled
}
