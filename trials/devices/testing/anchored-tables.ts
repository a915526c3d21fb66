/**
 * Published latencies of servers, a few rows of each taken as its anchors and the others foretold
 * from them.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseCsv } from '../../../search/bench/recorded-tables.ts'
import { composedStepTimes } from '../../predictor/llm/testing/composed-steps.ts'
import { type Decoder, findArchitecture } from '../architecture.ts'
import type { LatencyRow } from '../calibration/published-tables.ts'
import { findGpu } from '../catalogue.ts'
import { type DeviceCall, predictDeviceLatency, predictGpuMemory } from '../device-model.ts'
import { findMigProfile } from '../mig.ts'
import { type BatchLatency, estimateFitError, fitServer, predictServerMs } from '../server-fit.ts'

/**
 * A row that was no anchor: measured, foretold by the device model alone, and by the anchored
 * server with its error.
 */
export interface Foretold {
  readonly measuredMs: number
  readonly unanchoredMs: number
  readonly anchoredMs: number
  readonly relativeError: number
}

/**
 * Every framework, GPU, precision, model and length that has at least three of the anchor batches.
 */
export function foretoldFrameworks(
  rows: readonly LatencyRow[],
  anchorBatches: readonly number[],
): Foretold[] {
  const groupOf = (r: LatencyRow) =>
    `${r.runtime} ${r.gpu.name} ${r.precision} ${r.architecture.name} ${r.sequenceLength}`
  return [...new Set(rows.map(groupOf))].flatMap((group) => {
    const own = rows.filter((row) => groupOf(row) === group)
    const isAnchor = (row: LatencyRow) => anchorBatches.includes(row.batch)
    const device = (row: LatencyRow) => predictDeviceLatency({ ...row, runtime: 'tensorrt' }).ms
    const anchors = own.filter(isAnchor)
    if (anchors.length < 3) return []
    const calibratedServer = {
      ...fitServer(anchors.map((row) => ({ ...row, deviceMs: device(row) }))),
      measuredOn: { gpu: own[0]!.gpu },
    }
    return own
      .filter((row) => !isAnchor(row))
      .map((row) => {
        const { ms, relativeError } = predictDeviceLatency({
          ...row,
          runtime: undefined,
          calibratedServer,
        })
        return {
          measuredMs: row.latencyMs,
          unanchoredMs: device(row),
          anchoredMs: ms,
          relativeError,
        }
      })
  })
}

/**
 * ParvaGPU's cells by whether they ran out of memory, and whether that is foreseen of a framework
 * of which nothing was measured.
 */
export function foretoldShortages(model: string): {
  readonly short: number
  readonly found: number
  readonly falseAlarms: number
} {
  const cells = parvaCells(model).map((cell) => {
    const call = parvaCall(model, cell.gpuSlices!, Number(cell.batchSize))
    const neededMiB = Number(cell.processes) * predictGpuMemory({ ...call, isEager: true }).mib
    return { short: Number(cell.infeasible) > 0, foretold: neededMiB > call.mig!.memoryMiB }
  })
  const count = (of: (cell: (typeof cells)[number]) => boolean) => cells.filter(of).length
  return {
    short: count(({ short }) => short),
    found: count(({ short, foretold }) => short && foretold),
    falseAlarms: count(({ short, foretold }) => !short && foretold),
  }
}

const sliceNames: Readonly<Record<string, string>> = {
  1: '1g.10gb',
  2: '2g.20gb',
  3: '3g.40gb',
  4: '4g.40gb',
  7: '7g.80gb',
}

/** @param slices of the tables */
export const parvaProfile = (slices: number | string): string => sliceNames[slices]!

/**
 * A server of ParvaGPU's tables (PyTorch on slices of an A100-80GB) as the device model is asked of
 * it; tf32 is what PyTorch convolves in there.
 */
export const parvaCall = (
  model: string,
  slices: number | string,
  batch: number,
  processes = 1,
): DeviceCall => {
  const gpu = findGpu('A100-80GB')
  const mig = findMigProfile(gpu, parvaProfile(slices))
  return { architecture: findArchitecture(model), gpu, mig, batch, processes, precision: 'tf32' }
}

