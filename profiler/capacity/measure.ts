/** Measures the capacity of a target under an SLO. */
import { noLatency } from '../load/latency-summary.ts'
import { resolveGenerator } from '../load/resolve-generator.ts'
import type { Phase } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { Measurement } from '../model/measurement.ts'
import type { Slo } from '../model/slo.ts'
import type { Target } from '../model/target.ts'
import { collectCaveats } from './caveats.ts'
import { detectSlowdown } from './changes/speed-change.ts'
import { type Effort, efforts } from './effort.ts'
import { chooseDiscipline } from './queue-model/choose-discipline.ts'
import { estimatePosterior } from './queue-model/posterior.ts'
import { searchCapacity } from './search/capacity-search.ts'
import type { SideReport } from './search/search-context.ts'
import type { CapacitySearchOptions } from './search-options.ts'
import { Session } from './session.ts'

export interface CapacityOptions extends CapacitySearchOptions {
  readonly target: Target
  readonly slo: Slo
  readonly signal: AbortSignal
  /** Default 'standard'. */
  readonly effort?: keyof typeof efforts | Effort
  /** Seed of the arrivals, default 1. */
  readonly seed?: number
  /** Called with every window as it ends. */
  readonly onStep?: (point: LoadPoint, phase: Phase) => void
  /** Default: a new generator, which is closed at the end. A given one stays open. */
  readonly generator?: LoadGenerator
}

/**
 * Finds the capacity: warm-up, unloaded latency, then the search (search/capacity-search.ts). A
 * server that fails gives an outcome, not an error. Throws a GeneratorError for loads that cannot
 * be generated, and the signal's reason when it aborts.
 */
export async function measureCapacity(options: CapacityOptions): Promise<Measurement> {
  const { target, slo, signal, effort = 'standard', seed = 1, onStep = () => {} } = options
  const generator = resolveGenerator(target, options.generator)
  const session = new Session(target, slo, generator, signal, onStep)
  const report: SideReport = { unloaded: noLatency, warmUp: undefined, caveats: [] }
  try {
    const { caveats = [], ...result } = await searchCapacity({
      session,
      effort: typeof effort === 'object' ? effort : efforts[effort],
      options,
      seed,
      estimators: { estimatePosterior, chooseDiscipline, detectSlowdown },
      report,
    })
    return {
      ...result,
      slo,
      unloaded: report.unloaded,
      points: session.points,
      requests: session.requests,
      seconds: session.totalS,
      ...(report.warmUp && { warmUp: report.warmUp }),
      caveats: [...caveats, ...report.caveats, ...collectCaveats(target, session)],
    }
  } finally {
    if (options.generator === undefined) await generator.close()
  }
}
