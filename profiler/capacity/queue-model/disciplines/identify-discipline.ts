/**
 * By which way of serving the twin is a queue that is known: in batches, by workers, on shared
 * cores; or steps alone.
 */
import type { LoadRun } from '../../../model/load-run.ts'
import type { Batching } from '../batching.ts'
import { joinSteps, type Steps, type ObservedRun } from '../../service-log/service-log.ts'
import { largestBatch, servesBatches } from '../queue-model.ts'
import { batchesSeen } from './identify-batching.ts'
import { stagesSeen } from './identify-two-stages.ts'
import { servesOutOfTurn, type workersSeen } from './workers.ts'
import type { WorkersSeen } from '../service-discipline.ts'

interface SeenBeside {
  /** Of a server that refuses more requests than so many. */
  readonly places: number | undefined
  /** Steps of the closed loops. */
  readonly ofLoops: readonly Steps[]
  readonly idleMs: number
  /** Answers within so much of one another left together. */
  readonly togetherMs: number
}

interface Asked extends SeenBeside {
  readonly windows: readonly ObservedRun[]
  readonly loops: readonly LoadRun[]
  readonly workersOf: typeof workersSeen
}

/**
 * What was answered last of a window: an estimate is made to plan by, and once more, of the same
 * windows, at the end.
 */
const answered = new WeakMap<
  ObservedRun,
  { readonly asked: Asked; readonly seen: WorkersSeen | undefined }
>()

/**
 * What was seen of a server whose way of serving the windows show. Undefined of others: what they
 * showed of it are steps from one departure to the next.
 */
export function waySeen(
  windows: readonly ObservedRun[],
  loops: readonly LoadRun[],
  beside: SeenBeside,
  workersOf: typeof workersSeen,
): WorkersSeen | undefined {
  const asked = { ...beside, windows, loops, workersOf }
  const last = windows.at(-1)
  const before = last && answered.get(last)
  if (before !== undefined && isSame(before.asked, asked)) return before.seen
  const seen = lookedAt(asked)
  if (last !== undefined) answered.set(last, { asked, seen })
  return seen
}

const alike = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((value, i) => value === b[i])

const isSame = (a: Asked, b: Asked): boolean =>
  alike(
    [a.places, a.idleMs, a.togetherMs, a.workersOf],
    [b.places, b.idleMs, b.togetherMs, b.workersOf],
  ) &&
  alike(a.windows, b.windows) &&
  alike(a.loops, b.loops) &&
  alike(a.ofLoops, b.ofLoops)

function lookedAt({
  windows,
  loops,
  places,
  ofLoops,
  idleMs,
  togetherMs,
  workersOf,
}: Asked): WorkersSeen | undefined {
  // A full queue is the twin's that goes step by step.
  const batching =
    places === undefined
      ? batchesSeen(windows, loops, largestBatch(ofLoops), togetherMs, idleMs)
      : undefined
  if (batching !== undefined && tellsMore(batching, togetherMs)) return { ...batching, batching }
  const steps = joinSteps(windows.map((window) => window.steps))
  const stages =
    batching === undefined && places === undefined
      ? stagesSeen(windows, largestBatch(ofLoops), togetherMs, idleMs)
      : undefined
  if (stages !== undefined) return { ...stages, batching: stages }
  return servesBatches(steps) || servesOutOfTurn(steps) ? undefined : workersOf(windows, loops)
}

/** One that serves batch after batch, of all who are there, is its steps. */
const tellsMore = ({ workers, delayMs }: Batching, togetherMs: number): boolean =>
  workers > 1 || delayMs > togetherMs / 3
