/**
 * Processor sharing: servers that work on all requests at once, each at its share of the cores
 * (threads, asynchronous workers, a time-shared GPU).
 *
 * All requests present progress at the same speed, min(1, cores / present). The work of a request
 * is the integral of that speed over its sojourn (attained service: Kleinrock 1976, volume 2,
 * section 4.4). So it can be computed for every answered request.
 */
import type { LoadRun } from '../../model/load-run.ts'
import { overlapsAny, type TimeSpans } from '../host-interference.ts'
import { logSingleServices, type ServiceTimes } from '../service-log/service-log.ts'
import { collectSojourns } from '../service-log/sojourns.ts'

/**
 * Extracts the work of each request, in ms of one core and in arrival order, for a given number of
 * cores. Failed requests, requests that were cut short and those that met host interference are
 * left out.
 */
export function extractWork(
  run: LoadRun,
  cores: number,
  disturbed: TimeSpans = [],
  overheadMs = 0,
): ServiceTimes {
  const found: number[] = []
  const tookMs: number[] = []
  const endedMs: number[] = []
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const { sentMs, endMs, ...sojourns } = collectSojourns(run, overheadMs)
  const leaving = sojourns.leaving.filter((i) => endMs[i]! < lastMs)
  /** Work that a request present since the start of the run would have received so far. */
  let attainedMs = 0
  let now = 0
  let present = 0
  const advance = (toMs: number) => {
    if (present > 0) attainedMs += (toMs - now) * Math.min(1, cores / present)
    now = toMs
  }
  const attainedBefore = new Float64Array(sentMs.length)
  const foundPresent = new Int32Array(sentMs.length)
  const workMs = new Float64Array(sentMs.length).fill(Number.NaN)
  let next = 0
  for (const [i, atMs] of sentMs.entries()) {
    for (; next < leaving.length && endMs[leaving[next]!]! <= atMs + 1e-6; next++)
      leave(leaving[next]!)
    advance(atMs)
    attainedBefore[i] = attainedMs
    foundPresent[i] = present++
  }
  for (; next < leaving.length; next++) leave(leaving[next]!)
  function leave(i: number): void {
    advance(endMs[i]!)
    workMs[i] = attainedMs - attainedBefore[i]!
    present--
  }
  for (const [i, atMs] of sentMs.entries()) {
    if (Number.isNaN(workMs[i]!) || overlapsAny(disturbed, atMs, endMs[i]!)) continue
    found.push(foundPresent[i]!)
    tookMs.push(Math.max(0, workMs[i]!))
    endedMs.push(atMs + workMs[i]!)
  }
  return { log: logSingleServices(tookMs, endedMs), found }
}

/**
 * Simulates latencies under given arrivals (ms, ascending) and writes them to `latencyMs`; Infinity
 * for requests that find a full system.
 */
export function simulateSharing(
  cores: number,
  systemCapacity: number,
  arrivalsMs: Float64Array,
  workMs: (arrivedMs: number) => number,
  latencyMs: Float64Array,
): void {
  /** Attained work at which each request departs; ascending from `head` to `tail`. */
  const departsAtWork = new Float64Array(arrivalsMs.length)
  const requests = new Int32Array(arrivalsMs.length)
  let head = 0
  let tail = 0
  let now = 0
  let attainedMs = 0
  const serveUntil = (untilMs: number) => {
    for (; head < tail; head++) {
      const speed = Math.min(1, cores / (tail - head))
      const leftMs = (departsAtWork[head]! - attainedMs) / speed
      if (now + leftMs > untilMs) {
        attainedMs += (untilMs - now) * speed
        break
      }
      now += leftMs
      attainedMs = departsAtWork[head]!
      latencyMs[requests[head]!] = now - arrivalsMs[requests[head]!]!
    }
    now = untilMs
  }
  for (let i = 0; i < arrivalsMs.length; i++) {
    const atMs = arrivalsMs[i]!
    serveUntil(atMs)
    if (tail - head >= systemCapacity) {
      latencyMs[i] = Number.POSITIVE_INFINITY
      continue
    }
    const departsAt = attainedMs + workMs(atMs)
    let place = tail++
    for (; place > head && departsAtWork[place - 1]! > departsAt; place--) {
      departsAtWork[place] = departsAtWork[place - 1]!
      requests[place] = requests[place - 1]!
    }
    departsAtWork[place] = departsAt
    requests[place] = i
  }
  serveUntil(Number.POSITIVE_INFINITY)
}
