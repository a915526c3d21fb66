import type { LoadPoint } from '../types.ts'
import type { CapacityFound, Effort } from './measure.ts'
import { failuresOf, keeps, type Session } from './session.ts'

const maxConnections = 1024

/**
 * Capacity by a closed loop: connections are doubled until the SLO is missed (or more of them bring nothing), then bisected.
 * Closed loops wait for slow answers, so this is optimistic about bursts; the interval spans the last held and the first missed step.
 */
export async function closedBisection(session: Session, effort: Effort, idle: LoadPoint): Promise<CapacityFound> {
  const { slo } = session
  let held = { connections: 1, rps: idle.goodputRps }
  let missed: { connections: number; rps: number } | undefined
  let saturationRps = idle.achievedRps
  let generatorLimited = false
  const spent = () => session.spentS + effort.windowS > effort.budgetS

  const step = async (connections: number): Promise<CapacityFound | undefined> => {
    const { point } = await session.closed(connections, effort.windowS, 'search')
    saturationRps = Math.max(saturationRps, point.achievedRps)
    generatorLimited ||= point.generatorSaturated
    if (await session.died(point)) return finish('server-died', `nothing listens any more: ${failuresOf(point)}`)
    if (!keeps(point, slo)) missed = { connections, rps: point.achievedRps }
    else held = { connections, rps: point.goodputRps }
    return undefined
  }
  const finish = (outcome: CapacityFound['outcome'], detail?: string): CapacityFound => {
    const upper = missed === undefined ? Number.POSITIVE_INFINITY : Math.max(held.rps, saturationRps)
    return { outcome, capacityRps: held.rps, capacityCi90Rps: [held.rps * 0.9, upper], saturationRps, detail }
  }

  while (missed === undefined && held.connections < maxConnections) {
    if (spent()) return finish('budget', `the SLO still held with ${held.connections} connections when the time was up`)
    const before = held.rps
    const ended = await step(held.connections * 2)
    if (ended !== undefined) return ended
    if (generatorLimited) return finish('generator-limit', 'the load generator used a whole core: the server may do more')
    if (missed === undefined && held.connections >= 64 && held.rps < before * 1.02)
      return finish('converged', `more than ${held.connections / 2} connections bring no more, and the SLO holds`)
  }
  while (missed !== undefined && missed.connections - held.connections > Math.max(1, held.connections * 0.06)) {
    if (spent()) return finish('budget', `between ${held.connections} and ${missed.connections} connections when the time was up`)
    const ended = await step(Math.round((held.connections + missed.connections) / 2))
    if (ended !== undefined) return ended
  }
  return finish('converged')
}
