import { cutAfter, percentileName, type Slo } from '../../model/slo.ts'
import { summarise } from '../../load/load-point.ts'
import type { LoadGenerator } from '../../model/load-generator.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Arrivals, Load, Phase } from '../../model/load.ts'
import type { CapacityOutcome, Measurement } from '../../model/measurement.ts'
import type { Target } from '../../model/target.ts'
import { between, unprovenPart, violatedAt } from '../capacity-bounds.ts'
import { caveatsOf } from '../caveats.ts'
import { resolveGenerator } from '../../load/resolve-generator.ts'
import { failuresOf, type Played, Session } from '../session.ts'
import { untilNoFaster } from '../warm-up.ts'
import { Agreement, type EarlierMeasurement, otherUnloaded } from './agreement.ts'
import { fillingS, RateEvidence, tooFewToProve } from './rate-evidence.ts'
import { seedsOfWindow, usualArrivals } from './typical-arrivals.ts'

export interface ConfirmOptions {
  readonly target: Target
  readonly slo: Slo
  /** The rate whose SLO is to be confirmed. */
  readonly rateRps: number
  /**
   * Lowest rate that is of use to the caller, who has something else to try below it. Absent: any.
   */
  readonly leastRps?: number
  /**
   * Where the SLO holds at the rate, or nearly, without proof: lowest rate that, proven, is worth
   * more. Absent: none.
   */
  readonly leastProvenRps?: number
  /**
   * Requests after which servers of this kind were steady (`requestsUntilSteady`); absent: as many
   * as may be needed.
   */
  readonly warmUpRequests?: number
  /**
   * Of the same configuration: where they disagree, with one another or with the windows of this
   * confirmation, there is no early end. Absent: there are none.
   */
  readonly earlier?: readonly EarlierMeasurement[]
  /**
   * Time at one rate after which it is decided by what was seen, default 30; a clear case takes a
   * third of it, one that could still be proven up to twice. Where measurements disagree all of it
   * is taken, spread over twice as much.
   */
  readonly seconds?: number
  /** Default Poisson. */
  readonly arrivals?: Arrivals
  readonly seed?: number
  readonly signal: AbortSignal
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: one of its own, closed at the end. A given one is left open. */
  readonly generator?: LoadGenerator
  /** Absent: an interrupted confirmation is lost. */
  readonly windows?: ConfirmationWindows
}

/** Windows that outlive the process: a confirmation that was interrupted goes on after them. */
export interface ConfirmationWindows {
  /** Those of the interrupted confirmation at the same rate, in the order they were played. */
  readonly earlier: readonly LoadRun[]
  /** Awaited after each window that was played. @param position its place among all, from 0 */
  keep(window: LoadRun, position: number): Promise<void>
}

/**
 * A measurement whose capacity is the highest rate tried that kept the SLO, 0 when none did. Its
 * points are the rates tried, all windows of one as one.
 */
export interface Confirmation extends Measurement {
  /** Whether the rate that was asked for is the one that held. */
  readonly held: boolean
  readonly rateRps: number
  /** All windows at the highest rate that held, else at the last one. */
  readonly point: LoadPoint
  /** Independent requests that say as much as theirs. */
  readonly nEff: number
  /** They prove the percentile at 95 % by themselves. */
  readonly proven: boolean
}

/** The idle latency is that of so many requests, where they come within a second. */
const idleRequests = 100
/**
 * Of the rate to be confirmed, as parts of the time at it: a server under load for the first time
 * compiles, allocates and fills its caches.
 */
const warmUpShare = 1 / 30
const mostWarmUps = 5
/**
 * A window of the warm-up is shorter where so many requests come sooner, down to a third: servers
 * get warm by their number.
 */
const warmingRequests = 2000
const leastOfWarmUp = 1 / 3
/** Parts of the rate that warm a server before all of it does. */
const ramp = [0.25, 0.5, 0.75]
const warmUpSeeds = 9000
/**
 * Looks at a rate in its time, twice as many once a window's end may decide; each window has at
 * least so many requests.
 */
