/** What the open windows of a search have shown so far. */
import {
  failsTooOften,
  keeps,
  keepsSurely,
  longestLimitMs,
  type Slo,
  withoutTimeouts,
} from '../../model/slo.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Load } from '../../model/load.ts'
import { slowdownSeen } from '../changes/slowdown.ts'
import { changeOfSteps } from '../changes/speed-change.ts'
import { speedUpPerS } from '../changes/speed-up.ts'
import { disturbances, disturbedMs, type Spans } from '../host-interference.ts'
import { type Pause, pausesOf } from '../outage-spans.ts'
import type { Batching } from '../queue-model/batching.ts'
import { departuresTogetherMs, joinSteps, noSteps, type Steps, stepsOf, type ObservedRun } from '../service-log/service-log.ts'
import { servesBatches } from '../queue-model/queue-model.ts'
import { batchServices } from '../queue-model/disciplines/identify-batching.ts'
import { servicesInOrder } from '../queue-model/disciplines/workers.ts'
import type { WorkersSeen } from '../queue-model/service-discipline.ts'

/**
 * A window that the machine spoilt is played again, up to so many times, and all of them together
 * up to so many.
 */
const mostRepeats = 3
const mostRepeatsInAll = 6
/** Speed over that of the first window from which on a server that got slower is as fast again. */
const asBefore = 0.95
/** Share of the lowest rate so far, a sweep's first one too, below which none is asked for. */
const deepest = 0.5
/**
 * Requests of a window that would show a rate a quarter beyond the capacity: far more are over the
 * limit there than are allowed.
 */
const fewestTelling = 100
/** And of one at twice the capacity, where one in five at least is over. */
const fewestTellingTwice = 20
const limitsToTell = 4
/** Share to go on with of a rate that the generator could not hold. */
const cautious = 0.7

/**
 * What is to become of a window: it counts; another is to be played in its place; it shows another
 * server than the windows before it, which are dropped.
 */
type Verdict = 'counts' | 'again' | 'faster' | 'slower'

/** A window that counts, and what it says of its rate. */
interface Counted {
  readonly window: ObservedRun
  readonly point: LoadPoint
  readonly steady: boolean
}

export class Evidence {
  private counted: Counted[] = []
  /** Highest rate that a steady open window was seen to be served at. */
  servedRps = 0
  /**
   * Highest steady rate whose open window kept the SLO, and the highest whose window kept it with
   * room to spare.
   */
  heldRps = 0
  surelyHeldRps = 0
  /** Lowest steady rate whose window missed it. */
  missedRps = Number.POSITIVE_INFINITY
  /**
   * Lowest steady rate at which too many requests failed, and highest one at which they did not.
   */
  failingRps = Number.POSITIVE_INFINITY
  cleanRps = 0
  /**
   * Lowest rate to ask for next, 0 before the first: a few requests at a rate far below all others
   * tell nothing of those between.
   */
  leastRps = 0
  /** What the generator can be asked for, as far as it could not hold what it was. */
  mostRps = Number.POSITIVE_INFINITY
  /**
   * Speed at the last window over that of those before it, where it was faster; 1 where it was not.
   */
  change = 1
  /** Speed now over that of the first window, as far as the server got slower, and faster again. */
  slowed = 1
  /** It may be getting slower: only the end of the last window is, and another has to tell. */
  slowing = false
  /**
   * Workers that serve one request each in the order of arrival, as far as they are known: twice in
   * a row as many were told.
   */
  workers: Pick<WorkersSeen, 'workers' | 'besideMs'> | undefined
  private toldWorkers: number | undefined
  /** How it puts batches together that wait for one another. */
  batching: Batching | undefined
  private everSlower = false
  /** Windows in a row that the machine spoilt, and all of them. */
  private spoiltInARow = 0
  private spoilt = 0
  private playedMs = 0
  private stalledMs = 0
  /** A window with one pause longer than the limit, set aside until there is a second. */
  private paused: (Counted & { readonly pause: Pause }) | undefined
  private pausesSeen = 0
  private readonly loopSteps = new Map<LoadRun, Steps>()
  private readonly leastDisturbanceMs: number

  constructor(
    private readonly slo: Slo,
    private readonly idleMs: number,
    private readonly slowdownOf = slowdownSeen,
  ) {
    this.leastDisturbanceMs = Math.max(10, 0.1 * slo.limitMs)
  }

  /** Answers within so much of one another left together. */
  get togetherMs(): number {
    return departuresTogetherMs(this.idleMs)
  }

  /**
   * By how many workers requests seem to be served, of late. Whose number changes from one window
   * to the next is served otherwise: its service times hang on the load.
   */
  tellWorkers(told: Pick<WorkersSeen, 'workers' | 'besideMs'> | undefined): void {
    const { toldWorkers = told?.workers } = this
    this.workers = told?.workers === toldWorkers ? told : undefined
    this.toldWorkers = told?.workers
  }

