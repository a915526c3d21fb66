/**
 * Servers that work on all requests at once, each at its share of the cores (processor sharing:
 * threads, asynchronous workers, a GPU shared in time).
 *
 * All that are there are given work at the same speed, min(1, cores / present). So the work that
 * one was given grows as the integral of that speed over its stay (the attained service of
 * Kleinrock 1976, volume 2, section 4.4), and is known of every request that was answered: what it
 * needed.
 */
import type { LoadRun } from '../../model/load-run.ts'
import { meets, type Spans } from '../host-interference.ts'
import { answeredOf } from '../service-log/sojourns.ts'
import { type Services, stepsOfOne } from '../service-log/service-log.ts'

/**
 * The work of each request, ms of one core, were so many cores shared, in the order of their
 * arrival. Failed requests, those cut short and those that met a disturbance are left out.
 */
export function worksOf(
  run: LoadRun,
  cores: number,
  disturbed: Spans = [],
  besideMs = 0,
): Services {
  const found: number[] = []
  const tookMs: number[] = []
  const endedMs: number[] = []
  const lastMs = (run.cutMs ?? Number.POSITIVE_INFINITY) - 1e-6
  const { sentMs, endMs, ...stays } = answeredOf(run, besideMs)
  const leaving = stays.leaving.filter((i) => endMs[i]! < lastMs)
  /** Work that each of those present was given since the start. */
  let given = 0
  let now = 0
  let present = 0
  const goOn = (toMs: number) => {
    if (present > 0) given += (toMs - now) * Math.min(1, cores / present)
    now = toMs
  }
  const givenBefore = new Float64Array(sentMs.length)
  const foundBy = new Int32Array(sentMs.length)
  const workMs = new Float64Array(sentMs.length).fill(Number.NaN)
  let next = 0
  for (const [i, atMs] of sentMs.entries()) {
    for (; next < leaving.length && endMs[leaving[next]!]! <= atMs + 1e-6; next++)
      leave(leaving[next]!)
    goOn(atMs)
    givenBefore[i] = given
    foundBy[i] = present++
  }
  for (; next < leaving.length; next++) leave(leaving[next]!)
  function leave(i: number): void {
    goOn(endMs[i]!)
    workMs[i] = given - givenBefore[i]!
    present--
  }
  for (const [i, atMs] of sentMs.entries()) {
    if (Number.isNaN(workMs[i]!) || meets(disturbed, atMs, endMs[i]!)) continue
    found.push(foundBy[i]!)
    tookMs.push(Math.max(0, workMs[i]!))
    endedMs.push(atMs + workMs[i]!)
  }
  return { steps: stepsOfOne(tookMs, endedMs), found }
}

/**
 * Latencies under arrivals (ms, ascending), in their order, into `latencyMs`: Infinity for those
 * that found `places` there.
 */
export function serveBySharing(
  cores: number,
  places: number,
  arrivalsMs: Float64Array,
  workMs: (arrivedMs: number) => number,
  latencyMs: Float64Array,
): void {
  /**
   * Of those that are there, from `head` to `tail`, ascending: what everyone present will have been
   * given when each leaves.
   */
  const leavesAt = new Float64Array(arrivalsMs.length)
  const requests = new Int32Array(arrivalsMs.length)
  let head = 0
  let tail = 0
  let now = 0
  let given = 0
  const serveUntil = (untilMs: number) => {
    for (; head < tail; head++) {
      const speed = Math.min(1, cores / (tail - head))
      const leftMs = (leavesAt[head]! - given) / speed
      if (now + leftMs > untilMs) {
        given += (untilMs - now) * speed
        break
      }
      now += leftMs
      given = leavesAt[head]!
      latencyMs[requests[head]!] = now - arrivalsMs[requests[head]!]!
    }
    now = untilMs
  }
  for (let i = 0; i < arrivalsMs.length; i++) {
    const atMs = arrivalsMs[i]!
    serveUntil(atMs)
    if (tail - head >= places) {
      latencyMs[i] = Number.POSITIVE_INFINITY
      continue
    }
    const until = given + workMs(atMs)
    let place = tail++
    for (; place > head && leavesAt[place - 1]! > until; place--) {
      leavesAt[place] = leavesAt[place - 1]!
      requests[place] = requests[place - 1]!
    }
    leavesAt[place] = until
    requests[place] = i
  }
  serveUntil(Number.POSITIVE_INFINITY)
}
