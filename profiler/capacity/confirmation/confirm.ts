import { summarise } from '../../load/load-point.ts'
import { resolveGenerator } from '../../load/resolve-generator.ts'
import type { Arrivals, Load, Phase } from '../../model/load.ts'
import type { LoadGenerator } from '../../model/load-generator.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { CapacityOutcome, Measurement } from '../../model/measurement.ts'
import { percentileName, planEarlyCut, type Slo } from '../../model/slo.ts'
import type { Target } from '../../model/target.ts'
import { boundedBetween, describeViolation, unprovenShare } from '../capacity-bounds.ts'
import { collectCaveats } from '../caveats.ts'
import { describeErrors, type Played, Session } from '../session.ts'
import { warmUntilSteady } from '../warm-up.ts'
import { Agreement, type EarlierMeasurement, findOtherUnloaded } from './agreement.ts'
import { computeFillS, hasTooFewToProve, RateEvidence } from './rate-evidence.ts'
import { chooseTypicalArrivals, seedsPerWindow } from './typical-arrivals.ts'

export interface ConfirmOptions {
  readonly target: Target
  readonly slo: Slo
  /** Rate at which the SLO is to be confirmed. */
  readonly rateRps: number
  /** Lowest rate of use to the caller; below it another configuration is better. Absent: any. */
  readonly minRps?: number
  /** Lowest rate that is worth more, once proven, than `rateRps` without proof. Absent: none. */
  readonly minProvenRps?: number
  /**
   * Requests after which servers of this type were steady (`estimateRequestsUntilSteady`). Absent:
   * unknown.
   */
  readonly warmUpRequests?: number
  /**
   * Earlier measurements of the same configuration. Where measurements disagree, the confirmation
   * does not end early. Absent: none.
   */
  readonly earlier?: readonly EarlierMeasurement[]
  /**
   * Time at one rate after which the evidence decides, default 30. A clear case takes a third of
   * it; a case that may still be proven takes up to twice of it. Where measurements disagree, the
   * windows take all of it, spread over twice the time.
   */
  readonly seconds?: number
  /** Default Poisson. */
  readonly arrivals?: Arrivals
  readonly seed?: number
  readonly signal: AbortSignal
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: an own generator, closed at the end. A given one stays open. */
  readonly generator?: LoadGenerator
  /** Absent: an interrupted confirmation is lost. */
  readonly windows?: ConfirmationWindows
}

/** Windows that outlive the process: an interrupted confirmation resumes after them. */
export interface ConfirmationWindows {
  /** Windows of the interrupted confirmation at the same rate, in time order. */
  readonly earlier: readonly LoadRun[]
  /**
   * Awaited after each played window.
   * @param position index among all windows, from 0
   */
  keep(window: LoadRun, position: number): Promise<void>
}

/**
 * A measurement whose capacity is the highest rate that met the SLO, 0 without one. Its points are
 * the rates tried, with the windows of each concatenated.
 */
export interface Confirmation extends Measurement {
  /** Whether `rateRps` itself met the SLO. */
  readonly met: boolean
  readonly rateRps: number
  /** All windows at the highest rate that met the SLO, else at the last rate. */
  readonly point: LoadPoint
  /** Effective sample size of these windows. */
  readonly nEff: number
  /** Whether the windows alone prove the percentile at 95 %. */
  readonly proven: boolean
}

/** Requests that measure the unloaded latency, if they take a second at most. */
const unloadedRequests = 100
/**
 * Length of a warm-up window at the rate, as a share of its time: a server under its first load
 * compiles, allocates and fills caches.
 */
const warmUpShare = 1 / 30
const maxWarmUps = 5
/**
 * A warm-up window with this many requests is shorter, down to a third: the number of requests
 * warms a server, not the time.
 */
const warmUpRequestTarget = 2000
const minWarmUpShare = 1 / 3
/** Shares of the rate that warm a server before the full rate. */
const rampShares = [0.25, 0.5, 0.75]
/** Offset of the seeds of warm-up windows, apart from those of the confirmation. */
const warmUpSeeds = 9000
/**
 * Windows into which the time at a rate is split, and the minimum number of requests of each. After
 * the minimum time of a decision, windows are half as long.
 */