  /**
   * What teaches the twin: open load alone. A closed loop waits for its own answers, which idles
   * the stages of a server that works on several batches at once.
   */
  get windows(): ObservedRun[] {
    return this.counted.map(({ window }) => window)
  }

  /** The machine spoilt every window that was played of late, and those in their place. */
  get disturbed(): boolean {
    return (
      this.spoiltInARow > 0 && (this.spoiltInARow > mostRepeats || this.spoilt > mostRepeatsInAll)
    )
  }

  /** Counts the time that the machine disturbed of a run, open or closed. */
  countDisturbed(run: LoadRun): Spans {
    const spans = disturbances(run, this.leastDisturbanceMs)
    this.playedMs += 1000 * run.elapsedS
    this.stalledMs += disturbedMs(spans)
    return spans
  }

  /** Steps of closed loops. */
  stepsOfLoops(loops: readonly LoadRun[]): Steps[] {
    return loops.map((loop) => {
      const known =
        this.loopSteps.get(loop) ??
        stepsOf(loop, this.togetherMs, disturbances(loop, this.leastDisturbanceMs))
      this.loopSteps.set(loop, known)
      return known
    })
  }

  /** Takes in an open window. A sweep has no one rate. */
  add(run: LoadRun, point: LoadPoint, steady: boolean): Verdict {
    this.leastRps = Math.min(
      this.leastRps || Number.POSITIVE_INFINITY,
      deepest * lowestOf(run.load),
    )
    if (run.latencyMs.length < 0.97 * run.planned || run.generatorCores > 0.95) {
      this.mostRps = Math.min(this.mostRps, (cautious * run.latencyMs.length) / run.seconds)
      return 'counts'
    }
    const served = asServed(run)
    const disturbed = this.countDisturbed(run)
    const window = { run: served, disturbed, steps: stepsOf(served, this.togetherMs, disturbed) }
    if (disturbedMs(disturbed) > 500 * run.elapsedS || point.disturbed) {
      if (steady && run.cutMs === undefined && keeps(point, this.slo)) {
        // What holds in spite of it holds. How fast the server is it does not tell.
        this.rate({ window, point, steady })
        return 'counts'
      }
      this.spoiltInARow++
      this.spoilt++
      return 'again'
    }
    this.spoiltInARow = 0
    const pauses = pausesOf(served, this.slo.limitMs)
    this.pausesSeen += pauses.length
    if (this.pausesSeen === 1 && pauses.length === 1) {
      this.paused = { window, point, steady, pause: pauses[0]! }
      return 'again'
    }
    if (pauses.length > 0 && this.paused !== undefined) {
      // It came back: the server pauses now and then, and its figure has it.
      const { paused } = this
      this.paused = undefined
      this.learn(paused)
    }
    return this.learn({ window, point, steady })
  }

  private learn(counted: Counted): Verdict {
    const { steps } = counted.window
    this.rate(counted)
    if (steps.present.length === 0) return 'counts'
    const before = this.counted
    this.change =
      before.length > 0
        ? Math.max(1, changeOfSteps(joinSteps(before.map(({ window }) => window.steps)), steps))
        : 1
    if (this.change > 1) {
      this.counted = [counted]
      this.missedRps = Number.POSITIVE_INFINITY
      this.slowing = false
      const speed = this.slowed * this.change
      this.slowed = speed > asBefore ? 1 : speed
      return 'faster'
    }
    this.counted.push(counted)
    const slowdown = this.slowdownOf(this.comparable())
    this.slowing = slowdown !== undefined && slowdown.from === this.counted.length
    if (slowdown === undefined || this.slowing) return 'counts'
    this.slowed *= slowdown.speed
    this.everSlower = true
    this.onlySince(slowdown.from)
    return 'slower'
  }

  /**
   * What tells of the server's speed whatever its queue: steps of batches, else service times.
   * Empty where neither is known, as of shared cores.
   */
  private comparable(otherwise: readonly Steps[] = []): readonly Steps[] {
    const { windows, workers } = this
    const steps = windows.map((window) => window.steps)
    const inOrder = () => (workers === undefined ? undefined : servicesInOrder(windows, workers))
    const inBatches = () => this.batching && batchServices(windows, this.batching, this.togetherMs)
    const known =
      inBatches() ?? (servesBatches(joinSteps(steps)) ? steps : (inOrder() ?? otherwise))
    // What a server that refuses leaves to be served comes otherwise than what is sent.
    return known.map((of, i) =>
      failsTooOften(withoutTimeouts(this.counted[i]!.point), this.slo) ? noSteps : of,
    )
  }

  /** Share of its speed that the server gains per second, seen over its steady windows. */
  get speedUpPerS(): number {
    const known = this.comparable(this.windows.map(({ steps }) => steps))
    return speedUpPerS(known.filter((_, i) => this.counted[i]!.steady))
  }

