/**
 * Whether the measurements of one configuration agree: the windows of a confirmation with one
 * another, and with those of earlier trials. Where they do not, a few seconds prove nothing of the
 * next minute.
 */
import { keeps, saysNothing, type Slo } from '../../model/slo.ts'
import { overShare } from '../../statistics/dependence.ts'
import type { LatencySummary, LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Load } from '../../model/load.ts'
import type { Measurement, Variation } from '../../model/measurement.ts'
import { changeOfSteps } from '../changes/speed-change.ts'
import { sharesDiffer } from '../consistency-checks.ts'
import type { Played } from '../session.ts'
import { departuresTogetherMs, type Steps, stepsOf } from '../service-log/service-log.ts'

/** What a window of open load showed. JSON-safe. */
interface WindowShare {
  readonly rateRps: number
  readonly seconds: number
  readonly n: number
  /** Requests that failed or took longer than the limit. */
  readonly over: number
  /** Independent requests that would say as much. */
  readonly nEff: number
  readonly met: boolean
}

type OpenLoad = Extract<Load, { kind: 'open' }>
type Unloaded = Pick<LatencySummary, 'requests' | 'p50Ms' | 'p90Ms'>

/** What an earlier measurement of the same configuration showed. JSON-safe. */
export interface EarlierMeasurement {
  readonly windows: readonly WindowShare[]
  /** One request at a time. */
  readonly unloaded: Unloaded
}

/** Speeds within this share of one another are one speed: half of what a confirmed rate has spare. */
const speedTolerance = 0.1
/** Of medians of unloaded latencies, ms: less is the jitter of clocks and schedulers. */
const minUnloadedChangeMs = 0.5
/** Standard errors beyond which medians differ. */
const minStandardErrors = 4
/** The standard error of a normal sample's median, by its 90th percentile. */
const errorByP90 = 1.2533 / 1.2816
/** A violation counts up to this part of the confirmed rate: 0.9 of the estimated capacity is asked. */
const maxViolatedShare = 1.1
/** Of the violated window's length, the shortest that is compared with it. */
const minComparedShare = 0.5
/** Planned rates differ by rounding alone. */
const rateRounding = 0.001

/** What a stored measurement contributes to the confirmation of its configuration. */
export function earlierMeasurementOf({ points, idle, slo }: Measurement): EarlierMeasurement {
  const { requests, p50Ms, p90Ms } = idle
  const windows = points.flatMap((point): WindowShare[] => {
    const { load, latencies } = point
    if (load.kind !== 'open' || load.arrivals.kind === 'sweep' || latencies === undefined) return []
    // Answers within the limit come back from their rate.
    const over = point.requests - Math.round(point.goodputRps * point.seconds)
    return windowOf(point, slo, { load, over, nEff: point.requests / latencies.dispersion })
  })
  return { windows, unloaded: { requests, p50Ms, p90Ms } }
}

/** None of a window that says nothing of the server. */
function windowOf(
  point: LoadPoint,
  slo: Slo,
  {
    load: { rateRps, durationS },
    ...counts
  }: { readonly load: OpenLoad } & Pick<WindowShare, 'over' | 'nEff'>,
): WindowShare[] {
  const met = !point.cut && keeps(point, slo)
  if (point.requests === 0 || (!met && saysNothing(point, slo))) return []
  return [{ rateRps, seconds: durationS, n: point.requests, ...counts, met }]
}

interface AgreementOptions {
  readonly slo: Slo
  /** The rate that is to be confirmed. */
  readonly rateRps: number
  /** One request at a time, before the windows; warm where it differed from earlier ones. */
  readonly unloaded: Unloaded
  readonly earlier: readonly EarlierMeasurement[]
}

export class Agreement {
  private readonly windows: WindowShare[]
  /** Of this confirmation, in order. */
  private readonly own: { readonly rateRps: number; readonly sloMs: number; speed: number }[] = []
  /** Of the first window at each rate. */
  private readonly firstSteps = new Map<number, Steps>()
  private readonly unloadedBefore: Unloaded | undefined
  private disturbed = 0
  private disagreement: string | undefined

  constructor(private readonly options: AgreementOptions) {
    const { earlier, unloaded } = options
    this.windows = earlier.flatMap(({ windows }) => windows)
    this.unloadedBefore = otherUnloaded(earlier, unloaded)
    this.compare()
  }

  /** A window that counts. */
  add({ run, point }: Played): void {
    const { slo } = this.options
    const { load } = run
    if (load.kind !== 'open') return
    const { rateRps } = load
    const { over, nEff } = overShare(run.latencyMs, slo.limitMs)
    this.windows.push(...windowOf(point, slo, { load, over, nEff }))
    this.own.push({ rateRps, sloMs: point.sloMs, speed: this.speedOf(run, rateRps) })
    this.compare()
  }

