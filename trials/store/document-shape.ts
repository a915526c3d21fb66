/** Whether a decoded document is what its row must hold: what a damaged byte made of it must not reach a computation. */
import { isRecord } from '../../profiler/plain-record.ts'

/** What is wrong with a trial's document, in words; undefined for one that can be used. `points` are its load curve. */
export function trialProblem(document: unknown, number: number, points: readonly unknown[]): string | undefined {
  if (!isRecord(document)) return 'it is no object'
  if (document.number !== number) return `it says that it is trial ${String(document.number).slice(0, 20)}`
  if (!isRecord(document.configuration) || !Object.values(document.configuration).every((v) => isNumber(v) || isText(v)))
    return 'its configuration is unreadable'
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
  if (missing) return `of its measurement, ${missing}`
  const broken = points.findIndex(
    (point) =>
      !isRecord(point) ||
      missingIn(point, { load: isRecord, offeredRps: isNumber, achievedRps: isNumber, sloMs: isNumber, sloCi95Ms: isInterval }),
  )
  return broken < 0 ? undefined : `its load point ${broken + 1} is unreadable`
}

type Check = (value: unknown) => boolean

const missingIn = (document: Readonly<Record<string, unknown>>, checks: Readonly<Record<string, Check>>): string | undefined => {
  const name = Object.keys(checks).find((key) => !checks[key]!(document[key]))
  return name && `${name} is missing or unreadable`
}
const isText: Check = (value) => typeof value === 'string'
const isNumber: Check = (value) => typeof value === 'number'
const isInterval: Check = (value) => Array.isArray(value) && value.length === 2 && value.every(isNumber)