const windowsPerRate = 6
const minRequestsPerWindow = 250
/** Share of its time that a confirmation typically takes. */
const typicalTimeShare = 0.5
/**
 * Rates to try in this order, as shares of the first, until one meets the SLO. A window that
 * violates the SLO is cut as soon as that is certain.
 */
const lowerRates = [1, 0.95, 0.9, 0.82, 0.65, 0.45, 0.25, 0.1]
/**
 * The next rate is at most this factor on a violated one: closer ones would violate the SLO too.
 */
const nextLowerFactor = 0.97
/**
 * Factor to the next rate after a rate without valid windows: a host too busy for one rate is too
 * busy for a slightly lower one.
 */
const disturbedRetryFactor = 0.85
/**
 * Consecutive rates without a valid window that end the confirmation: lower rates take longer and
 * are disturbed as well.
 */
const maxInvalidRates = 3
/** Rates above this factor on the throughput of the overloaded server are skipped. */
const servedMargin = 1.1
/**
 * After the first violation, that throughput does not lower the rate below this share: where server
 * and generator share a host, an overloaded server answers far less than one just below overload.
 */
const minFirstRetryShare = 0.9
/** Minimum number of answers to estimate a throughput. */
const minServedAnswers = 20
/** Factor from a rate that met the SLO without proof to the next one that may be proven. */
const proofStepFactor = 0.93
/**
 * Where the violated rate exceeds the met one by more than this factor, up to `maxRefinements`
 * rates between them are tried.
 */
const minGapToRefine = 1.15
const maxRefinements = 2

/**
 * Confirms a rate by open load, window after window, until they prove that the SLO is met or
 * violated, or the time is up. After a violation it tries lower rates until one meets the SLO, then
 * rates between that and the lowest violated one. Throws as `measureCapacity` does.
 */
export async function confirmCapacity(options: ConfirmOptions): Promise<Confirmation> {
  const generator = resolveGenerator(options.target, options.generator)
  try {
    return await new ConfirmationRun(options, generator).run()
  } finally {
    if (options.generator === undefined) await generator.close()
  }
}

/**
 * Estimates the duration of a confirmation in seconds (`npm run bench:confirmation`). Without a
 * rate, requests are assumed to be enough.
 */
export const estimateConfirmationS = (
  slo: Slo,
  seconds: number,
  rateRps: number | undefined,
): number =>
  Math.max(
    typicalTimeShare * seconds,
    rateRps !== undefined && hasTooFewToProve({ rateRps, seconds, slo })
      ? computeFillS(slo, seconds)
      : 0,
  )

/** A rate that was tried, with its evidence. */
interface TriedRate {
  readonly rps: number
  readonly evidence: RateEvidence
  readonly played: Played
}

