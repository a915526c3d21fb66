/**
 * The usual way, to compare with: closed-loop saturation, then bisection over the rate by windows
 * that pass or fail.
 */
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'

export interface Bisected {
  readonly capacityRps: number
  readonly capacityCi90Rps: readonly [number, number]
  readonly seconds: number
  readonly requests: number
}

/** Six windows between 0.1 × and 1.1 × saturation; the interval is the last bracket. */
export async function openBisection(
  generator: LoadGenerator,
  target: Target,
  slo: Slo,
  windowS: number,
  seed: number,
): Promise<Bisected> {
  const { signal } = new AbortController()
  let seconds = 0
  let requests = 0
  const play = async (load: Parameters<LoadGenerator['play']>[1]): Promise<LoadPoint> => {
    const point = await generator.run(target, load, slo, signal)
    seconds += point.seconds
    requests += point.requests
    return point
  }
  await play({ kind: 'closed', connections: 2, durationS: 1 })
  const saturated = await play({ kind: 'closed', connections: 64, durationS: 2 })
  let [low, high] = [0.1 * saturated.achievedRps, 1.1 * saturated.achievedRps]
  for (let i = 0; i < 6; i++) {
    const rateRps = (low + high) / 2
    const point = await play({
      kind: 'open',
      rateRps,
      durationS: windowS,
      arrivals: { kind: 'poisson' },
      seed: seed + i,
    })
    if (point.sloMs <= slo.limitMs) low = rateRps
    else high = rateRps
  }
  return { capacityRps: (low + high) / 2, capacityCi90Rps: [low, high], seconds, requests }
}