const looks = 6
const leastRequests = 250
/** The part of its time that one usually takes. */
const usualShare = 0.5
/**
 * Rates tried one after the other, as parts of the first, until one holds. A window that misses the
 * SLO is cut as soon as that is certain.
 */
const lowerRates = [1, 0.95, 0.9, 0.82, 0.65, 0.45, 0.25, 0.1]
/** A rate that did not hold says the same of those this near below it. */
const nearest = 0.97
/**
 * What the machine spoils is tried next at so much of its rate: a machine that is too busy for one
 * is too busy for one just below.
 */
const calmer = 0.85
/**
 * Rates in a row whose windows were all spoilt before the confirmation is given up: lower ones take
 * ever longer, and say no more.
 */
const mostSpoiltRates = 3
/** Of what a server was seen to serve while it fell behind: rates beyond it are passed over. */
const servedMargin = 1.1
/**
 * At the first miss not below this part of the rate: a server and a generator that share a machine
 * serve far less while they fall behind than just before.
 */
const leastAtFirst = 0.9
/** Fewer answers than this tell no rate. */
const leastServed = 20
/** From a rate that holds without proof to the next that may be proven. */
const stepToProof = 0.93
/**
 * Where the rate that held lies further below the one that missed, those between are tried, up to
 * so many.
 */
const wide = 1.15
const mostBetween = 2

/**
 * Puts open load on a target at a rate it should keep, window after window until they prove that
 * the SLO holds there, or that it does not, or the time is up; where it does not, at lower rates
 * until one holds, and between that and the lowest that missed. Throws as `measureCapacity` does.
 */
export async function confirmCapacity(options: ConfirmOptions): Promise<Confirmation> {
  const generator = resolveGenerator(options.target, options.generator)
  try {
    return await new ConfirmationUnderWay(options, generator).run()
  } finally {
    if (options.generator === undefined) await generator.close()
  }
}

/**
 * What a confirmation usually takes at its rates, seconds (`npm run bench:confirmation`); where no
 * rate is known, as of one with requests enough.
 */
export const usualConfirmationS = (
  slo: Slo,
  seconds: number,
  rateRps: number | undefined,
): number =>
  Math.max(
    usualShare * seconds,
    rateRps !== undefined && tooFewToProve({ rateRps, seconds, slo }) ? fillingS(slo, seconds) : 0,
  )

/** A rate that was tried, by what was seen of it. */
interface Tried {
  readonly rps: number
  readonly evidence: RateEvidence
  readonly played: Played
}

class ConfirmationUnderWay {
  private readonly session: Session
  private readonly seconds: number
  private readonly seed: number
  private readonly points: LoadPoint[] = []
  /** Highest rate that held, by its proof. */
  private found: Tried | undefined
  /** Highest rate that held without proof. */
  private unproven: Tried | undefined
  /** The last rate at which a proof was given up. */
  private givenUpRps = Number.POSITIVE_INFINITY
  /** What was seen there, where it held and nothing is set aside. */
  private heldHigher: RateEvidence | undefined
  /** Lowest rate that the server missed. */
  private missedRps = Number.POSITIVE_INFINITY
  /** Lowest rate that was tried and did not hold for whatever reason. */
  private lowestRps = Number.POSITIVE_INFINITY
  /**
   * Where the rate that was tried last did not hold: the one that should be proven, by how far it
   * was over the limit.
   */
  private easierRps = Number.POSITIVE_INFINITY
  /** What the server answered in the last window that missed: it holds none far beyond. */
  private servedRps = Number.POSITIVE_INFINITY
  private misses = 0
  /** Rates in a row that the generator or the machine spoilt. */
  private spoiltRates = 0
  private windows = 0
  private betweens = 0
  private agreement: Agreement | undefined
  private lastTried: Tried | undefined
  private readonly pausedCaveats: string[] = []
  /** Windows of before the interruption that have yet to count, and their rates. */
  private readonly stored: { readonly rps: number; readonly run: LoadRun }[]

