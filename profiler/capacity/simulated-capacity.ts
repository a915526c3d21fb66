/** Capacity of a server in virtual time. Its time costs nothing, so that long windows and plain bisection replace the search made for real servers. */
import { keeps, keepsSurely, sloLimit, sloName, sloValue } from '../slo.ts'
import type { Capacity, Load, LoadPoint, Measurement, Slo, Target } from '../types.ts'
import { VirtualLoadGenerator } from '../virtual/virtual-generator.ts'
import { countedCapacity } from './counted-search.ts'
import { between, noCapacity } from './known-capacity.ts'

export interface SimulatedCapacityOptions {
  readonly target: Extract<Target, { kind: 'virtual' }>
  readonly slo: Slo
  readonly seed: number
  readonly signal: AbortSignal
  readonly arrivals?: Extract<Load, { kind: 'open' }>['arrivals']
  readonly onStep?: (point: LoadPoint, phase: string) => void
}

/** Of the capacity: rates of the load curve around it. */
const curveParts = [0.3, 0.6, 0.85] as const
const curveRequests = 1000
const capacityRequests = 4000
const idleRequests = 200
const saturationRequests = 1500
/** Of streamed answers, each of hundreds of steps: requests of a window and of a long one. */
const streamWindows = [1000, 3000] as const
const idleAnswers = 64
/** The rate is lowered by these steps until a long window keeps the SLO. */
const longStep = 0.985
const longSteps = 8
/** The ends of the bracket of a streaming server are then this far apart. */
const precision = 1.01
/** Most servers keep their SLO up to somewhere near saturation: the first rates to try, as parts of it. */
const firstRates = [0.8, 0.4, 0.1] as const
const saturatingConnections = 256

/** The highest rate whose SLO percentile keeps the SLO, in virtual time. `seconds` of the result are virtual. */
export async function measureSimulatedCapacity(options: SimulatedCapacityOptions): Promise<Measurement> {
  const { target, slo, seed, signal, onStep } = options
  const generator = new VirtualLoadGenerator()
  const points: LoadPoint[] = []
  const run = async (load: Load, phase: string): Promise<LoadPoint> => {
    const point = await generator.run(target, load, slo, signal)
    points.push(point)
    onStep?.(point, phase)
    return point
  }
  const closed = (connections: number, durationS: number, phase: string) => run({ kind: 'closed', connections, durationS }, phase)
  const expected = target.server.expects?.(slo)
  const atMost = (requests: number, rateRps: number | undefined, seconds: number) =>
    rateRps === undefined ? seconds : Math.min(seconds, requests / rateRps)
  const first = await closed(1, atMost(idleRequests, expected && 1000 / expected.idleMs, Math.max(0.5, (50 * slo.limitMs) / 1000)), 'idle')
  // A streamed answer takes long whatever the SLO is about.
  const idle = first.stream ? await closed(1, (idleAnswers * first.stream.e2e.meanMs) / 1000, 'idle') : first
  const saturate = async (): Promise<LoadPoint> => {
    if (!idle.stream)
      return closed(
        saturatingConnections,
        atMost(saturationRequests, expected?.saturationRps, Math.max(1, (4 * slo.limitMs) / 1000)),
        'saturation',
      )
    const filled = await closed(saturatingConnections, (2 * idle.stream.e2e.maxMs) / 1000, 'saturation')
    return closed(saturatingConnections, (4 * (filled.stream?.e2e.maxMs ?? idle.stream.e2e.maxMs)) / 1000, 'saturation')
  }
  let saturationRps = idle.achievedRps
  const result = (outcome: Measurement['outcome'], capacity: Capacity, detail?: string): Measurement => ({
    outcome,
    ...capacity,
    slo,
    idle,
    saturationRps,
    points,
    requests: points.reduce((sum, p) => sum + p.requests, 0),
    seconds: points.reduce((sum, p) => sum + p.seconds, 0),
    detail,
    caveats: ['simulated in virtual time: nothing was measured'],
  })
  if (!keeps(idle, slo))
    return result(
      'slo-unattainable',
      noCapacity,
      `one request at a time takes ${sloValue(slo, idle.sloMs)} at ${sloName(slo)}, over ${sloLimit(slo)}`,
    )
  saturationRps = (await saturate()).achievedRps

  // A trace has a rate of its own.
  const arrivals = options.arrivals === undefined || options.arrivals.kind === 'trace' ? ({ kind: 'poisson' } as const) : options.arrivals
  const offer = (rateRps: number, requests: number) =>
    run({ kind: 'open', rateRps, arrivals, durationS: requests / rateRps, seed }, `rate ${rateRps.toPrecision(3)}/s`)
  const { server } = target
  const { expects, countOver } = server
  if (expects && countOver) {
    const counting = { expects: expects.bind(server), countOver: countOver.bind(server) }
    const capacity = countedCapacity({ server: counting, slo, seed, arrivals, saturationRps })
    const { capacityRps } = capacity
    for (const part of curveParts) await offer(part * capacityRps, curveRequests)
    // What a looser SLO would allow.
    await offer(Math.max(1.03 * capacityRps, Math.sqrt(capacityRps * saturationRps)), curveRequests)
    await offer(capacityRps, capacityRequests)
    return result('converged', capacity)
  }
  let low = 0.005 * saturationRps
  // Times per token do not show that answers wait: beyond saturation ever more do.
  let high = (idle.stream ? 1 : 1.05) * saturationRps
  let certainlyKept = 0
  let certainlyMissed = high
  while (high / low > precision) {
    const first = firstRates.map((part) => part * saturationRps).find((rate) => rate > low && rate < high && low < 0.8 * saturationRps)
    const rateRps = first ?? Math.sqrt(low * high)
    const point = await offer(rateRps, streamWindows[0])
    if (keeps(point, slo)) low = rateRps
    else high = rateRps
    if (keepsSurely(point, slo) === true) certainlyKept = Math.max(certainlyKept, rateRps)
    if (keepsSurely(point, slo) === false) certainlyMissed = Math.min(certainlyMissed, rateRps)
  }
  // A short window near saturation ends before its queue has grown: the rate must also keep the SLO over a long one.
  let capacityRps = low
  for (let step = 0; step < longSteps && !keeps(await offer(capacityRps, streamWindows[1]), slo); step++) capacityRps *= longStep
  const boundRps = Math.max(Math.min(certainlyMissed, 1.05 * saturationRps), capacityRps)
  return result('converged', between(Math.min(certainlyKept || low, capacityRps), boundRps, capacityRps))
}
