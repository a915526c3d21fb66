/** Recognises the format of a log from a sample of its lines and the flags; it is never guessed. */

import { type TimeUnit, timeUnits } from '../../../../config/values/time-unit.ts'
import { exitCodes, UserError } from '../../../../exit-codes.ts'
import { type LogFields, parseLatencyName } from './fields.ts'
import { type KnownFormat, knownFormats, listBareValues } from './known-formats.ts'
import { type LogLine, type LogShape, listFields, lookUpField, parseLogLine } from './log-record.ts'
import { findKnownFormat, type LogFormat, parseLatencyMs } from './logged-request.ts'

/** A field that may contain the latency of its line. */
interface Candidate {
  readonly field: string
  readonly value: unknown
  /** Unit in the name of the field. */
  readonly unit?: TimeUnit
}

interface SampledLine {
  readonly line: LogLine
  readonly known?: KnownFormat
  readonly candidates: readonly Candidate[]
}

/** Large enough to contain rare lines of a format, and small enough for a short first pass. */
const maxSampledLines = 1000
/** Maximum number of fields in a message. */
const maxShownFields = 20

/** Collects lines that may contain a latency. */
export class LogSample {
  readonly #lines: SampledLine[] = []
  readonly #shapes: readonly LogShape[] | undefined
  readonly #latencyField: string | undefined
  /** The last line without any latency. */
  #lineWithoutLatency: LogLine | undefined
  #lastText = ''

  /** @param shape value of `--log-format`; absent: any */
  constructor(fields: LogFields, shape: LogShape | undefined) {
    this.#shapes = shape && [shape]
    this.#latencyField = fields.latency?.name
  }

  get isFull(): boolean {
    return this.#lines.length >= maxSampledLines
  }

