/** Random numbers that a seed reproduces on every machine. */

/** A seeded stream of uniform numbers in (0, 1). */
export type Uniform = () => number

/**
 * Creates a stream by sfc32 (Chris Doty-Humphrey, PractRand), seeded through splitmix32. The search
 * has its own sfc32, because neither folder imports the other.
 */
export function createUniform(seed: number): Uniform {
  let state = seed >>> 0
  const split = () => {
    state = (state + 0x9e3779b9) >>> 0
    let z = state
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return (z ^ (z >>> 15)) | 0
  }
  let [a, b, c, counter] = [split(), split(), split(), 1]
  const next = () => {
    const t = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + t) | 0
    return ((t >>> 0) + 0.5) / 4294967296
  }
  for (let i = 0; i < 12; i++) next()
  return next
}

/** A standard normal value (Box and Muller). */
export function sampleNormal(uniform: Uniform): number {
  return Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
}

/**
 * A gamma value with the given shape and mean 1 (Marsaglia and Tsang 2000; shapes below 1 by their
 * boost).
 */
export function sampleGamma(uniform: Uniform, shape: number): number {
  if (shape < 1)
    return (sampleGamma(uniform, shape + 1) * (shape + 1) * uniform() ** (1 / shape)) / shape
  const d = shape - 1 / 3
  const c = 1 / Math.sqrt(9 * d)
  for (;;) {
    const x = sampleNormal(uniform)
    const v = (1 + c * x) ** 3
    if (v > 0 && Math.log(uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v))
      return (d * v) / shape
  }
}

/** Shuffles a copy of a list (Fisher and Yates). */
export function shuffle<T>(values: readonly T[], uniform: Uniform): T[] {
  const out = [...values]
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(uniform() * (i + 1))
    ;[out[i], out[j]] = [out[j]!, out[i]!]
  }
  return out
}
