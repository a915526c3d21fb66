import { rate } from '../format.ts'
import type { LoadRun } from '../model/load-run.ts'

/** Spans of host interference within a run, ms, ascending and disjoint. */
export type TimeSpans = readonly (readonly [fromMs: number, toMs: number])[]

/** A run, and the spans in which other work on the host disturbed it. */
export interface RunWithInterference {
  readonly run: LoadRun
  readonly disturbed: TimeSpans
}

/** Detail of an outcome whose windows, repeated ones included, were all invalid. */
export const allWindowsDisturbedDetail =
  'other work on this machine disturbed every window, repeated ones included'

/** Detail of an outcome whose closed loops were disturbed and whose windows all met the SLO. */
export const describeDisturbedLoops = (loopsRps: number): string =>
  `other work on this machine disturbed the closed loops, which reached ${rate(loopsRps)}, and no window violated the SLO: the capacity is not bounded above`

/** Detail of an outcome whose unloaded latency was disturbed twice. */
export const unloadedDisturbedDetail =
  'one request at a time violates the SLO, but other work on this machine disturbed both measurements'

/**
 * Minimum share of a window, in which the server waited for a core or the hypervisor withheld one,
 * from which a violated SLO is no evidence. Low, because threads that wait for one another multiply
 * the delay. Assumed.
 */
const minStarvedShare = 0.25

/**
 * Whether other work used the server's cores for so long that a violated SLO is no evidence about
 * the server.
 */
export const isStarvedOfCores = ({
  machineWait: { server: waitShare = 0, stolen: stealShare = 0 } = {},
}: LoadRun): boolean => Math.max(waitShare, stealShare) >= minStarvedShare

/**
 * Drain time of the queue after a pause of the generator, as a multiple of the pause. It is
 * u / (1 - u) at utilization u, so 2 assumes u = 2/3.
 */
const drainFactor = 2

/**
 * Finds pauses of the generator process of at least `minMs`, each extended by the time to drain the
 * queue. Empty if the generator waited at least as long for cores that the server or the generator
 * used: then the pauses are no interference.
 */
export function findInterference(
  { generatorPausesMs = new Float64Array(), machineWait: { behindServerMs = 0 } = {} }: LoadRun,
  minMs: number,
): TimeSpans {
  // Alternating starts and ends.
  const totalPausedMs = generatorPausesMs.reduce(
    (sum, ms, i) => (i % 2 === 0 ? sum - ms : sum + ms),
    0,
  )
  if (behindServerMs >= totalPausedMs) return []
  const spans: [number, number][] = []
  for (let i = 0; i < generatorPausesMs.length; i += 2) {
    const [from, to] = [generatorPausesMs[i]!, generatorPausesMs[i + 1]!]
    if (to - from < minMs) continue
    const until = to + drainFactor * (to - from)
    const last = spans.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], until)
    else spans.push([from, until])
  }
  return spans
}

/** Whether [fromMs, toMs] overlaps any of the spans. */
export const overlapsAny = (spans: TimeSpans, fromMs: number, toMs: number): boolean =>
  spans.some(([from, to]) => fromMs <= to && from <= toMs)

/** Adds the lengths of the spans, ms. */
export const sumSpansMs = (spans: TimeSpans): number =>
  spans.reduce((sum, [from, to]) => sum + to - from, 0)
