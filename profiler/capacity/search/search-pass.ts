/** One search for the capacity by open load, with a twin of the server. */
import { rate } from '../../format.ts'
import { cutAfter, failsTooOften } from '../../model/slo.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import type { Arrivals } from '../../model/load.ts'
import type { CapacityOutcome } from '../../model/measurement.ts'
import { slowdownInWords, type slowdownSeen } from '../changes/slowdown.ts'
import { disagreements } from '../consistency-checks.ts'
import {
  becomingRarer,
  believedRps,
  contradicted,
  farBelow,
  lostBeside,
  servesAsLoops,
  shareOfLoops,
  withEvidence,
} from './reported-interval.ts'
import { disturbedThroughout, spoiltLoops } from '../host-interference.ts'
import type { Effort } from '../effort.ts'
import { Estimates } from './capacity-estimator.ts'
import { Evidence } from './evidence.ts'
import { bornOut } from '../expectation.ts'
import {
  atMost,
  between,
  halfWidthOf,
  missedByStalls,
  type Searched,
  unknownCapacity,
} from '../capacity-bounds.ts'
import { capacityWithin, rateLimitOf } from '../admission-limits/token-bucket.ts'
import { besideQuota, waitingShare, waitsForQuota } from '../admission-limits/cpu-quota.ts'
import type { WarmUpByNumber } from '../warm-up.ts'
import type { CapacityPosterior, capacityPosterior } from '../queue-model/posterior.ts'
import { throttledCapacity } from './quota-search.ts'
import { openingLoop, saturate } from '../saturation.ts'
import type { Session } from '../session.ts'
import { placesBetween } from '../service-log/service-log.ts'
import { largestBatch } from '../queue-model/queue-model.ts'
import { workersAtWork, type workersSeen } from '../queue-model/disciplines/workers.ts'

export interface OpenSearchOptions {
  readonly seed: number
  readonly capacityToBeatRps?: number
  /** What is believed of the capacity beforehand. */
  readonly expectedRps?: number
  /** What a server that refuses a closed loop was seen to answer: none is put on it then. */
  readonly refusesBeyondRps?: number
  /** Of as many connections as the search for the saturation begins with. */
  readonly warmUp?: WarmUpByNumber
  /**
   * Where the machine spoils the closed loops, there is no other search: its windows go on until
   * one misses, or the time is up.
   */
  readonly isLast?: boolean
}

/**
 * A narrow interval ends the search only after this share of the budget: what was not seen, as rare
 * stalls, cannot widen it.
 */
const leastOfBudget = 0.7
/** Share of a saturation to go on with when no window counted yet. */
const cautious = 0.7
/**
 * A saturation below this share of what is to be beaten ends a race: open load gets more out of
 * some servers than a closed loop, but not so much more.
 */
const certainlyBelow = 0.75
const planning = { requests: 6000, longest: 30_000, replicates: 4 }
/**
 * Windows below the interval, each at this share of the one before, that look for a rate that holds
 * where none has yet.
 */
const lower = 0.9
const mostLower = 6
/**
 * Share of its speed that a server may still gain in as long again as half of its time under load,
 * to be taken as warm.
 */
const stillToGain = 0.02
/** Times that a server which got faster, or slower, is searched anew. */
const mostAnew = 3
/** Further windows of a server whose last one may have got slower. */
const mostSlowing = 2

/**
 * One search: saturation by short closed loops, a sweep over rates to learn the server's twin, then
 * windows where the twin puts the capacity, until its interval is narrow enough or the time is up.
 * A rate is a lower bound only where an open window held at it.
 */
export class OpenSearch {
  private readonly evidence: Evidence
  private readonly estimates: Estimates
  private saturationRps: number
  private posterior: CapacityPosterior | undefined
  private anew = 0
  /** A closed loop that the server refused: it tells how many requests it takes in. */
  private refusing: LoadRun | undefined
  /** Share of the time for which closed loops wait for its computing time. */
  private waits = 0
  private played = 0
  /**
   * It ended while the server still got faster, too slowly for one window to be told from the next.
   */
  cold = false
  /** It ended as nothing that it saw says how much more the server does. */
  outgrown = false
  private loopsSpoilt = false
  private dared: 'held' | 'missed' | undefined