  constructor(
    private readonly options: ConfirmOptions,
    generator: LoadGenerator,
  ) {
    const { target, slo, signal, onStep = () => {}, seconds = 30, seed = 1 } = options
    this.session = new Session(target, slo, generator, signal, onStep)
    this.seconds = seconds
    this.seed = seed
    const earlier = (options.windows?.earlier ?? []).flatMap((run) =>
      run.load.kind === 'open' ? [{ rps: run.load.rateRps, run }] : [],
    )
    // Windows of another question begin at another rate.
    this.stored = earlier[0]?.rps === options.rateRps ? earlier : []
  }

  async run(): Promise<Confirmation> {
    const { session, seconds } = this
    const mostS = Math.min(1, seconds / 10)
    const warm = await session.closed(2, mostS / 3, 'warm-up', false)
    const idleS = Math.min(mostS, Math.max(mostS / 3, (2 * idleRequests) / warm.point.achievedRps))
    const first = await session.closed(1, idleS, 'idle')
    this.points.push(first.point)
    if (await session.died(warm.point)) return this.result('server-died', warm, first.run)
    await this.warmUp(first.point)
    const idle = await this.warmUnloaded(first, idleS)
    const { slo, rateRps, earlier = [] } = this.options
    this.agreement = new Agreement({ slo, rateRps, unloaded: idle.point, earlier })
    let last: Played = idle
    for (let next = this.nextRate(); next !== undefined; next = this.nextRate()) {
      // The idle latency, read anew, would move the next rate off the one of those windows.
      const rate = this.stored[0]?.rps ?? next
      const tried = await this.tried(rate, idle.point)
      while (this.stored[0]?.rps === rate) this.stored.shift()
      last = tried.played
      this.lastTried = tried
      this.points.push(last.point)
      if (await session.died(last.point)) return this.result('server-died', last, idle.run)
      this.learn(tried, idle.point)
    }
    this.found ??= this.unproven
    if (this.found !== undefined) return this.result('converged', this.found.played, idle.run)
    const outcome =
      this.spoiltRates === 0 ? 'budget' : last.point.disturbed ? 'disturbed' : 'generator-limit'
    return this.result(outcome, last, idle.run)
  }

  /** One request at a time once more where earlier ones took otherwise: the server was cold. */
  private async warmUnloaded(first: Played, idleS: number): Promise<Played> {
    const { session, options } = this
    if (otherUnloaded(options.earlier ?? [], first.point) === undefined) return first
    await session.settle(first.point)
    const again = await session.closed(1, idleS, 'idle')
    this.points.push(again.point)
    return again
  }

  private learn(tried: Tried, unloaded: LoadPoint): void {
    const { rps, evidence, played } = tried
    this.easierRps = evidence.easierRps(unloaded.p50Ms)
    this.spoiltRates = evidence.decision === 'spoilt' ? this.spoiltRates + 1 : 0
    if (evidence.decision === 'holds') {
      this.found = tried
      this.pausedCaveats.push(...evidence.caveats())
      return
    }
    if (evidence.decision === 'unproven') {
      this.givenUpRps = rps
      if (evidence.holds) this.unproven ??= tried
      this.heldHigher = evidence.holds && !evidence.hasPaused ? evidence : undefined
      return
    }
    this.lowestRps = rps
    this.unproven = undefined
    this.heldHigher = undefined
    if (evidence.decision === 'spoilt') return
    this.missedRps = rps
    this.misses++
    this.servedRps = servedRps(played.run)
  }

  /**
   * Parts of the rate first, where many are there at once, by Little's law: a cold server that gets
   * all of it is overloaded, and what it heaped up slows it for long.
   */
  private async warmUp(unloaded: LoadPoint): Promise<void> {
    const { session, options, seconds, seed, arrivals } = this
    const { rateRps, slo } = options
    const atOnce = (rateRps * unloaded.p50Ms) / 1000
    const durationS =
      Math.min(1, Math.max(leastOfWarmUp, warmingRequests / (rateRps * warmUpShare * seconds))) *
      warmUpShare *
      seconds
    let windows = 0
    const play = async (rps: number) => {
      // A warm-up may miss the SLO for a while: that is what it is for.
      const cut = cutAfter(slo, 0.3 * rps * durationS + 20)
      const load = {
        kind: 'open',
        rateRps: rps,
        durationS,
        arrivals,
        seed: seed + warmUpSeeds + windows++,
        cut,
      } as const
      const { run } = await session.play(load, 'warm-up', false)
      if (run.cutMs !== undefined) await session.settle(unloaded)
      return run
    }
    if (unloaded.stream === undefined && atOnce > 2)
      for (const share of ramp) await play(share * rateRps)
    const isSteady = () => session.requests >= (options.warmUpRequests ?? Number.POSITIVE_INFINITY)
    await untilNoFaster(mostWarmUps, async (window) =>
      window > 0 && isSteady() ? undefined : play(rateRps),
    )
  }

