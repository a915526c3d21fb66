/** Chance that a seed repeats. */
export class Draw {
  /** @param uniform in [0, 1) */
  constructor(private readonly uniform: () => number) {}

  /** A whole number, both ends included. */
  whole(from: number, to: number): number {
    return from + Math.floor(this.uniform() * (to - from + 1))
  }

  shuffled<T>(values: readonly T[]): T[] {
    const out = [...values]
    for (let i = out.length - 1; i > 0; i--) {
      const j = this.whole(0, i)
      ;[out[i], out[j]] = [out[j]!, out[i]!]
    }
    return out
  }
}
