/**
 * The loop: suggest, launch, load-test, record; then confirm and recommend. One way, one
 * AbortSignal, one stream of events.
 */
import type { Recommendation } from '../../reports/recommendation/types.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../experiment/types.ts'
import { confirmAsNeeded } from './confirmation.ts'
import type { EventBody, StopReason, TuneEvent } from './events.ts'
import { outdatedReadings } from './observations.ts'
import type { LoopParts } from './parts.ts'
import { Search } from './search-phase.ts'
import { TrialLog } from './trial-log.ts'
import type { Ending } from './why-stop.ts'

export interface LoopResult extends Ending {
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
  /** Paths of the result files. */
  readonly files: readonly string[]
}

/**
 * Runs an experiment from wherever `earlier` trials left it.
 * @throws nothing for bad predictors, which are trials; store and sampler errors pass through after
 * all predictors have stopped.
 */
export async function runLoop(
  experiment: Experiment,
  parts: LoopParts,
  earlier: readonly FinishedTrial[],
  listener: (event: TuneEvent) => void,
  signal: AbortSignal,
): Promise<LoopResult> {
  const emit = (body: EventBody) =>
    listener({ ...body, at: new Date(parts.now()).toISOString() } as TuneEvent)
  const log = trialLogOf(experiment, parts, earlier)
  emit(startedEvent(experiment, parts, earlier.length, log.counted))
  const search = new Search(experiment, parts, log, emit, signal)
  const ending = await searchAndConfirm(experiment, parts, log, search, emit, signal)
  emit({ type: 'stopped', ...ending })
  const recommendation = parts.recommend(
    log.trials,
    ending.reason === 'failed' ? undefined : search.assessment,
  )
  await parts.store.finish(parts.experimentId, stateAfter(ending.reason), recommendation)
  let unwritten: unknown
  const files = await (ending.reason === 'interrupted'
    ? Promise.resolve([])
    : parts.write(recommendation, log.trials)
  ).catch((error: unknown) => {
    unwritten = error
    return []
  })
  emit({ type: 'recommended', recommendation, files })
  // What was found is stored and said first: a folder that cannot be written does not undo it.
  if (unwritten !== undefined) throw unwritten
  return { ...ending, recommendation, trials: log.trials, files }
}

/**
 * An interrupt ends it with what is there; any other error passes through once every predictor has
 * stopped.
 */
async function searchAndConfirm(
  experiment: Experiment,
  parts: LoopParts,
  log: TrialLog,
  search: Search,
  emit: (event: EventBody) => void,
  signal: AbortSignal,
): Promise<Ending> {
  try {
    search.takeUp()
    for (;;) {
      const ending = await search.run()
      if (!experiment.confirm || ending.reason === 'failed') return ending
      await confirmAsNeeded(experiment, parts, log, emit, signal)
      if (!search.goesOn()) return ending
    }
  } catch (error) {
    const kept = await search.abandon(error)
    if (!signal.aborted) throw error
    const justNow = kept > 0 ? `, ${kept} of them just now` : ''
    return {
      reason: 'interrupted',
      detail: `${log.trials.length} finished trials are saved${justNow}`,
    }
  }
}

function trialLogOf(
  { objective, parallel }: Experiment,
  parts: LoopParts,
  earlier: readonly FinishedTrial[],
): TrialLog {
  const { problem, progress } = parts
  return new TrialLog({
    objective,
    pricePerHour: problem.pricePerHour,
    earlier: parallel > 1 ? inOrderOfEnd(earlier) : earlier,
    progress,
    withheld: (trials) => new Set(outdatedReadings(trials)),
  })
}

/** The store has them by number, and of several at once a later one may end first. */
function inOrderOfEnd(trials: readonly FinishedTrial[]): readonly FinishedTrial[] {
  const endMs = ({ startedAt, seconds }: FinishedTrial) => Date.parse(startedAt) + 1000 * seconds
  return trials.toSorted((a, b) => endMs(a) - endMs(b))
}

const startedEvent = (
  experiment: Experiment,
  parts: LoopParts,
  resumedTrials: number,
  countedTrials: number,
): EventBody => ({
  type: 'experiment-started',
  experimentId: parts.experimentId,
  name: experiment.name,
  provenance: parts.provenance,
  seed: experiment.seed,
  slo: experiment.slo,
  maxTrials: Math.min(experiment.budget.maxTrials, parts.spaceSize),
  spaceSize: parts.spaceSize,
  notices: parts.notices,
  resumedTrials,
  countedTrials,
  confirmSeconds:
    experiment.confirm && parts.provenance !== 'simulated'
      ? experiment.load.confirmSeconds
      : undefined,
})

const stateAfter = (reason: StopReason): 'interrupted' | 'failed' | 'done' =>
  reason === 'interrupted' || reason === 'failed' ? reason : 'done'