  /**
   * Highest steady rate below this at which an open window of so many requests, and as long, kept
   * the SLO; 0 where none did.
   */
  heldBelow(rateRps: number, fewest = 0, leastS = 0): number {
    const tells = ({ requests, seconds }: LoadPoint) => requests >= fewest && seconds >= leastS
    const held = this.counted.filter(
      ({ window, point, steady }) =>
        steady && window.run.cutMs === undefined && tells(point) && keeps(point, this.slo),
    )
    return held.reduce(
      (most, { point }) => (point.offeredRps < rateRps ? Math.max(most, point.offeredRps) : most),
      0,
    )
  }

  /**
   * Lowest steady rate from which on every open window missed the SLO for certain, where there are
   * two: the capacity is below it. Infinity where there are not.
   */
  get surelyMissedRps(): number {
    const steady = this.counted
      .filter(({ steady }) => steady)
      .sort((a, b) => b.point.offeredRps - a.point.offeredRps)
    // Refusals are another limit than latency.
    const kept = steady.findIndex(
      ({ point }) =>
        keepsSurely(point, this.slo) !== false || failsTooOften(withoutTimeouts(point), this.slo),
    )
    const missed = kept < 0 ? steady : steady.slice(0, kept)
    return missed.length > 1 ? missed.at(-1)!.point.offeredRps : Number.POSITIVE_INFINITY
  }

  /**
   * Highest steady rate of a window that kept the SLO, below all that missed it, with requests
   * enough to have shown a rate far beyond the capacity; 0 without one.
   */
  get keptRps(): number {
    return this.heldBelow(this.missedRps, Math.max(fewestTelling, 1 / (1 - this.slo.percentile)))
  }

  /**
   * The same of a few requests, enough to have shown twice the capacity: they heaped up for more
   * than the limit.
   */
  get brieflyKeptRps(): number {
    return this.heldBelow(
      this.missedRps,
      fewestTellingTwice,
      (limitsToTell * longestLimitMs(this.slo)) / 1000,
    )
  }

  /**
   * Forgets the windows before: they were another server's, and so are the rates that they held.
   */
  private onlySince(window: number): void {
    this.counted = this.counted.slice(window)
    this.heldRps = this.surelyHeldRps = this.servedRps = this.cleanRps = 0
    this.missedRps = this.failingRps = Number.POSITIVE_INFINITY
    for (const kept of this.counted) this.rate(kept)
  }

  /** What a window says of its rate. */
  private rate({ window: { run }, point, steady }: Counted): void {
    const { slo } = this
    if (!steady) return
    this.servedRps = Math.max(this.servedRps, point.achievedRps)
    if (failsTooOften(withoutTimeouts(point), slo))
      this.failingRps = Math.min(this.failingRps, point.offeredRps)
    else if (run.cutMs === undefined) this.cleanRps = Math.max(this.cleanRps, point.offeredRps)
    if (keeps(point, slo) && run.cutMs === undefined) {
      this.heldRps = Math.max(this.heldRps, point.offeredRps)
      if (keepsSurely(point, slo) === true)
        this.surelyHeldRps = Math.max(this.surelyHeldRps, point.offeredRps)
    } else this.missedRps = Math.min(this.missedRps, point.offeredRps)
  }

  caveats(): string[] {
    const found: string[] = []
    if (this.everSlower)
      found.push('the server got slower while it was measured: what it did before that is left out')
    if (this.stalledMs >= 0.02 * this.playedMs && this.stalledMs > 0) {
      const share = ((100 * this.stalledMs) / this.playedMs).toFixed(0)
      const again = Math.min(this.spoilt, mostRepeatsInAll)
      const repeated =
        again > 0 ? `, and ${again} ${again === 1 ? 'window was' : 'windows were'} repeated` : ''
      found.push(
        `the machine kept the load generator waiting in ${share} % of the time; what it measured then was left out${repeated}`,
      )
    }
    if (this.paused !== undefined) {
      const { pause, point, window } = this.paused
      const who =
        window.disturbed.length > 0
          ? 'this machine kept the load generator waiting meanwhile'
          : 'the load generator ran on: the server paused, or waited'
      found.push(
        `nothing was answered for ${Math.round(pause.untilMs - pause.fromMs)} ms of a window at ${point.offeredRps.toFixed(1)} requests per second (${who}); it did not come back in the windows after it, and is left out`,
      )
    }
    return found
  }
}

const lowestOf = (load: Load): number =>
  load.kind !== 'open'
    ? Number.POSITIVE_INFINITY
    : load.arrivals.kind === 'sweep'
      ? load.arrivals.fromRps
      : load.rateRps

/**
 * The run as the server saw it: from actual sends. A send that the generator made late is a later
 * arrival, and no fault of the server.
 */
function asServed(run: LoadRun): LoadRun {
  const { lateMs } = run
  if (lateMs === undefined) return run
  return {
    ...run,
    sentMs: run.sentMs.map((at, i) => at + lateMs[i]!),
    latencyMs: run.latencyMs.map((ms, i) => ms - lateMs[i]!),
  }
}