class ConfirmationRun {
  private readonly session: Session
  private readonly seconds: number
  private readonly seed: number
  private readonly points: LoadPoint[] = []
  /** Highest rate that met the SLO. */
  private found: TriedRate | undefined
  /** Highest rate that met the SLO without proof. */
  private unproven: TriedRate | undefined
  /** Last rate whose proof was given up. */
  private givenUpRps = Number.POSITIVE_INFINITY
  /** Evidence at that rate, if it met the SLO and no window is set aside for an outage. */
  private metHigher: RateEvidence | undefined
  /** Lowest rate that violated the SLO. */
  private violatedRps = Number.POSITIVE_INFINITY
  /** Lowest rate that violated the SLO or had no valid window. */
  private lowestRps = Number.POSITIVE_INFINITY
  /** Rate that should be provable, extrapolated from the percentile at the last tried rate. */
  private provableRps = Number.POSITIVE_INFINITY
  /** Throughput at the last violated rate, which bounds the next rates. */
  private servedRps = Number.POSITIVE_INFINITY
  private violations = 0
  /** Consecutive rates without a valid window. */
  private invalidRates = 0
  private windows = 0
  private refinements = 0
  private agreement: Agreement | undefined
  private lastTried: TriedRate | undefined
  private readonly outageCaveats: string[] = []
  /** Windows of the interrupted confirmation that have not been evaluated yet, with their rates. */
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
    // The windows of another confirmation begin at another rate.
    this.stored = earlier[0]?.rps === options.rateRps ? earlier : []
  }

  async run(): Promise<Confirmation> {
    const { session, seconds } = this
    const maxUnloadedS = Math.min(1, seconds / 10)
    const warm = await session.closed(2, maxUnloadedS / 3, 'warm-up', false)
    const idleS = Math.min(
      maxUnloadedS,
      Math.max(maxUnloadedS / 3, (2 * unloadedRequests) / warm.point.achievedRps),
    )
    const first = await session.closed(1, idleS, 'unloaded')
    this.points.push(first.point)
    if (await session.died(warm.point)) return this.result('server-died', warm, first.run)
    await this.warmUp(first.point)
    const unloaded = await this.warmUnloaded(first, idleS)
    const { slo, rateRps, earlier = [] } = this.options
    this.agreement = new Agreement({ slo, rateRps, unloaded: unloaded.point, earlier })
    let last: Played = unloaded
    for (let next = this.nextRate(); next !== undefined; next = this.nextRate()) {
      // The next rate depends on the unloaded latency, which was measured anew. Stored windows keep
      // the rate at which they were played.
      const rate = this.stored[0]?.rps ?? next
      const triedRate = await this.tryRate(rate, unloaded.point)
      while (this.stored[0]?.rps === rate) this.stored.shift()
      last = triedRate.played
      this.lastTried = triedRate
      this.points.push(last.point)
      if (await session.died(last.point)) return this.result('server-died', last, unloaded.run)
      this.record(triedRate, unloaded.point)
    }
    this.found ??= this.unproven
    if (this.found !== undefined) return this.result('converged', this.found.played, unloaded.run)
    const outcome =
      this.invalidRates === 0
        ? 'budget'
        : last.point.invalid
          ? 'host-interference'
          : 'generator-limit'
    return this.result(outcome, last, unloaded.run)
  }

  /**
   * Measures the unloaded latency again where it differs from earlier ones, as the server was cold.
   */
  private async warmUnloaded(first: Played, idleS: number): Promise<Played> {
    const { session, options } = this
    if (findOtherUnloaded(options.earlier ?? [], first.point) === undefined) return first
    await session.settle(first.point)
    const again = await session.closed(1, idleS, 'unloaded')
    this.points.push(again.point)
    return again
  }

  private record(triedRate: TriedRate, unloaded: LoadPoint): void {
    const { rps, evidence, played } = triedRate
    this.provableRps = evidence.provableRps(unloaded.p50Ms)
    this.invalidRates = evidence.decision === 'invalid' ? this.invalidRates + 1 : 0
    if (evidence.decision === 'met') {
      this.found = triedRate
      this.outageCaveats.push(...evidence.caveats())
      return
    }
    if (evidence.decision === 'unproven') {
      this.givenUpRps = rps
      if (evidence.isMet) this.unproven ??= triedRate
      this.metHigher = evidence.isMet && !evidence.hasOutage ? evidence : undefined
      return
    }
    this.lowestRps = rps
    this.unproven = undefined
    this.metHigher = undefined
    if (evidence.decision === 'invalid') return
    this.violatedRps = rps
    this.violations++
    this.servedRps = computeServedRps(played.run)
  }

  /**
   * Warms the server, by shares of the rate first where many requests are present at once (Little's
   * law). The full rate overloads a cold server, and its queue slows it for long.
   */
  private async warmUp(unloaded: LoadPoint): Promise<void> {
    const { session, options, seconds, seed, arrivals } = this
    const { rateRps, slo } = options
    const atOnce = (rateRps * unloaded.p50Ms) / 1000
    const durationS =
      Math.min(
        1,
        Math.max(minWarmUpShare, warmUpRequestTarget / (rateRps * warmUpShare * seconds)),
      ) *
      warmUpShare *
      seconds
    let windows = 0
    const play = async (rps: number) => {
      // A warm-up may violate the SLO for a while.
      const cut = planEarlyCut(slo, 0.3 * rps * durationS + 20)
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
      for (const share of rampShares) await play(share * rateRps)
    const isSteady = () => session.requests >= (options.warmUpRequests ?? Number.POSITIVE_INFINITY)
    await warmUntilSteady(maxWarmUps, async (window) =>
      window > 0 && isSteady() ? undefined : play(rateRps),
    )
  }

  /**
   * Chooses the next rate: lower useful ones until one meets the SLO, then rates up to the lowest
   * one that was not met. After a rate that could not be proven, slightly lower ones.
   */
  private nextRate(): number | undefined {
    const {
      found,
      unproven,
      lowestRps,
      givenUpRps,
      servedRps,
      invalidRates,
      provableRps,
      options,
    } = this
    const { rateRps, minRps = 0 } = options
    if (found === undefined && givenUpRps < lowestRps) {
      const minProvenRps = this.scaleMinProvenRps(unproven?.rps ?? givenUpRps)
      const nextRps = proofStepFactor * givenUpRps
      if (nextRps >= minProvenRps)
        return Math.min(nextRps, Math.max(provableRps, minProvenRps, minRps))
      if (unproven !== undefined) return undefined
    }
    if (found === undefined) {
      if (invalidRates === maxInvalidRates) return undefined
      const belowRps = Math.min(
        invalidRates > 0 ? disturbedRetryFactor * lowestRps : lowestRps,
        givenUpRps,
      )
      const nextRps = invalidRates > 0 ? belowRps : nextLowerFactor * belowRps
      const lower = lowerRates
        .filter((part) => part * rateRps < belowRps)
        .map((part) => Math.min(part * rateRps, nextRps))
      const minFirstRps = this.violations > 1 ? 0 : minFirstRetryShare * rateRps
      const next =
        lower.find((rate) => rate <= Math.max(servedMargin * servedRps, minFirstRps)) ??
        lower.at(-1)
      // A host too busy for this rate is too busy for another configuration that would win there.
      if (next === undefined || !(next === rateRps || next >= minRps || invalidRates > 0))
        return undefined
      return Math.min(next, Math.max(provableRps, minFirstRps, minRps))
    }
    const highest = Math.min(lowestRps, givenUpRps, servedMargin * servedRps)
    return highest / found.rps > minGapToRefine &&
      Number.isFinite(highest) &&
      this.refinements++ < maxRefinements
      ? Math.sqrt(found.rps * highest)
      : undefined
  }

  /** Plays windows at a rate until its evidence decides. */
  private async tryRate(rps: number, unloaded: LoadPoint): Promise<TriedRate> {
    const { session, options, arrivals, seconds } = this
    const { slo } = options
    // A trace or an on-off burst must not be split over several windows.
    const canSplit = arrivals.kind !== 'trace' && arrivals.kind !== 'on-off'
    const fillsS = canSplit ? computeFillS(slo, seconds) : 0
    const minProvenRps = this.scaleMinProvenRps(this.unproven?.rps ?? rps)
    const evidence = new RateEvidence({
      ...{ rateRps: rps, slo, seconds, fillsS, higher: this.metHigher, agreement: this.agreement },
      minProvenRps: minProvenRps <= proofStepFactor * rps ? minProvenRps : undefined,
    })
    for (;;) {
      const usualWindowS =
        seconds /
        (evidence.canEnd && evidence.played !== undefined ? 2 * windowsPerRate : windowsPerRate)
      const windowS = Math.min(seconds, Math.max(usualWindowS, minRequestsPerWindow / rps))
      const durationS = canSplit ? Math.max(windowS, evidence.needsFilling ? fillsS : 0) : seconds
      const cut = planEarlyCut(slo, evidence.overForViolation)
      const restS = evidence.restS(durationS)
      const firstSeed = this.seed + seedsPerWindow * this.windows++
      const load = { kind: 'open', rateRps: rps, durationS, arrivals, cut } as const
      const stored = this.takeStored(rps)
      if (!stored && restS > 0) await session.rest(restS)
      const played =
        stored ?? (await this.playWindow(chooseTypicalArrivals(load, firstSeed), unloaded))
      evidence.add(played, restS)
      if (evidence.decision !== undefined || (await session.died(played.point)))
        return { rps, evidence, played: evidence.played ?? played }
    }
  }

  /** Takes the next stored window, if it was played at this rate. */
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
   * Lowest rate worth a proof beside a rate met without one. After a violation, `rateRps` is no
   * longer the reference.
   */
  private scaleMinProvenRps(metRps: number): number {
    const { minProvenRps = Number.POSITIVE_INFINITY, rateRps } = this.options
    return this.violatedRps > rateRps ? minProvenRps : (minProvenRps * metRps) / rateRps
  }

  private get arrivals(): Arrivals {
    return this.options.arrivals ?? { kind: 'poisson' }
  }

  private result(outcome: CapacityOutcome, { point }: Played, unloaded: LoadRun): Confirmation {
    const { session, found, violatedRps, outageCaveats, points } = this
    const { target, slo, rateRps } = this.options
    const met = outcome === 'server-died' ? undefined : found
    const metRps = met?.rps ?? 0
    const proven = met?.evidence.proven ?? false
    const nEff = met?.evidence.nEff ?? 0
    const shown = met ?? this.lastTried
    const variation = shown && this.agreement?.variation(shown.rps, shown.evidence.spanS)
    return {
      outcome,
      ...(metRps > 0
        ? boundedBetween(
            metRps * (proven ? 1 : unprovenShare),
            Math.max(metRps, violatedRps),
            metRps,
          )
        : boundedBetween(0, outcome === 'budget' ? violatedRps : Number.POSITIVE_INFINITY)),
      ...(met && { confidence: met.evidence.confidence }),
      ...(variation && { variation }),
      slo,
      unloaded: summarise(unloaded.latencyMs),
      saturationRps: point.achievedRps,
      points,
      requests: session.requests,
      seconds: session.totalS,
      detail: metRps > 0 ? undefined : explainFailure(outcome, point, violatedRps),
      caveats: [
        ...collectCaveats(target, session),
        ...outageCaveats,
        ...(metRps > 0 && !proven ? [describeUnproven(nEff, slo)] : []),
      ],
      met: metRps === rateRps,
      rateRps,
      point,
      nEff,
      proven,
    }
  }
}