  constructor(
    private readonly session: Session,
    private readonly effort: Effort,
    private readonly idle: LoadPoint,
    private readonly options: OpenSearchOptions,
    posteriorOf: typeof capacityPosterior,
    workersOf: typeof workersSeen,
    slowdownOf: typeof slowdownSeen,
  ) {
    this.evidence = new Evidence(session.slo, idle.p50Ms, slowdownOf)
    this.estimates = new Estimates(
      session,
      this.evidence,
      idle.p50Ms,
      options.seed,
      posteriorOf,
      workersOf,
    )
    this.saturationRps = options.refusesBeyondRps ?? idle.achievedRps
  }

  async run(): Promise<Searched> {
    const { effort, session, evidence } = this
    const early = await this.saturated()
    if (early !== undefined) return early
    // The shortest budget has room for the sweep and one window.
    const searchS = Math.max(effort.budgetS, 2 * effort.windowS)
    const windowS = Math.max(effort.windowS, searchS / effort.windows)
    const sweep = {
      kind: 'sweep',
      fromRps: 0.4 * this.saturationRps,
      toRps: 1.15 * this.saturationRps,
    } as const
    const swept = await this.learn(
      0.775 * this.saturationRps,
      Math.min(windowS, searchS / 2),
      sweep,
    )
    if (swept !== undefined) return swept
    for (let steady = 0; ; steady++) {
      this.estimate('planned')
      if (this.outgrewLoops && !this.options.isLast) return this.outgrew()
      const lost = await this.lost(windowS)
      if (lost !== undefined) return lost
      const spent = session.spentS + 0.5 * windowS > effort.budgetS
      const enoughS = this.asExpected() ? 0 : leastOfBudget * effort.budgetS
      const seenEnough =
        evidence.windows.length > 1 &&
        !this.posterior?.stalls &&
        this.servesAsLoops() &&
        session.spentS >= enoughS
      if ((seenEnough && this.halfWidth() < effort.precision) || (steady > 0 && spent))
        return this.ended()
      const failed = await this.learn(
        this.nextRate(),
        Math.min(windowS, Math.max(0.5 * windowS, effort.budgetS - session.spentS)),
      )
      if (failed !== undefined) return failed
    }
  }

  /** The server does more than closed loops got, which the machine spoilt, and no window missed. */
  private get outgrewLoops(): boolean {
    return (
      this.loopsSpoilt &&
      this.posterior?.beyondReach === true &&
      !Number.isFinite(this.evidence.missedRps)
    )
  }

  /**
   * The saturation, which is part of the warm-up and not taken from the budget; an outcome where it
   * tells enough.
   */
  private async saturated(): Promise<Searched | undefined> {
    const { session, effort } = this
    const { capacityToBeatRps: toBeatRps = 0, expectedRps, refusesBeyondRps, warmUp } = this.options
    if (refusesBeyondRps === undefined) {
      const found = await saturate(session, effort, this.saturationRps, {
        expectedRps,
        warmedRps: warmUp?.achievedRps,
      })
      this.saturationRps = found.rps
      this.loopsSpoilt = found.disturbed
      this.refusing = found.refusing
      if (found.died) return this.result('server-died', session.causeOfDeath(found.point))
      if (
        !found.generatorLimited &&
        !found.disturbed &&
        found.rps * (1 + this.toGain()) < certainlyBelow * toBeatRps
      ) {
        const detail = `stopped early: saturated at ${rate(found.rps)}, far below the ${rate(toBeatRps)} needed to win`
        return { ...this.result('beaten', detail), ...atMost(found.rps / certainlyBelow) }
      }
      const opened = await session.connect(
        openingLoop(found, session.slo.limitMs, effort.saturationS),
      )
      if (opened !== undefined && failsTooOften(opened.point, session.slo))
        this.refusing = opened.run
      this.waits = waitingShare(session.loops)
      const throttled = await throttledCapacity(
        session,
        effort,
        this.idle,
        this.options,
        this.waits,
      )
      if (throttled !== undefined) return throttled
    }
    this.evidence.tellWorkers(
      workersAtWork(
        this.saturationRps,
        this.idle,
        largestBatch(this.evidence.stepsOfLoops(session.loops)),
      ),
    )
    session.startBudget()
    return undefined
  }

