/** What the windows of a search say of the capacity, by the server's twin. */
import type { LoadRun } from '../../model/load-run.ts'
import { withinReach, withWhatIsLost } from './reported-interval.ts'
import type { Evidence } from './evidence.ts'
import type { CapacityPosterior, capacityPosterior, TwinPlay } from '../queue-model/posterior.ts'
import type { Session } from '../session.ts'
import { placesBetween, placesOf } from '../service-log/service-log.ts'
import { waySeen } from '../queue-model/disciplines/identify-discipline.ts'
import type { workersSeen } from '../queue-model/disciplines/workers.ts'

export class Estimates {
  constructor(
    private readonly session: Session,
    private readonly evidence: Evidence,
    private readonly idleMs: number,
    private readonly seed: number,
    private readonly posteriorOf: typeof capacityPosterior,
    private readonly workersOf: typeof workersSeen,
  ) {}

  /**
   * Where to look next. @param runs of open load, and refused loops @param saturationRps of closed
   * loops
   */
  planned(runs: readonly LoadRun[], play: TwinPlay, saturationRps: number): CapacityPosterior {
    return this.withPlaces(placesOf(runs), play, saturationRps)
  }

  /**
   * What the search ends with: where refusals came at more or fewer requests, the interval has
   * both.
   */
  last(runs: readonly LoadRun[], play: TwinPlay, saturationRps: number): CapacityPosterior {
    const places = placesOf(runs)
    const found = this.withPlaces(places, play, saturationRps)
    if (places === undefined) return found
    const others = (placesBetween(runs) ?? [])
      .filter((other) => other !== places)
      .map((other) => this.withPlaces(other, play, saturationRps))
    const ends = [found, ...others].map(({ capacityCi90Rps }) => capacityCi90Rps)
    return {
      ...found,
      capacityCi90Rps: [
        Math.min(...ends.map(([low]) => low)),
        Math.max(...ends.map(([, high]) => high)),
      ],
    }
  }

  /**
   * What the windows say, were it known to refuse more requests than so many; undefined: it refuses
   * none.
   */
  withPlaces(places: number | undefined, play: TwinPlay, saturationRps: number): CapacityPosterior {
    const { windows, servedRps, togetherMs } = this.evidence
    const { loops, slo } = this.session
    const ofLoops = this.evidence.stepsOfLoops(loops)
    const seen = waySeen(
      windows,
      loops,
      { places, ofLoops, idleMs: this.idleMs, togetherMs },
      this.workersOf,
    )
    this.evidence.batching = seen?.batching?.cores === undefined ? seen?.batching : undefined
    if (seen !== undefined && seen.batching === undefined)
      this.evidence.tellWorkers(seen.shared ? undefined : seen)
    const found = this.posteriorOf(windows, slo, play, this.seed, places, seen, ofLoops)
    const within = withinReach(found, Math.max(saturationRps, servedRps))
    return withWhatIsLost(within, this.session.fastestLoop)
  }
}