  /**
   * While nothing holds, ever lower ones, as far as they are of use; then those between, up to the
   * lowest that was tried and did not. After one that could not be proven, a little lower ones.
   */
  private nextRate(): number | undefined {
    const { found, unproven, lowestRps, givenUpRps, servedRps, spoiltRates, easierRps, options } =
      this
    const { rateRps, leastRps = 0 } = options
    if (found === undefined && givenUpRps < lowestRps) {
      const leastProvenRps = this.leastProvenRps(unproven?.rps ?? givenUpRps)
      const nextRps = stepToProof * givenUpRps
      if (nextRps >= leastProvenRps)
        return Math.min(nextRps, Math.max(easierRps, leastProvenRps, leastRps))
      if (unproven !== undefined) return undefined
    }
    if (found === undefined) {
      if (spoiltRates === mostSpoiltRates) return undefined
      const belowRps = Math.min(spoiltRates > 0 ? calmer * lowestRps : lowestRps, givenUpRps)
      const nextRps = spoiltRates > 0 ? belowRps : nearest * belowRps
      const lower = lowerRates
        .filter((part) => part * rateRps < belowRps)
        .map((part) => Math.min(part * rateRps, nextRps))
      const atFirstRps = this.misses > 1 ? 0 : leastAtFirst * rateRps
      const next =
        lower.find((rate) => rate <= Math.max(servedMargin * servedRps, atFirstRps)) ?? lower.at(-1)
      // A machine that is too busy for this one is too busy for another that would be better there.
      if (next === undefined || !(next === rateRps || next >= leastRps || spoiltRates > 0))
        return undefined
      return Math.min(next, Math.max(easierRps, atFirstRps, leastRps))
    }
    const highest = Math.min(lowestRps, givenUpRps, servedMargin * servedRps)
    return highest / found.rps > wide && Number.isFinite(highest) && this.betweens++ < mostBetween
      ? Math.sqrt(found.rps * highest)
      : undefined
  }

  /** Windows at a rate until they say enough of it. */
  private async tried(rps: number, unloaded: LoadPoint): Promise<Tried> {
    const { session, options, arrivals, seconds } = this
    const { slo } = options
    // Recorded times, and bursts of some length, are whole in one window alone.
    const parted = arrivals.kind !== 'trace' && arrivals.kind !== 'on-off'
    const fillsS = parted ? fillingS(slo, seconds) : 0
    const leastProvenRps = this.leastProvenRps(this.unproven?.rps ?? rps)
    const evidence = new RateEvidence({
      ...{ rateRps: rps, slo, seconds, fillsS, higher: this.heldHigher, agreement: this.agreement },
      leastProvenRps: leastProvenRps <= stepToProof * rps ? leastProvenRps : undefined,
    })
    for (;;) {
      const lookS = seconds / (evidence.mayEnd && evidence.played !== undefined ? 2 * looks : looks)
      const usualS = Math.min(seconds, Math.max(lookS, leastRequests / rps))
      const durationS = parted ? Math.max(usualS, evidence.wantsItFilled ? fillsS : 0) : seconds
      const cut = cutAfter(slo, evidence.overForMiss)
      const restS = evidence.restS(durationS)
      const firstSeed = this.seed + seedsOfWindow * this.windows++
      const load = { kind: 'open', rateRps: rps, durationS, arrivals, cut } as const
      const stored = this.takeStored(rps)
      if (!stored && restS > 0) await session.rest(restS)
      const played = stored ?? (await this.playWindow(usualArrivals(load, firstSeed), unloaded))
      evidence.add(played, restS)
      if (evidence.decision !== undefined || (await session.died(played.point)))
        return { rps, evidence, played: evidence.played ?? played }
    }
  }