  /**
   * Where the twin puts the capacity; lower where a window there missed and none has held yet, but
   * not far below all others.
   */
  private nextRate(): number {
    const { evidence } = this
    const { failingRps, mostRps, heldRps, missedRps, leastRps } = evidence
    const wanted = this.posterior
      ? believedRps(this.posterior, evidence)
      : cautious * this.saturationRps
    const sought =
      heldRps > 0 || !Number.isFinite(missedRps)
        ? wanted
        : Math.min(this.posterior?.capacityCi90Rps[0] ?? wanted, lower * missedRps)
    const held = Math.max(leastRps, sought)
    if (this.posterior?.refuses) return Math.min(held, mostRps)
    const limit = Number.isFinite(failingRps) ? this.rateLimit() : undefined
    if (limit === undefined) return Math.min(held, 0.85 * failingRps, mostRps)
    const clean = capacityWithin(limit, this.session.slo.maxErrorRate).rateRps
    // The windows before have left nothing in it: below what flows in it fills.
    return Math.min(held, heldRps > 0 ? clean : lower * Math.min(clean, failingRps), mostRps)
  }

  /**
   * Plays one open window, and those in its place that the machine or a lone pause spoilt. A sweep
   * is no point of the load curve.
   */
  private async learn(
    rateRps: number,
    durationS: number,
    arrivals: Arrivals = { kind: 'poisson' },
  ): Promise<Searched | undefined> {
    const { session, evidence, idle, options } = this
    for (;;) {
      const cut = cutAfter(session.slo, Math.max(20, 0.3 * rateRps * durationS))
      const load = {
        kind: 'open',
        rateRps,
        durationS,
        arrivals,
        seed: options.seed + this.played++,
        cut,
      } as const
      const { run, point } = await session.play(load, 'search', arrivals.kind !== 'sweep')
      if (await session.died(point)) return this.result('server-died', session.causeOfDeath(point))
      if (run.cutMs !== undefined && options.refusesBeyondRps === undefined)
        await session.settle(idle)
      if (session.silent) return this.result('server-died', session.causeOfDeath(session.silent))
      const verdict = evidence.add(run, point, arrivals.kind !== 'sweep')
      if ((verdict === 'faster' || verdict === 'slower') && this.anew < mostAnew) {
        this.anew++
        session.startBudget()
      }
      if (verdict !== 'again') return undefined
      if (evidence.disturbed)
        return this.posterior && evidence.heldRps > 0
          ? this.concluded()
          : this.disturbed(disturbedThroughout)
      session.forgive(run.elapsedS)
    }
  }

  /**
   * What it ends as where it has lost. One that the twin alone has far below what it had to beat,
   * and nobody expected there, is asked for more than that first.
   */
  private async lost(windowS: number): Promise<Searched | undefined> {
    const beaten = this.beaten()
    if (beaten === undefined) return undefined
    const { evidence, dared, options } = this
    const { capacityToBeatRps: toBeatRps = 0 } = options
    const daringRps = Math.min(evidence.mostRps, farBelow * beaten.capacityCi90Rps[1])
    if (
      daringRps >= toBeatRps ||
      dared === 'missed' ||
      evidence.missedRps <= toBeatRps ||
      this.asExpected()
    )
      return beaten
    if (dared !== undefined) return undefined
    const failed = await this.learn(daringRps, windowS)
    if (failed !== undefined) return failed
    this.dared = evidence.heldRps > beaten.capacityCi90Rps[1] ? 'held' : 'missed'
    this.estimate('planned')
    return this.lost(windowS)
  }

  /**
   * One window alone may have been disturbed: it takes two to give a configuration up, or one that
   * shows what was expected, and none that held the rate it had to beat.
   */
  private beaten(): Searched | undefined {
    const { posterior, evidence } = this
    const { capacityToBeatRps: toBeatRps = 0, expectedRps = toBeatRps } = this.options
    const fewest = expectedRps < toBeatRps && this.asExpected() ? 1 : 2
    if (
      posterior === undefined ||
      evidence.windows.length < fewest ||
      posterior.below(toBeatRps) <= 0.98 ||
      this.outgrewLoops
    )
      return undefined
    const boundRps = Math.max(posterior.capacityCi90Rps[1], evidence.surelyHeldRps)
    if (
      contradicted(posterior, evidence) ||
      boundRps >= toBeatRps ||
      boundRps * (1 + this.toGain()) >= toBeatRps
    )
      return undefined
    const detail = `stopped early: cannot reach the ${rate(toBeatRps)} needed to win`
    return {
      ...this.result('beaten', detail),
      ...atMost(Math.max(boundRps, missedByStalls(posterior, evidence.missedRps, toBeatRps))),
    }
  }