  add(text: string): void {
    this.#lastText = text
    const line = parseLogLine(text, this.#shapes)
    if (line === undefined) return
    const sampled = sampleLine(line)
    const named =
      this.#latencyField !== undefined && isDuration(lookUpField(line.record, this.#latencyField))
    if (named || sampled.known || sampled.candidates.length > 0) this.#lines.push(sampled)
    else this.#lineWithoutLatency = line
  }

  /**
   * @param path path of the log, for messages
   * @throws UserError if field or unit are ambiguous
   */
  recognise(path: string, fields: LogFields): LogFormat {
    if (this.#lines.length === 0)
      throw createMissingLatencyError(path, this.#lineWithoutLatency, this.#lastText)
    return fields.latency === undefined
      ? recogniseByShape(path, this.#lines)
      : recogniseByField(path, this.#lines, fields.latency)
  }
}

function sampleLine(line: LogLine): SampledLine {
  const known = knownFormats.find(
    ({ shape, findLatency }) => shape === line.shape && findLatency(line) !== undefined,
  )
  return { line, ...(known && { known }), candidates: listCandidates(line) }
}

const isDuration = (value: unknown): boolean => parseLatencyMs(value, 'ms') !== undefined

/**
 * Lists the candidates of a line. In a combined line, named values have priority over bare ones,
 * and values that state a unit over others.
 */
function listCandidates(line: LogLine): Candidate[] {
  const namedCandidates = listFields(line.record).flatMap(([field, value]): Candidate[] => {
    const name = isDuration(value) ? parseLatencyName(field) : undefined
    return name ? [{ field, value, ...name }] : []
  })
  if (line.shape !== 'combined' || namedCandidates.length > 0) return namedCandidates
  const bareCandidates = listBareValues(line).map(([field, value]) => ({ field, value }))
  const withUnit = bareCandidates.filter(({ value }) => !/^[\d.]+$/.test(value))
  return withUnit.length > 0 ? withUnit : bareCandidates
}

function recogniseByShape(path: string, lines: readonly SampledLine[]): LogFormat {
  const known = [...new Set(lines.flatMap((each) => each.known ?? []))]
  const strongFormats = known.filter((each) => !each.isWeak)
  if (strongFormats.length > 1)
    throw createAmbiguousFormatError(
      path,
      strongFormats.map(({ name }) => name),
    )
  const [format] = strongFormats.length === 1 ? strongFormats : known
  if (format !== undefined) {
    const values = lines.flatMap(({ line }) => {
      const field = format.shape === line.shape ? format.findLatency(line) : undefined
      return field === undefined ? [] : [lookUpField(line.record, field)]
    })
    const isAlone = !format.isWeak || values.length === lines.length
    const [first] = lines.filter((each) => each.known === format)
    const field = format.findLatency(first!.line)!
    if (isAlone && (format.accepts?.(values) ?? true)) {
      const { shape, name, unit } = format
      return { shape, known: name, latency: { field, ...(unit && { unit }) } }
    }
    if (isAlone) throw createMissingUnitError(path, format.shape, field, values)
  }
  const shapes = [...new Set(lines.map(({ line }) => line.shape))]
  if (shapes.length > 1) throw createAmbiguousFormatError(path, shapes)
  const candidates = lines.flatMap((each) => each.candidates)
  const fields = [...new Set(candidates.map((each) => each.field))]
  const [field = ''] = fields
  if (fields.length > 1 && !lines.every(({ candidates }) => haveSameLatency(candidates)))
    throw createAmbiguousFieldError(
      path,
      lines.find((each) => each.candidates.length > 1) ?? lines[0]!,
      fields,
    )
  return resolveUnit(path, lines, shapes[0]!, field, undefined)
}

/** Relative difference of the same latency in several fields, by rounding. */
const latencyTolerance = 0.01

/** Whether several fields contain the same latency, each in its unit. */
function haveSameLatency(candidates: readonly Candidate[]): boolean {
  const latenciesMs = candidates.map(({ value, unit }) => parseLatencyMs(value, unit))
  const [first] = latenciesMs
  return (
    first !== undefined &&
    latenciesMs.every(
      (each) => each !== undefined && Math.abs(each - first) <= latencyTolerance * first,
    )
  )
}

function recogniseByField(
  path: string,
  lines: readonly SampledLine[],
  latency: NonNullable<LogFields['latency']>,
): LogFormat {
  const { name, unit } = latency
  const linesWithField = lines.filter(({ line }) => isDuration(lookUpField(line.record, name)))
  if (linesWithField.length > 0) {
    const shapes = [...new Set(linesWithField.map(({ line }) => line.shape))]
    if (shapes.length > 1) throw createAmbiguousFormatError(path, shapes)
    return resolveUnit(path, linesWithField, shapes[0]!, name, unit)
  }
  // A value at the end of a combined line has no name: the user may name the only one freely.
  const combinedLines = lines.filter((each) => each.line.shape === 'combined')
  const fields = [
    ...new Set(combinedLines.flatMap((each) => each.candidates.map(({ field }) => field))),
  ]
  if (combinedLines.length === lines.length && fields.length === 1)
    return resolveUnit(path, combinedLines, 'combined', fields[0]!, unit)
  throw new UserError(
    `${path} has no duration in the field ${name}`,
    `its lines have ${describeFields(lines[0]!.line)}`,
    exitCodes.usage,
  )
}

/**
 * Resolves the unit from the flag, the name of the field, each value, or a known format: in this
 * order.
 */
function resolveUnit(
  path: string,
  lines: readonly SampledLine[],
  shape: LogShape,
  field: string,
  requestedUnit: TimeUnit | undefined,
): LogFormat {
  const values = lines
    .map(({ line }) => lookUpField(line.record, field))
    .filter((value) => value !== undefined && value !== null)
  const unit = requestedUnit ?? parseLatencyName(field)?.unit
  const isStated = values.every((value) => parseLatencyMs(value, undefined) !== undefined)
  if (unit === undefined && isStated) return { shape, latency: { field } }
  const [{ known, line } = lines[0]!] = lines
  const isKnown =
    known?.findLatency(line) === field && !known.isWeak && (known.accepts?.(values) ?? true)
  if (unit === undefined && isKnown)
    return { shape, latency: { field, ...(known.unit && { unit: known.unit }) } }
  if (unit !== undefined)
    return {
      ...{ shape, latency: { field, unit } },
      ...(isKnown &&
        known.unit !== unit && {
          warning: `the lines look like ${known.name}, in ${known.unit ?? 'a stated unit'}, but --field sets ${unit}`,
        }),
    }
  throw createMissingUnitError(path, shape, field, values)
}

/** Formats a format as 'Caddy JSON, duration in s'. */
export function describeFormat({ shape, known, latency }: LogFormat): string {
  const unit = latency.unit === undefined ? 'with its unit' : `in ${latency.unit}`
  return known === undefined ? `${shape}, ${latency.field} ${unit}` : `${known} ${unit}`
}

/**
 * Validates a stored format.
 * @returns undefined if it is invalid
 */
export function parseStoredFormat(value: unknown): LogFormat | undefined {
  const format = value as Partial<LogFormat> | undefined
  if (typeof format?.shape !== 'string' || typeof format.latency?.field !== 'string')
    return undefined
  return format.known !== undefined && findKnownFormat(format.known) === undefined
    ? undefined
    : (format as LogFormat)
}

const createMissingUnitError = (
  path: string,
  shape: LogShape,
  field: string,
  values: readonly unknown[],
): UserError =>
  new UserError(
    `${path} does not name the unit of ${shape === 'combined' ? `the value ${field} at the end of its lines` : field} (${[...new Set(values)].slice(0, 3).join(', ')})`,
    `set it: --field latency=${field}:UNIT, where UNIT is ${timeUnits.join(', ')}${
      shape === 'combined'
        ? ` (nginx $request_time, Apache %T and gunicorn %(L)s: s; %{ms}T, Tomcat %D before 10, gunicorn %(M)s, morgan :response-time: ms; Apache %D, Tomcat %D since 10, gunicorn %(D)s: us)`
        : ''
    }`,
    exitCodes.usage,
  )

const createAmbiguousFieldError = (
  path: string,
  { line }: SampledLine,
  fields: readonly string[],
): UserError =>
  new UserError(
    `${path} has several fields that may be the latency: ${fields.slice(0, maxShownFields).join(', ')} (${describeFields(line)})`,
    `choose one and set its unit: --field latency=${fields[0]}:UNIT, where UNIT is ${timeUnits.join(', ')}`,
    exitCodes.usage,
  )

const createAmbiguousFormatError = (path: string, names: readonly string[]): UserError =>
  new UserError(
    `${path} has lines of several formats: ${names.join('; ')}`,
    'choose one with --log-format, or set its field with --field latency=NAME:UNIT',
    exitCodes.usage,
  )

function createMissingLatencyError(
  path: string,
  line: LogLine | undefined,
  text: string,
): UserError {
  if (line === undefined)
    return new UserError(
      `${path} has no line in a known format: ${text.slice(0, 200)}`,
      'docs/how-to/watch-production.md lists the formats; each line must contain the duration of its request',
      exitCodes.usage,
    )
  return new UserError(
    `${path} does not contain request durations: its lines are ${line.shape} and have ${describeFields(line)}`,
    line.shape === 'uvicorn'
      ? "uvicorn's access log has no durations: use the log of the gateway in front of it, or --prometheus"
      : 'log them ($request_time in nginx, %D in Apache, docs/how-to/watch-production.md has more), or set their field: --field latency=NAME:UNIT',
    exitCodes.usage,
  )
}

const describeFields = ({ record }: LogLine): string =>
  listFields(record)
    .filter(([name, value]) => name !== 'behind' && !Array.isArray(value))
    .slice(0, maxShownFields)
    .map(([name, value]) => `${name}=${String(value).slice(0, 40)}`)
    .join(', ')
