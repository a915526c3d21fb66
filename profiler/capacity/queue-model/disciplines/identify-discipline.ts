/**
 * Identifies the service discipline of a server: dynamic batching, two stages, several workers or
 * shared cores. Where none is identified, the queue model samples the steps of the service log
 * instead.
 */
import type { LoadRun } from '../../../model/load-run.ts'
import {
  joinServiceLogs,
  type ObservedRun,
  type ServiceLog,
} from '../../service-log/service-log.ts'
import type { Batching } from '../batching.ts'
import { estimateMaxBatch, isBatchServer } from '../queue-model.ts'
import type { IdentifiedDiscipline } from '../service-discipline.ts'
import { identifyBatching } from './identify-batching.ts'
import { identifyTwoStages } from './identify-two-stages.ts'
import { type identifyWorkers, isSingleServerOutOfOrder } from './workers.ts'

interface DisciplineHints {
  /** System capacity K of a server that refuses; absent otherwise. */
  readonly systemCapacity: number | undefined
  /** Service logs of the closed loops. */
  readonly loopLogs: readonly ServiceLog[]
  /** Median unloaded latency. */
  readonly unloadedMs: number
  /** Departure coalescing tolerance, ms. */
  readonly coalescingMs: number
}

interface IdentificationInput extends DisciplineHints {
  readonly windows: readonly ObservedRun[]
  readonly loops: readonly LoadRun[]
  readonly workerIdentifier: typeof identifyWorkers
}

/**
 * Memoised by the last window: the search estimates the capacity to choose a rate, and once more at
 * its end from the same windows.
 */
const memoised = new WeakMap<
  ObservedRun,
  { readonly input: IdentificationInput; readonly discipline: IdentifiedDiscipline | undefined }
>()

/**
 * Identifies the service discipline from open windows and closed loops. Undefined where none fits,
 * or where the service log already describes the server completely.
 * @param workerIdentifier identifies workers or shared cores
 */
export function identifyDiscipline(
  windows: readonly ObservedRun[],
  loops: readonly LoadRun[],
  hints: DisciplineHints,
  workerIdentifier: typeof identifyWorkers,
): IdentifiedDiscipline | undefined {
  const input = { ...hints, windows, loops, workerIdentifier }
  const last = windows.at(-1)
  const before = last && memoised.get(last)
  if (before !== undefined && isSameInput(before.input, input)) return before.discipline
  const discipline = identify(input)
  if (last !== undefined) memoised.set(last, { input, discipline })
  return discipline
}

const haveSameItems = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((value, i) => value === b[i])

const isSameInput = (a: IdentificationInput, b: IdentificationInput): boolean =>
  haveSameItems(
    [a.systemCapacity, a.unloadedMs, a.coalescingMs, a.workerIdentifier],
    [b.systemCapacity, b.unloadedMs, b.coalescingMs, b.workerIdentifier],
  ) &&
  haveSameItems(a.windows, b.windows) &&
  haveSameItems(a.loops, b.loops) &&
  haveSameItems(a.loopLogs, b.loopLogs)

function identify({
  windows,
  loops,
  systemCapacity,
  loopLogs,
  unloadedMs,
  coalescingMs,
  workerIdentifier,
}: IdentificationInput): IdentifiedDiscipline | undefined {
  // For a server that refuses requests, only workers are identified: the models of batches and
  // stages have no system capacity.
  const batching =
    systemCapacity === undefined
      ? identifyBatching(windows, loops, estimateMaxBatch(loopLogs), coalescingMs, unloadedMs)
      : undefined
  if (batching !== undefined && isBeyondServiceLog(batching, coalescingMs))
    return { ...batching, batching }
  const log = joinServiceLogs(windows.map((window) => window.log))
  const stages =
    batching === undefined && systemCapacity === undefined
      ? identifyTwoStages(windows, estimateMaxBatch(loopLogs), coalescingMs, unloadedMs)
      : undefined
  // The logs and the batching parameters are one object: `stages` is both.
  if (stages !== undefined) return { ...stages, batching: stages }
  // One worker that takes all requests present as a batch, or one request out of order, does one
  // step at a time. Its service log holds those steps and their order; workers would misread them.
  return isBatchServer(log) || isSingleServerOutOfOrder(log)
    ? undefined
    : workerIdentifier(windows, loops)
}

/**
 * Whether batching parameters describe the server better than its service log. The log suffices for
 * a single worker without delay: each of its steps is a batch of all requests present.
 */
const isBeyondServiceLog = ({ workers, delayMs }: Batching, coalescingMs: number): boolean =>
  workers > 1 || delayMs > coalescingMs / 3