  private async ended(): Promise<Searched> {
    const { effort, evidence } = this
    // Only a window that held is a lower bound: where none has, rates fall until one does. One that
    // may have got slower is seen again.
    for (
      let tries = 0;
      (evidence.heldRps === 0 && tries < mostLower) || (evidence.slowing && tries < mostSlowing);
      tries++
    ) {
      const failed = await this.learn(this.nextRate(), effort.windowS)
      if (failed !== undefined) return failed
      if (evidence.slowed < 1 || evidence.slowing) this.estimate('planned')
    }
    return this.concluded()
  }

  /** The last estimate, and what it is worth. */
  private async concluded(): Promise<Searched> {
    const { effort, evidence } = this
    this.estimate('last')
    const { posterior } = this
    if (!posterior?.refuses && this.failsBelow(posterior?.capacityRps ?? Number.POSITIVE_INFINITY))
      return this.boundedByErrors()
    if (posterior === undefined || posterior.capacityRps > evidence.mostRps)
      return {
        ...this.result(
          'generator-limit',
          'the load generator could not hold the rate: the server may do more',
        ),
        ...this.atLeastHeld(),
      }
    if (this.outgrewLoops) return this.outgrew()
    await this.options.warmUp?.lookAgain()
    const change = evidence.change > 1 ? evidence.change : 1 + this.toGain()
    this.cold = change > 1 + stillToGain
    if (this.cold) return this.unsettled(change)
    if (evidence.heldRps === 0)
      return {
        ...this.result('budget', 'no open window held the SLO'),
        ...between(0, Math.min(evidence.missedRps, posterior.capacityCi90Rps[1])),
      }
    if (evidence.slowing || evidence.slowed < 1) return this.slower()
    const refused = posterior.refuses ? undefined : this.refusedSomehow(posterior)
    if (refused !== undefined) return refused
    const narrow =
      this.halfWidth() < 2 * effort.precision &&
      !posterior.fading &&
      !contradicted(posterior, evidence) &&
      shareOfLoops(posterior, this.session.fastestLoop) === undefined
    return this.result(
      narrow ? 'converged' : 'budget',
      posterior.refuses
        ? (this.failingFrom() ?? 'requests are refused once its queue is full')
        : undefined,
    )
  }

  private unsettled(change: number): Searched {
    const percent = ((change - 1) * 100).toFixed(0)
    const seen = this.evidence.change > 1
    const how = seen
      ? `its last window was served ${percent} % faster than those before it`
      : `${percent} % in half of the time it took so far`
    return {
      ...this.result('unsettled', `still speeding up: ${how}`),
      ...this.atLeastHeld(),
      change,
    }
  }

  /**
   * What a server that still gets faster would gain in half of its time under load, as a share of
   * its speed.
   */
  private toGain(): number {
    return (
      (Math.max(this.evidence.speedUpPerS, this.options.warmUp?.gainPerS ?? 0) *
        this.session.totalS) /
      2
    )
  }

  /** The figure is that of the server as it is now, if it gets no slower still. */
  private slower(): Searched {
    const { slowing, slowed } = this.evidence
    return { ...this.result('unsettled', slowdownInWords(slowed, slowing)), change: slowed }
  }

  private atLeastHeld = () => {
    const { heldRps } = this.evidence
    return heldRps > 0 ? between(heldRps, Number.POSITIVE_INFINITY) : unknownCapacity
  }

  private disturbed(why: string): Searched {
    return { ...this.result('disturbed', why), ...unknownCapacity }
  }

  private outgrew(): Searched {
    this.outgrown = true
    return this.disturbed(spoiltLoops(this.saturationRps))
  }

  /** Whether requests fail at a rate, by windows below or by the limit that refusals tell of. */
  private failsBelow(rateRps: number): boolean {
    const { failingRps, cleanRps } = this.evidence
    if (!Number.isFinite(failingRps)) return false
    const limit = cleanRps > 0 ? this.rateLimit() : undefined
    return (
      Math.min(
        failingRps,
        limit === undefined
          ? failingRps
          : capacityWithin(limit, this.session.slo.maxErrorRate).rateRps,
      ) < rateRps
    )
  }

  private rateLimit = () => rateLimitOf([...this.session.loops, ...this.openedRuns()])

