/** Plays the open windows of a pass. */
import type { Arrivals } from '../../model/load.ts'
import { planEarlyCut } from '../../model/slo.ts'
import type { Evidence } from './evidence.ts'
import type { ObservedServer, SearchContext } from './search-context.ts'

/**
 * Restarts of the time budget for a server that changed its speed: four budgets at most. Assumed.
 */
const maxRestarts = 3
/**
 * A window that violates the SLO is not cut before this share of its requests, and this number, is
 * over: the queue model needs them. Assumed.
 */
const minPlayedShare = 0.3
const minPlayedRequests = 20

/** Why no further window can be played. */
export type WindowEnd =
  | { readonly ended: 'server died'; readonly cause: string }
  | { readonly ended: 'all windows disturbed' }

export class WindowPlayer {
  private windowsPlayed = 0
  private restarts = 0

  constructor(
    private readonly context: SearchContext,
    private readonly server: ObservedServer,
    private readonly evidence: Evidence,
  ) {}

  /**
   * Plays a window, and repeats it while the evidence requires that: it was invalid, or had a first
   * outage. A sweep adds no point to the load curve, as it has no single rate.
   */
  async play(
    rateRps: number,
    durationS: number,
    arrivals: Arrivals = { kind: 'poisson' },
  ): Promise<WindowEnd | undefined> {
    const { evidence, server } = this
    const { session, seed } = this.context
    const steady = arrivals.kind !== 'sweep'
    const minPlayed = Math.max(minPlayedRequests, minPlayedShare * rateRps * durationS)
    for (;;) {
      const load = {
        kind: 'open',
        rateRps,
        durationS,
        arrivals,
        seed: seed + this.windowsPlayed++,
        cut: planEarlyCut(session.slo, minPlayed),
      } as const
      const { run, point } = await session.play(load, 'search', steady)
      if (await session.hasDied(point))
        return { ended: 'server died', cause: session.describeDeath(point) }
      if (run.cutMs !== undefined && server.refusesBeyondRps === undefined)
        await session.settle(server.unloaded.point)
      if (session.unresponsive)
        return { ended: 'server died', cause: session.describeDeath(session.unresponsive) }
      const verdict = evidence.add(run, point, steady)
      if ((verdict === 'faster' || verdict === 'slower') && this.restarts < maxRestarts) {
        this.restarts++
        session.startBudget()
      }
      if (verdict !== 'repeat') return undefined
      if (evidence.screen.isDisturbed) return { ended: 'all windows disturbed' }
      session.excludeFromBudget(run.elapsedS)
    }
  }
}
