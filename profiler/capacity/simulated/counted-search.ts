/**
 * The highest rate that keeps an SLO, of a server in virtual time that counts what is over: windows
 * end as soon as they are lost.
 */
import { keepsCounts, mostOver, type Slo } from '../../model/slo.ts'
import type { Load } from '../../model/load.ts'
import type { Capacity } from '../../model/measurement.ts'
import type { VirtualServer } from '../../model/virtual-server.ts'
import { between } from '../capacity-bounds.ts'

export interface CountedSearch {
  readonly server: Required<Pick<VirtualServer, 'expects' | 'countOver'>>
  readonly slo: Slo
  readonly seed: number
  readonly arrivals: Extract<Load, { kind: 'open' }>['arrivals']
  /** Of a saturated closed loop. */
  readonly saturationRps: number
}

/**
 * From short windows to long ones: requests of each, how far the search steps from where the one
 * before it ended, and how far apart the ends of its bracket may be. Each kind of window plays the
 * same arrivals, stretched. The last one decides.
 */
const stages = [
  { requests: 1000, step: 1.06, precision: 1.06 },
  { requests: 3000, step: 1.03, precision: 1.03 },
  { requests: 10_000, step: 1.01, precision: 1.0202 },
] as const
/** Rates looked at, as parts of the saturated one. */
const lowest = 0.005
const highest = 1.05

/**
 * Standard deviation of ln(capacity) that the last windows' chance makes: measured of Poisson
 * arrivals, against windows of 60,000 requests.
 */
const chance = 0.02

/**
 * The highest rate whose window keeps the SLO: brackets it with short windows from where the
 * server's own model expects it, then with long ones.
 */
export function countedCapacity({
  server,
  slo,
  seed,
  arrivals,
  saturationRps,
}: CountedSearch): Capacity {
  const bounds = { lowest: lowest * saturationRps, highest: highest * saturationRps }
  let rateRps = server.expects(slo).capacityRps || 0.4 * saturationRps
  let { lowest: low, highest: high } = bounds
  for (const { requests, ...stage } of stages) {
    const most = mostOver(slo, requests)
    const keeps = (rate: number): boolean => {
      const load = {
        kind: 'open',
        rateRps: rate,
        arrivals,
        durationS: requests / rate,
        seed,
      } as const
      const { over, failed } = server.countOver(load, slo.limitMs, most)
      return keepsCounts({ requests, over, errors: failed }, slo)
    }
    ;[low, high] = bracket(keeps, rateRps, stage, bounds)
    rateRps = Math.sqrt(low * high)
  }
  const reach = Math.exp(
    1.645 * chance * (arrivals.kind === 'gamma' ? Math.max(1, arrivals.cv) : 1),
  )
  return { ...between(low / reach, high * reach), capacityRps: low }
}

/**
 * The ends of an interval that a falling condition changes in, no further apart than `precision`:
 * steps that double lead away from where it begins, then it is halved, both on a logarithmic axis.
 * Beyond the bounds nothing is asked: the lower one is taken to hold, the upper one not to.
 */
function bracket(
  holds: (rateRps: number) => boolean,
  from: number,
  { step, precision }: { readonly step: number; readonly precision: number },
  bounds: { readonly lowest: number; readonly highest: number },
): [low: number, high: number] {
  let [low, high] = [bounds.lowest, bounds.highest]
  let rateRps = Math.min(Math.max(from, low), high / step)
  let stride = step
  while (high / low > precision) {
    const held = holds(rateRps)
    if (held) low = rateRps
    else high = rateRps
    // Once it is between one that held and one that did not, a step is longer than what lies
    // between.
    const next = held ? low * stride : high / stride
    rateRps = next > low && next < high ? next : Math.sqrt(low * high)
    stride *= stride
  }
  return [low, high]
}
