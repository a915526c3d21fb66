import type { LoadRun } from '../model/load-run.ts'

/** Spans of time in which the machine disturbed a run, ms, ascending and apart. */
export type Spans = readonly (readonly [fromMs: number, toMs: number])[]

/** A run, and when the machine disturbed it. */
export interface WatchedRun {
  readonly run: LoadRun
  readonly disturbed: Spans
}

/** What is said of a measurement that the machine left nothing of. */
export const disturbedThroughout =
  'the machine was too busy in every window, also in the repeated ones'

/** The same of its closed loops, and no window missed. */
export const spoiltLoops = (loopsRps: number): string =>
  `the machine was too busy in the closed loops, which reached ${loopsRps.toFixed(1)} req/s, and no window violated the SLO: the capacity is not bounded above`

/** The same of one request at a time. */
export const disturbedAlone =
  'one request at a time violates the SLO, but the machine was too busy for much of that time, twice'

/**
 * Share of a window in which others had the server's cores, from which on its latency is not its
 * own: threads that wait for one another lose more than their share.
 */
const mostKept = 0.25

/**
 * Whether others had the cores of the server for so long that a window that misses says nothing of
 * it.
 */
export const keptFromCores = ({ machineWait: { server = 0, stolen = 0 } = {} }: LoadRun): boolean =>
  Math.max(server, stolen) >= mostKept

/** A stall's queue takes about twice as long again to drain. */
const aftermath = 2

/**
 * Stalls of the generator's process of at least this long, with their aftermath. None where the
 * server had the cores meanwhile: a configuration that takes those of its load slows itself.
 */
export function disturbances(
  { stallsMs = new Float64Array(), machineWait: { behindServerMs = 0 } = {} }: LoadRun,
  leastMs: number,
): Spans {
  const stalledMs = stallsMs.reduce((sum, ms, i) => (i % 2 === 0 ? sum - ms : sum + ms), 0)
  if (behindServerMs >= stalledMs) return []
  const spans: [number, number][] = []
  for (let i = 0; i < stallsMs.length; i += 2) {
    const [from, to] = [stallsMs[i]!, stallsMs[i + 1]!]
    if (to - from < leastMs) continue
    const until = to + aftermath * (to - from)
    const last = spans.at(-1)
    if (last !== undefined && from <= last[1]) last[1] = Math.max(last[1], until)
    else spans.push([from, until])
  }
  return spans
}

/** Whether [fromMs, toMs] meets any of the spans. */
export const meets = (spans: Spans, fromMs: number, toMs: number): boolean =>
  spans.some(([from, to]) => fromMs <= to && from <= toMs)

/** Milliseconds of a run that were disturbed. */
export const disturbedMs = (spans: Spans): number =>
  spans.reduce((sum, [from, to]) => sum + to - from, 0)
