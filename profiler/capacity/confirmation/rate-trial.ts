/** Plays the windows of a confirmation at one rate until its evidence decides. */
import type { Load } from '../../model/load.ts'
import type { LoadPoint } from '../../model/load-point.ts'
import type { LoadRun } from '../../model/load-run.ts'
import { planEarlyCut } from '../../model/slo.ts'
import type { PlayedLoad, Session } from '../session.ts'
import type { MeasurementAgreement } from './agreement.ts'
import type { ConfirmationPlan } from './confirm-options.ts'
import {
  proofStepFactor,
  type RateHistory,
  scaleMinProvenRps,
  type TriedRate,
} from './next-rate.ts'
import { computeFillS } from './proof-time.ts'
import { RateEvidence } from './rate-evidence.ts'
import { chooseTypicalArrivals, seedsPerWindow } from './typical-arrivals.ts'

/**
 * Windows into which the time at a rate is split, and the minimum number of requests of each. After
 * the minimum time of a decision, windows are half as long. Assumed.
 */
const windowsPerRate = 6
const minRequestsPerWindow = 250

/** Tries rates, with the windows of an interrupted confirmation first. */
export class RateTrials {
  private windows = 0
  /** Windows of the interrupted confirmation that have not been evaluated yet, with their rates. */
  private stored: readonly { readonly rps: number; readonly run: LoadRun }[]

  constructor(
    private readonly session: Session,
    private readonly plan: ConfirmationPlan,
    private readonly unloaded: LoadPoint,
    private readonly agreement: MeasurementAgreement,
  ) {
    const earlier = (plan.windows?.earlier ?? []).flatMap((run) =>
      run.load.kind === 'open' ? [{ rps: run.load.rateRps, run }] : [],
    )
    // The windows of another confirmation begin at another rate.
    this.stored = earlier[0]?.rps === plan.rateRps ? earlier : []
  }

  /**
   * Tries a rate: that of the stored windows, if there are any, else `nextRps`. The two may differ,
   * because the choice depends on the unloaded latency, which was measured anew.
   */
  async try(nextRps: number, history: RateHistory): Promise<TriedRate> {
    const rps = this.stored[0]?.rps ?? nextRps
    const tried = await this.playUntilDecided(rps, history)
    const other = this.stored.findIndex((window) => window.rps !== rps)
    this.stored = other < 0 ? [] : this.stored.slice(other)
    return tried
  }

  private async playUntilDecided(rps: number, history: RateHistory): Promise<TriedRate> {
    const { session, plan, agreement } = this
    const { slo, seconds, arrivals } = plan
    // A trace or an on-off burst must not be split over several windows.
    const canSplit = arrivals.kind !== 'trace' && arrivals.kind !== 'on-off'
    const fillWindowS = canSplit ? computeFillS(slo, seconds) : 0
    const minProvenRps = scaleMinProvenRps(history, plan, history.unprovenRate?.rps ?? rps)
    const evidence = new RateEvidence({
      rateRps: rps,
      slo,
      seconds,
      fillWindowS,
      higher: history.higherEvidence,
      agreement,
      minProvenRps: minProvenRps <= proofStepFactor * rps ? minProvenRps : undefined,
    })
    for (;;) {
      const isShort = evidence.canEnd && evidence.played !== undefined
      const usualS = seconds / (isShort ? 2 * windowsPerRate : windowsPerRate)
      const windowS = Math.min(seconds, Math.max(usualS, minRequestsPerWindow / rps))
      const durationS = canSplit
        ? Math.max(windowS, evidence.needsFillWindow ? fillWindowS : 0)
        : seconds
      const cut = planEarlyCut(slo, evidence.maxFurtherViolations)
      const restS = evidence.computeRestS(durationS)
      const firstSeed = plan.seed + seedsPerWindow * this.windows++
      const load = { kind: 'open', rateRps: rps, durationS, arrivals, cut } as const
      const stored = this.takeStored(rps)
      if (!stored && restS > 0) await session.rest(restS)
      const played = stored ?? (await this.play(chooseTypicalArrivals(load, firstSeed)))
      evidence.add(played, restS)
      const { decision } = evidence
      if (decision !== undefined || (await session.hasDied(played.point)))
        return { rps, evidence, decision, played: evidence.played ?? played }
    }
  }

  /** Takes the next stored window, if it was played at this rate. */
  private takeStored(rps: number): PlayedLoad | undefined {
    const [next, ...others] = this.stored
    if (next?.rps !== rps) return undefined
    this.stored = others
    return this.session.addRun(next.run, 'confirm')
  }

  private async play(load: Load): Promise<PlayedLoad> {
    const { session, plan, windows, unloaded } = this
    const played = await session.play(load, 'confirm', false)
    await plan.windows?.store(played.run, windows - 1)
    if (played.run.cutMs !== undefined) await session.settle(unloaded)
    return played
  }
}