  /** The next window of before the interruption, where that is at this rate. */
  private takeStored(rps: number): Played | undefined {
    const [next] = this.stored
    if (next?.rps !== rps) return undefined
    this.stored.shift()
    return this.session.take(next.run, 'confirm')
  }

  private async playWindow(load: Load, unloaded: LoadPoint): Promise<Played> {
    const { session, options, windows } = this
    const played = await session.play(load, 'confirm', false)
    await options.windows?.keep(played.run, windows - 1)
    if (played.run.cutMs !== undefined) await session.settle(unloaded)
    return played
  }

  /**
   * What is worth a proof beside a rate that holds without: after a miss the rate that was asked
   * for is no measure of that.
   */
  private leastProvenRps(holdsRps: number): number {
    const { leastProvenRps = Number.POSITIVE_INFINITY, rateRps } = this.options
    return this.missedRps > rateRps ? leastProvenRps : (leastProvenRps * holdsRps) / rateRps
  }

  private get arrivals(): Arrivals {
    return this.options.arrivals ?? { kind: 'poisson' }
  }

  private result(outcome: CapacityOutcome, { point }: Played, idle: LoadRun): Confirmation {
    const { session, found, missedRps, pausedCaveats, points } = this
    const { target, slo, rateRps } = this.options
    const held = outcome === 'server-died' ? undefined : found
    const heldRps = held?.rps ?? 0
    const proven = held?.evidence.proven ?? false
    const nEff = held?.evidence.nEff ?? 0
    const shown = held ?? this.lastTried
    const variation = shown && this.agreement?.variation(shown.rps, shown.evidence.spanS)
    return {
      outcome,
      ...(heldRps > 0
        ? between(heldRps * (proven ? 1 : unprovenPart), Math.max(heldRps, missedRps), heldRps)
        : between(0, outcome === 'budget' ? missedRps : Number.POSITIVE_INFINITY)),
      ...(held && { sure: held.evidence.sure }),
      ...(variation && { variation }),
      slo,
      idle: summarise(idle.latencyMs),
      saturationRps: point.achievedRps,
      points,
      requests: session.requests,
      seconds: session.totalS,
      detail: heldRps > 0 ? undefined : whyNot(outcome, point, missedRps),
      caveats: [
        ...caveatsOf(target, session),
        ...pausedCaveats,
        ...(heldRps > 0 && !proven ? [unproven(nEff, slo)] : []),
      ],
      held: heldRps === rateRps,
      rateRps,
      point,
      nEff,
      proven,
    }
  }
}

/**
 * Answers per second from the first to the end of a window; infinite where there are too few to
 * tell.
 */
function servedRps({ sentMs, latencyMs, seconds, cutMs = 1000 * seconds }: LoadRun): number {
  const answeredMs = sentMs.map((sent, i) => sent + latencyMs[i]!).filter((ms) => ms < cutMs - 0.01)
  if (answeredMs.length < leastServed) return Number.POSITIVE_INFINITY
  const first = answeredMs.reduce((a, b) => Math.min(a, b))
  return (1000 * (answeredMs.length - 1)) / (cutMs - first)
}

/** Why no rate held. */
function whyNot(outcome: CapacityOutcome, point: LoadPoint, missedRps: number): string {
  if (point.errors > 0) return failuresOf(point)
  if (outcome === 'generator-limit')
    return 'the load generator could not hold the rate: this machine was busy with something else'
  if (outcome === 'disturbed') return 'the machine was too busy in every window'
  return violatedAt(missedRps)
}

const unproven = (nEff: number, { percentile, classes }: Slo) =>
  `the confirmation held, but its ${Math.round(nEff)} effective requests${classes ? ' of the class with the fewest' : ''} do not prove ${percentileName(percentile)} at 95 % by themselves; a longer one may`
