/** What a closed loop gets out of a server, whatever its latency: where to look for the capacity, and the second half of its warm-up. */
import { sum } from 'simple-statistics'
import { failsTooOften } from '../slo.ts'
import { untilLastRps } from '../statistics/load-point.ts'
import type { LoadPoint, LoadRun } from '../types.ts'
import type { Effort } from './effort.ts'
import type { Session } from './session.ts'

/** Windows of a closed loop that look for the saturation of a server which may still be cold. */
const mostRounds = 12
const mostConnections = 1024
/** What all windows may wait for their last answers, beyond their length: at a slow server many wait for long, and more of that teaches nothing. */
const mostOverrunS = 6
/** Fewest windows of a closed loop, with all its connections, that tell whether the throughput still grows: a cold server may pause on its way up. */
const fewestLevel = 4

export interface Saturation {
  readonly rps: number
  readonly connections: number
  readonly generatorLimited: boolean
  /** The last window, which ended the search for it where the server died. */
  readonly point: LoadPoint
  readonly died: boolean
  /** The last loop of which too many requests were refused. */
  readonly refusing?: LoadRun
}

/**
 * Connections are raised until as many wait as the SLO leaves time for (throughput hardly grows beyond), then held until the throughput
 * grows no more: a server under load for the first time compiles, allocates and fills its caches. Where requests are refused, they are raised
 * no further: overload is answered with less load.
 */
export async function saturate(session: Session, effort: Effort, fromRps: number, most = mostConnections): Promise<Saturation> {
  const { slo } = session
  let connections = Math.min(8, most)
  let limit = most
  let rps = fromRps
  /** Answers of each window with all connections. */
  let answered: number[] = []
  let refusing: LoadRun | undefined
  let overrunS = 0
  for (let round = 0; ; round++) {
    const { run, point } = await session.closed(connections, effort.saturationS, 'saturation')
    overrunS += Math.max(0, run.elapsedS - run.seconds)
    if (failsTooOften(point, slo)) refusing = run
    const found = {
      rps: Math.max(rps, point.achievedRps, untilLastRps(run)),
      connections,
      generatorLimited: point.generatorSaturated,
      point,
      refusing,
    }
    if (await session.died(point)) return { ...found, died: true }
    rps = found.rps
    if (round + 1 === mostRounds || overrunS >= mostOverrunS) return { ...found, died: false }
    if (failsTooOften(point, slo)) {
      limit = Math.max(1, Math.floor(connections / 2))
      if (connections === 1) return { ...found, died: false }
      connections = limit
      answered = []
      continue
    }
    const enough = Math.min(limit, Math.ceil((1.2 * rps * slo.limitMs) / 1000))
    if ((round > 0 || limit === 1) && enough <= connections * 1.3) answered.push(point.achievedRps * point.seconds)
    else answered = []
    if (answered.length >= fewestLevel && !grew(answered)) return { ...found, died: false }
    connections = Math.max(connections, enough)
  }
}

/** Whether the later half of the windows answered more than the earlier, beyond 2 % and chance. */
function grew(answered: readonly number[]): boolean {
  const earlier = sum(answered.slice(0, Math.floor(answered.length / 2)))
  const later = sum(answered.slice(Math.ceil(answered.length / 2)))
  return later - earlier > Math.max(0.02 * earlier, Math.sqrt(earlier + later))
}