  /** A window that the machine made invalid. */
  addDisturbed(): void {
    this.disturbed++
  }

  get agrees(): boolean {
    return this.found.length === 0
  }

  /** How the windows at a rate varied. Undefined where all measurements agree, or there are none. */
  variation(rateRps: number, spanS: number): Variation | undefined {
    const own = this.own.filter((window) => window.rateRps === rateRps)
    const { found } = this
    if (found.length === 0 || own.length === 0) return undefined
    return {
      found,
      windows: own.length,
      spanS,
      sloMs: rangeOf(own.map(({ sloMs }) => sloMs)),
      speed: rangeOf(own.map(({ speed }) => speed)),
    }
  }

  /** What shows that measurements disagree, a sentence each. */
  private get found(): string[] {
    const found: string[] = []
    if (this.disagreement !== undefined) found.push(this.disagreement)
    const moved = [...this.firstSteps.keys()]
      .map((rate) => rangeOf(this.own.filter((w) => w.rateRps === rate).map((w) => w.speed)))
      .find(([slowest, fastest]) => fastest > (1 + speedTolerance) * slowest)
    if (moved !== undefined)
      found.push(
        `the server ran at ${moved[0].toFixed(2)} to ${moved[1].toFixed(2)} times the speed of its first window`,
      )
    if (this.unloadedBefore !== undefined) {
      const [before, now] = [this.unloadedBefore, this.options.unloaded]
      found.push(
        `one request at a time took ${before.p50Ms.toPrecision(3)} ms in an earlier measurement and ${now.p50Ms.toPrecision(3)} ms in this one`,
      )
    }
    if (this.disturbed > 0)
      found.push(
        `the machine was too busy in ${this.disturbed} more window${this.disturbed === 1 ? '' : 's'}`,
      )
    return found
  }

  /** Speed in a window over that in the first one at its rate. Streams serve many at once: 1. */
  private speedOf(run: LoadRun, rateRps: number): number {
    if (run.stream !== undefined) return 1
    const steps = stepsOf(run, departuresTogetherMs(this.options.unloaded.p50Ms))
    const first = this.firstSteps.get(rateRps)
    if (first === undefined) this.firstSteps.set(rateRps, steps)
    return first === undefined ? 1 : changeOfSteps(first, steps)
  }

  /**
   * A window that violated the SLO where others met it, at the same rate or a higher one. Each
   * begins with an empty server, so that a much shorter one that met it contradicts nothing.
   */
  private compare(): void {
    if (this.disagreement !== undefined) return
    const violated = this.windows.filter(
      ({ met, rateRps }) => !met && rateRps <= maxViolatedShare * this.options.rateRps,
    )
    for (const window of violated) {
      const met = this.windows.filter(
        (other) =>
          other.met &&
          other.rateRps >= (1 - rateRounding) * window.rateRps &&
          other.seconds >= minComparedShare * window.seconds,
      )
      if (met.length === 0 || !sharesDiffer(window, pooled(met))) continue
      const percent = ({ over, n }: { over: number; n: number }) =>
        `${((100 * over) / n).toFixed(1)} %`
      this.disagreement = `one window violated the SLO at ${window.rateRps.toFixed(1)} requests per second (${percent(window)} of requests over the limit), ${met.length === 1 ? 'another' : `${met.length} others`} met it at that rate or higher (${percent(pooled(met))})`
      return
    }
  }
}

/** The first of earlier unloaded latencies that differs from the present one. */
export const otherUnloaded = (
  earlier: readonly EarlierMeasurement[],
  now: Unloaded,
): Unloaded | undefined =>
  earlier.map(({ unloaded }) => unloaded).find((before) => mediansDiffer(before, now))

const pooled = (windows: readonly WindowShare[]) => ({
  n: windows.reduce((sum, { n }) => sum + n, 0),
  over: windows.reduce((sum, { over }) => sum + over, 0),
  nEff: windows.reduce((sum, { nEff }) => sum + nEff, 0),
})

const rangeOf = (values: readonly number[]): readonly [number, number] => [
  Math.min(...values),
  Math.max(...values),
]

/** Whether medians of unloaded latencies differ by more than the tolerance, jitter and chance. */
function mediansDiffer(before: Unloaded, now: Unloaded): boolean {
  const error = ({ requests, p50Ms, p90Ms }: Unloaded) =>
    (errorByP90 * (p90Ms - p50Ms)) / Math.sqrt(requests)
  const min = Math.max(
    speedTolerance * Math.min(before.p50Ms, now.p50Ms),
    minUnloadedChangeMs,
    minStandardErrors * Math.hypot(error(before), error(now)),
  )
  return Math.abs(before.p50Ms - now.p50Ms) > min
}