/**
 * Answers per second from the first answer to the end of a window; Infinity with too few answers.
 */
function computeServedRps({ sentMs, latencyMs, seconds, cutMs = 1000 * seconds }: LoadRun): number {
  const answeredMs = sentMs.map((sent, i) => sent + latencyMs[i]!).filter((ms) => ms < cutMs - 0.01)
  if (answeredMs.length < minServedAnswers) return Number.POSITIVE_INFINITY
  const first = answeredMs.reduce((a, b) => Math.min(a, b))
  return (1000 * (answeredMs.length - 1)) / (cutMs - first)
}

/** Explains why no rate met the SLO. */
function explainFailure(outcome: CapacityOutcome, point: LoadPoint, violatedRps: number): string {
  if (point.errors > 0) return describeErrors(point)
  if (outcome === 'generator-limit')
    return 'the load generator could not sustain the rate: this machine was busy with other work'
  if (outcome === 'host-interference') return 'other work on this machine disturbed every window'
  return describeViolation(violatedRps)
}

const describeUnproven = (nEff: number, { percentile, classes }: Slo) =>
  `the SLO was met, but ${Math.round(nEff)} effective requests${classes ? ' of the class with the fewest' : ''} do not prove ${percentileName(percentile)} at 95 %; a longer confirmation may`
