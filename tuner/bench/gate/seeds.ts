/**
 * Seeds of the gate, drawn when it was made and used nowhere else in the repository: no constant was
 * chosen on what comes of them. Other seeds need another baseline, and other true capacities.
 */
export const gateSeeds = {
  /** Of the virtual servers. */
  servers: 72_940_183,
  /** Of their measurements. */
  measurements: 58_216,
  replays: 61_738,
  products: 83_461,
  virtualJobs: 94_127,
  realJobs: 37_219,
} as const

/** @param count how many, one after the other */
export const seedsFrom = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => first + i)
