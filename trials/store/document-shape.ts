/**
 * Whether a decoded document is what its row must hold: what a damaged byte made of it must not
 * reach a computation.
 */
import { isRecord } from '../../profiler/plain-record.ts'
import type { Provenance } from '../types.ts'

const provenances: ReadonlySet<string> = new Set<Provenance>([
  'measured',
  'emulated',
  'simulated',
  'imported',
])

/**
 * What is wrong with a trial's document, in words; undefined for one that can be used. `points` are
 * its load curve.
 */
export function trialProblem(
  document: unknown,
  number: number,
  points: readonly unknown[],
): string | undefined {
  if (!isRecord(document)) return 'it is not an object'
  if (document.number !== number) return `its number is ${String(document.number).slice(0, 20)}`
  if (!isConfiguration(document.configuration)) return 'its configuration is unreadable'
  const missing = missingIn(document, { why: isText, startedAt: isText, seconds: isNumber })
  if (missing) return missing
  switch (document.state) {
    case 'complete':
      return measurementProblem(document.measurement, points)
    case 'infeasible':
      return missingIn(document, { reason: isText, detail: isText })
    case 'failed':
      return missingIn(document, { error: isText })
    default:
      return `its state is ${JSON.stringify(document.state)?.slice(0, 30)}`
  }
}

/** Whether a document is a trial of that number that was under way. */
export const isRunningTrial = (document: unknown, number: number): boolean =>
  isRecord(document) &&
  document.state === 'running' &&
  document.number === number &&
  isConfiguration(document.configuration) &&
  missingIn(document, { why: isText, startedAt: isText }) === undefined

/** Whether a document is a window of load, request by request. */
export const isWindow = (document: unknown): boolean =>
  isRecord(document) &&
  missingIn(document, {
    load: isRecord,
    errorKinds: isRecord,
    sentMs: isTimes,
    latencyMs: isTimes,
    planned: isNumber,
    seconds: isNumber,
    elapsedS: isNumber,
  }) === undefined

function measurementProblem(measurement: unknown, points: readonly unknown[]): string | undefined {
  if (!isRecord(measurement)) return 'its measurement is missing'
  const missing = missingIn(measurement, {
    capacityRps: isNumber,
    capacityCi90Rps: isInterval,
    slo: isRecord,
    idle: isRecord,
    saturationRps: isNumber,
    caveats: Array.isArray,
  })
  if (missing) return `in its measurement, ${missing}`
  const broken = points.findIndex(
    (point) =>
      !isRecord(point) ||
      missingIn(point, {
        load: isRecord,
        offeredRps: isNumber,
        achievedRps: isNumber,
        sloMs: isNumber,
        sloCi95Ms: isInterval,
      }),
  )
  return broken < 0 ? undefined : `its load point ${broken + 1} is unreadable`
}

/**
 * What is wrong with an experiment's row and its specification, in words; undefined for one that
 * can be used.
 */
export function experimentProblem(row: object, spec: unknown): string | undefined {
  if (!isRecord(spec)) return 'its specification is not an object'
  const wrong = missingIn(
    { ...row },
    {
      ...{ id: isText, name: isText, created_at: isText, seed: Number.isFinite },
      provenance: (value) => provenances.has(String(value)),
    },
  )
  return wrong && `its ${wrong}`
}

/** What is wrong with a calibration's document, in words; undefined for one that can be used. */
export function calibrationProblem(document: unknown, name: unknown): string | undefined {
  if (!isRecord(document)) return 'it is not an object'
  if (document.name !== name) return `its name is ${JSON.stringify(document.name)?.slice(0, 80)}`
  const missing = missingIn(document, {
    ...{ name: isText, server: isText, model: isText, device: isText, measuredAt: isText },
    ...{ configuration: isConfiguration, points: Array.isArray, memory: Array.isArray },
  })
  if (missing) return missing
  const { points, memory, saturation } = document as {
    points: unknown[]
    memory: unknown[]
    saturation?: unknown
  }
  const positive: Check = (value) => isNumber(value) && Number.isFinite(value) && value > 0
  if (
    !points.every(
      (point) =>
        isRecord(point) &&
        !missingIn(point, { batch: positive, latencyMs: positive, processes: positive }),
    )
  )
    return 'one of its points is unreadable'
  if (
    saturation !== undefined &&
    !(isRecord(saturation) && !missingIn(saturation, { connections: positive, rps: positive }))
  )
    return 'its saturation measurement is unreadable'
  return memory.every(
    (one) => isRecord(one) && !missingIn(one, { batch: positive, gpuMemoryMiB: positive }),
  )
    ? undefined
    : 'one of its memory measurements is unreadable'
}

type Check = (value: unknown) => boolean

const missingIn = (
  document: Readonly<Record<string, unknown>>,
  checks: Readonly<Record<string, Check>>,
): string | undefined => {
  const name = Object.keys(checks).find((key) => !checks[key]!(document[key]))
  return name && `${name} is missing or unreadable`
}
const isText: Check = (value) => typeof value === 'string'
const isNumber = (value: unknown): value is number => typeof value === 'number'
const isConfiguration: Check = (value) =>
  isRecord(value) && Object.values(value).every((v) => isNumber(v) || isText(v))
const isTimes: Check = (value) => value instanceof Float64Array
const isInterval: Check = (value) =>
  Array.isArray(value) && value.length === 2 && value.every(isNumber)
