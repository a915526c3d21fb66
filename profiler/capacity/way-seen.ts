/** By which way of serving the twin is a queue that is known: in batches, by workers, on shared cores; or steps alone. */
import type { LoadRun } from '../types.ts'
import { batchesSeen } from './batches-seen.ts'
import type { Batching } from './batching.ts'
import { longestSeen } from './longest-of.ts'
import type { ObservedRun } from './posterior.ts'
import { stagesSeen } from './stages-seen.ts'
import { joinSteps, type Steps } from './steps.ts'
import { largestBatch, servesBatches } from './twin.ts'
import { servesOutOfTurn, type WorkersSeen, type workersSeen } from './workers.ts'

interface SeenBeside {
  /** Of a server that refuses more requests than so many. */
  readonly places: number | undefined
  /** Steps of the closed loops. */
  readonly ofLoops: readonly Steps[]
  readonly idleMs: number
  /** Answers within so much of one another left together. */
  readonly togetherMs: number
}

/** What was seen of a server whose way of serving the windows show. Undefined of others: what they showed of it are steps from one departure to the next. */
export function waySeen(
  windows: readonly ObservedRun[],
  loops: readonly LoadRun[],
  { places, ofLoops, idleMs, togetherMs }: SeenBeside,
  workersOf: typeof workersSeen,
): WorkersSeen | undefined {
  // A full queue is the twin's that goes step by step.
  const batching = places === undefined ? batchesSeen(windows, loops, largestBatch(ofLoops), togetherMs, idleMs) : undefined
  if (batching !== undefined && tellsMore(batching, togetherMs)) return { ...batching, batching }
  const ofWindows = windows.map((window) => window.steps)
  const steps = joinSteps(ofWindows)
  const stages = batching === undefined && places === undefined ? stagesSeen(windows, largestBatch(ofLoops), togetherMs, idleMs) : undefined
  if (stages !== undefined) return { ...stages, batching: stages }
  const longest =
    places === undefined && servesBatches(joinSteps([...ofLoops, ...ofWindows]))
      ? longestSeen(ofWindows, ofLoops, largestBatch(ofLoops))
      : undefined
  if (longest !== undefined) return { ...longest, batching: longest }
  return servesBatches(steps) || servesOutOfTurn(steps) ? undefined : workersOf(windows, loops)
}

/** One that serves batch after batch, of all who are there, is its steps. */
const tellsMore = ({ workers, delayMs }: Batching, togetherMs: number): boolean => workers > 1 || delayMs > togetherMs / 3