  /** Requests fail at rates whose latencies would do: a queue limit, a rate limit. */
  private boundedByErrors(): Searched {
    const { cleanRps, failingRps, heldRps, surelyHeldRps } = this.evidence
    const limit = cleanRps > 0 ? this.rateLimit() : undefined
    const claim = (low: number, high: number, rateRps = low) => {
      const narrow = high - low < 4 * this.effort.precision * rateRps
      return {
        ...this.result(
          rateRps > 0 ? (narrow ? 'converged' : 'budget') : 'errors',
          this.failingFrom(),
        ),
        ...between(low, high, rateRps),
      }
    }
    if (limit === undefined)
      return claim(this.evidence.heldBelow(failingRps), Math.max(failingRps, surelyHeldRps))
    // It also explains windows that failed below the capacity: they began with what the ones before
    // had left.
    const { rateRps, ci90Rps } = capacityWithin(limit, this.session.slo.maxErrorRate)
    const low = Math.min(ci90Rps[0], heldRps)
    return claim(low, Math.max(low, ci90Rps[1]), Math.max(low, rateRps))
  }

  /**
   * Requests were refused, neither by a full queue nor by a limit that is known: windows in which
   * none was do not tell from which rate on a few are. The interval reaches down to what a queue
   * would let in that is full with as few as were there at refusals.
   */
  private refusedSomehow({
    capacityRps,
    capacityCi90Rps: [low, high],
  }: CapacityPosterior): Searched | undefined {
    const runs = [...this.session.loops, ...this.openedRuns()].filter(({ errorKinds }) =>
      Object.keys(errorKinds).some((kind) => kind !== 'timeout'),
    )
    const [least] = placesBetween(runs) ?? []
    // A bucket refuses those who find the server idle as well.
    if (least === undefined || (least < 2 && rateLimitOf(runs) !== undefined)) return undefined
    const leastRps =
      least > 1
        ? this.estimates.withPlaces(least, this.effort.twin, this.saturationRps).capacityCi90Rps[0]
        : 0
    const detail =
      'requests are refused under overload, and not by a full queue or a limit that is known: from which rate on is not'
    return {
      ...this.result('budget', detail),
      ...between(Math.min(low, leastRps, this.evidence.heldRps), high, capacityRps),
    }
  }

  /** Runs of open load, and the closed loop that was refused. */
  private openedRuns(): LoadRun[] {
    const runs = this.evidence.windows.map(({ run }) => run)
    return this.refusing === undefined ? runs : [this.refusing, ...runs]
  }

  private failingFrom(): string | undefined {
    const { failingRps } = this.evidence
    return Number.isFinite(failingRps)
      ? `requests fail from ${failingRps.toFixed(1)} per second on, before they get slow`
      : undefined
  }

  private result(outcome: CapacityOutcome, detail?: string): Searched {
    const { evidence, posterior, saturationRps, session } = this
    const runs = evidence.windows.map(({ run }) => run)
    const caveats = [...disagreements(runs, session.slo.limitMs), ...evidence.caveats()]
    if (posterior?.fading) caveats.push(becomingRarer)
    if (this.waits > 0) caveats.push(waitsForQuota(this.waits))
    const share = posterior && shareOfLoops(posterior, session.fastestLoop)
    if (share !== undefined) caveats.push(lostBeside(share))
    const capacity =
      posterior === undefined || outcome === 'server-died'
        ? this.atLeastHeld()
        : withEvidence(posterior, evidence)
    return { outcome, ...capacity, saturationRps, detail, caveats }
  }

  private estimate(how: 'planned' | 'last'): void {
    const { windows } = this.evidence
    const play = how === 'last' ? this.effort.twin : planning
    if (windows.length === 0) this.posterior = undefined
    else
      this.posterior = besideQuota(
        this.estimates[how](this.openedRuns(), play, this.saturationRps),
        this.waits,
      )
  }

  private servesAsLoops(): boolean {
    return this.posterior !== undefined && servesAsLoops(this.posterior, this.saturationRps)
  }

  /** Whether what was believed beforehand is what the windows show. */
  private asExpected(): boolean {
    return bornOut(this.options.expectedRps, this.posterior?.capacityRps)
  }

  /** Half the width of the interval, as a share of the capacity; Infinity without one. */
  private halfWidth(): number {
    return this.posterior === undefined ? Number.POSITIVE_INFINITY : halfWidthOf(this.posterior)
  }
}