/**
 * Measured on the whole GPU with two processes: four batches one at a time, and one batch in both
 * at once.
 */
const isParvaAnchor = ({ slices, processes, batch }: ParvaRow): boolean =>
  slices === 7 &&
  ((processes === 1 && [1, 4, 16, 64].includes(batch)) || (processes === 2 && batch === 16))

/** The server of a table, anchored on five of its cells. */
export function parvaAnchored(model: string) {
  const points = parvaRows(model).filter(isParvaAnchor)
  const fit = fitServer(
    points.map((p) => ({ ...p, deviceMs: predictDeviceLatency(parvaCall(model, 7, p.batch)).ms })),
  )
  const { gpu, mig } = parvaCall(model, 7, 1)
  return { ...fit, measuredOn: { gpu, mig } }
}

/** Every other cell of a model's table: other slices, batches, and processes side by side. */
export function foretoldProcesses(model: string): Foretold[] {
  const calibratedServer = parvaAnchored(model)
  return parvaRows(model)
    .filter((r) => !isParvaAnchor(r))
    .map((r) => {
      const call = parvaCall(model, r.slices, r.batch, r.processes)
      const { ms, relativeError } = predictDeviceLatency({ ...call, calibratedServer })
      const unanchoredMs = r.processes * predictDeviceLatency(call).ms
      return { measuredMs: r.latencyMs, unanchoredMs, anchoredMs: ms, relativeError }
    })
}

interface ParvaRow extends BatchLatency {
  readonly slices: number
  readonly processes: number
}

const parvaCells = (model: string) =>
  parseCsv(
    readFileSync(
      fileURLToPath(new URL(`../../../search/bench/tables/parvagpu/${model}.csv`, import.meta.url)),
      'utf8',
    ),
  )

/** The cells that served. */
const parvaRows = (model: string): ParvaRow[] =>
  parvaCells(model)
    .filter((row) => Number(row.infeasible) === 0)
    .map((row) => ({
      slices: Number(row.gpuSlices),
      batch: Number(row.batchSize),
      processes: Number(row.processes),
      latencyMs: Number(row.latencyMs),
    }))

/** Time between tokens of LLM servers by users, from the step of so many sequences. */
export function foretoldLlmServers(anchorUsers: readonly number[]): Foretold[] {
  const [, ...lines] = readFileSync(
    fileURLToPath(new URL('../tables/llm-servers.csv', import.meta.url)),
    'utf8',
  )
    .trim()
    .split(/\r?\n/)
  const rows = lines
    .map((line) => line.split(','))
    .filter(([model]) => model === 'llama-7b')
    .map((c) => ({
      gpu: c[1]!,
      gpus: Number(c[2]),
      users: Number(c[3]),
      itlMs: Number(c[11]),
      context: Number(c[13]) + Number(c[14]) / 2,
    }))
  const architecture = findArchitecture('llama-2-7b') as Decoder
  return [...new Set(rows.map((r) => `${r.gpu} x ${r.gpus}`))].flatMap((group) => {
    const own = rows.filter((r) => `${r.gpu} x ${r.gpus}` === group)
    const step = composedStepTimes({
      architecture,
      gpu: findGpu(own[0]!.gpu),
      precision: 'fp16',
      tensorParallel: own[0]!.gpus,
    })
    const deviceMs = ({ users, context }: (typeof own)[number]) =>
      step({ prefillTokens: 0, decodes: users, decodeContext: users * context })
    const isAnchor = (row: (typeof own)[number]) => anchorUsers.includes(row.users)
    const anchors = own.filter(isAnchor)
    if (anchors.length < 3) return []
    const fit = fitServer(
      anchors.map((row) => ({ batch: row.users, latencyMs: row.itlMs, deviceMs: deviceMs(row) })),
    )
    return own
      .filter((row) => !isAnchor(row))
      .map((row) => ({
        measuredMs: row.itlMs,
        unanchoredMs: deviceMs(row),
        anchoredMs: predictServerMs(fit.parameters, row.users, deviceMs(row)),
        relativeError: estimateFitError(fit, row.users, deviceMs(row)),
      }))
  })
}
