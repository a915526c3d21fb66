/**
 * Identifies the service discipline of a server: batches, workers or shared cores. Otherwise its
 * service log has to do.
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
  readonly unloadedMs: number
  /** Departure coalescing tolerance. */
  readonly coalescingMs: number
}

interface IdentificationInput extends DisciplineHints {
  readonly windows: readonly ObservedRun[]
  readonly loops: readonly LoadRun[]
  readonly workerIdentifier: typeof identifyWorkers
}

/**
 * Memoised by the last window: an estimate is made to plan by, and again at the end for the same
 * windows.
 */
const memoised = new WeakMap<
  ObservedRun,
  { readonly input: IdentificationInput; readonly discipline: IdentifiedDiscipline | undefined }
>()

/**
 * Identifies the service discipline from the windows. Undefined where none fits: the service log
 * describes the server then.
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
  // With a full queue, the model works on the service log.
  const batching =
    systemCapacity === undefined
      ? identifyBatching(windows, loops, estimateMaxBatch(loopLogs), coalescingMs, unloadedMs)
      : undefined
  if (batching !== undefined && addsToServiceLog(batching, coalescingMs))
    return { ...batching, batching }
  const log = joinServiceLogs(windows.map((window) => window.log))
  const stages =
    batching === undefined && systemCapacity === undefined
      ? identifyTwoStages(windows, estimateMaxBatch(loopLogs), coalescingMs, unloadedMs)
      : undefined
  if (stages !== undefined) return { ...stages, batching: stages }
  return isBatchServer(log) || isSingleServerOutOfOrder(log)
    ? undefined
    : workerIdentifier(windows, loops)
}

/**
 * A single worker without delay serves all requests present in one batch after the other, which the
 * service log describes.
 */
const addsToServiceLog = ({ workers, delayMs }: Batching, coalescingMs: number): boolean =>
  workers > 1 || delayMs > coalescingMs / 3
