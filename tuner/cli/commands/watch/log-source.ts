/** Reads windows of production from a growing access log, across rotations. */
import { createReadStream, readdirSync, type Stats, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { selectQuantile } from '../../../../profiler/statistics/percentile.ts'
import type { ProductionWindow } from '../../../../reports/watch/production-window.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import {
  describeFormat,
  type LogFields,
  type LogFormat,
  type LoggedRequest,
  LogSample,
  type LogShape,
  parseRequest,
  parseStoredFormat,
} from './access-log/index.ts'
import type { ProductionSource } from './production-source.ts'

interface LogOptions {
  readonly path: string
  /** Absent: detected from its first lines. */
  readonly shape?: LogShape
  readonly fields: LogFields
  /** Prefixes of the paths to count; empty: all paths. */
  readonly paths: readonly string[]
  readonly windowS: number
  readonly percentile: number
}

/**
 * Position where reading continues: a file, and the byte before the first request of an incomplete
 * window.
 */
interface LogPosition {
  readonly inode: number
  readonly offset: number
  /** Detected format of the lines, kept so that slow requests cannot change the detected unit. */
  readonly format?: LogFormat
}

interface LogFile {
  readonly file: string
  readonly inode: number
  readonly offset: number
}

/** Lines and requests that are not counted. */
interface SkippedLines {
  lines: number
  unparsed: number
  unparsedExample: string
  otherPaths: number
  otherPathExample: string
  withoutPath: number
  withoutStatus: number
  localTimes: number
}

/** Plausible median latencies. Others suggest a wrong unit. */
const [minMedianMs, maxMedianMs] = [1, 60_000]

/** Maximum delay until a request is in the log, s. */
const maxDelayS = 5
const [maxLineBytes, shownLineBytes] = [1 << 20, 200]

interface Line {
  readonly text: string
  /** Offset of the next line. */
  readonly end: number
}

interface OpenWindow {
  readonly latencies: number[]
  readonly versions: Set<string>
  requests: number
  failed: number
  withoutStatus: number
}

/**
 * Continues where the last evaluation stopped: first the rest of a rotated file, then the current
 * one. Requests of incomplete windows are read again.
 */
export class LogSource implements ProductionSource {
  readonly #options: LogOptions

  constructor(options: LogOptions) {
    this.#options = options
  }

  async read(nowS: number, sinceS: number | undefined, place: unknown, signal: AbortSignal) {
    const { path, windowS } = this.#options
    const logStats = statLog(path)
    if (logStats === undefined)
      throw new UserError(`no log at ${path}`, 'check the path given with --log', exitCodes.usage)
    const before = parsePosition(place)
    const files = listFilesSince(path, logStats, before)
    const format = this.#readStoredFormat(before) ?? (await this.#recognise(files, signal))
    // Nothing new.
    if (format === undefined)
      return { windows: [], place: before ?? { inode: logStats.ino, offset: 0 }, notes: [] }
    const openWindows = new Map<number, OpenWindow>()
    const until = Math.floor((nowS - maxDelayS) / windowS) * windowS
    let next: LogPosition = { ...(before ?? { inode: logStats.ino, offset: 0 }), format }
    /** Whether a request of an incomplete window was read. */
    let isPastComplete = false
    const uncounted: SkippedLines = {
      ...{ lines: 0, unparsed: 0, unparsedExample: '', otherPaths: 0, otherPathExample: '' },
      ...{ withoutPath: 0, withoutStatus: 0, localTimes: 0 },
    }
    /** Time of the first request of a new log: its first window begins there. */
    let firstRequestS = before === undefined ? Number.POSITIVE_INFINITY : 0
    for (const { file, inode, offset } of files) {
      for await (const { text, end } of readLogLines(file, offset, signal)) {
        if (text === '') continue
        uncounted.lines++
        const request = parseRequest(text, format, this.#options.fields)
        if (!request) {
          uncounted.unparsed++
          uncounted.unparsedExample = text
          continue
        }
        const fromS = Math.floor(request.atS / windowS) * windowS
        if (before === undefined) firstRequestS = Math.min(firstRequestS, Math.floor(request.atS))
        isPastComplete ||= fromS >= until
        if (!isPastComplete) next = { inode, offset: end, format }
        if (request.isLocalTime) uncounted.localTimes++
        if (this.#isWatched(request, uncounted) && fromS >= (sinceS ?? 0))
          countRequest(openWindows, fromS, request)
      }
    }
    if (uncounted.lines > 0 && uncounted.unparsed === uncounted.lines)
      throw createUnreadableError(path, format, uncounted.unparsedExample)
    if (uncounted.withoutPath > 0 && uncounted.withoutPath === uncounted.lines - uncounted.unparsed)
      throw new UserError(
        `--path needs the path of requests, but no request of ${path} has one`,
        'set its field: --field path=NAME',
        exitCodes.usage,
      )
    const completeWindows = [...openWindows]
      .filter(([fromS]) => fromS < until)
      .sort(([a], [b]) => a - b)
    return {
      windows: completeWindows.map(([fromS, window]) =>
        this.#createWindow(Math.max(fromS, firstRequestS), fromS + windowS, window),
      ),
      place: next,
      notes: [
        `${path} is read as ${describeFormat(format)}`,
        ...warnOfUnit(format, completeWindows.at(-1)?.[1].latencies ?? []),
        ...describeSkipped(path, uncounted),
      ],
    }
  }

  /** Reads the stored format, unless flags set another one. */
  #readStoredFormat(before: LogPosition | undefined): LogFormat | undefined {
    const { shape, fields } = this.#options
    return shape === undefined && fields.latency === undefined
      ? parseStoredFormat(before?.format)
      : undefined
  }

  /** @returns undefined for an empty log */
  async #recognise(files: readonly LogFile[], signal: AbortSignal): Promise<LogFormat | undefined> {
    const { path, shape, fields } = this.#options
    const sample = new LogSample(fields, shape)
    let isEmpty = true
    for (const { file, offset } of files)
      for await (const { text } of readLogLines(file, offset, signal)) {
        if (text === '') continue
        isEmpty = false
        sample.add(text)
        if (sample.isFull) return sample.recognise(path, fields)
      }
    return isEmpty ? undefined : sample.recognise(path, fields)
  }

  #isWatched({ path, status }: LoggedRequest, uncounted: SkippedLines): boolean {
    const { paths } = this.#options
    if (paths.length > 0 && path === undefined) {
      uncounted.withoutPath++
      return false
    }
    if (paths.length > 0 && !paths.some((start) => path!.startsWith(start))) {
      uncounted.otherPaths++
      uncounted.otherPathExample = path!
      return false
    }
    if (status === undefined) uncounted.withoutStatus++
    return true
  }

  #createWindow(
    fromS: number,
    untilS: number,
    { latencies, requests, failed, versions, withoutStatus }: OpenWindow,
  ): ProductionWindow {
    const seconds = untilS - fromS
    return {
      fromS,
      seconds,
      rateRps: requests / seconds,
      ...(latencies.length > 0 && {
        sloMs: selectQuantile(Float64Array.from(latencies).sort(), this.#options.percentile),
      }),
      ...(withoutStatus === 0 && { errorShare: failed / requests }),
      ...(versions.size > 0 && { versions: [...versions] }),
    }
  }
}

function countRequest(
  open: Map<number, OpenWindow>,
  fromS: number,
  { status, latencyMs, version }: LoggedRequest,
): void {
  const window = open.get(fromS) ?? {
    ...{ latencies: [], versions: new Set<string>(), requests: 0, failed: 0, withoutStatus: 0 },
  }
  window.requests++
  if (status === undefined) window.withoutStatus++
  // Client errors, including 499 (client closed), are not failures of the server.
  if ((status ?? 0) >= 500) window.failed++
  else if ((status ?? 0) < 400 && latencyMs !== undefined) window.latencies.push(latencyMs)
  if (version !== undefined) window.versions.add(version)
  open.set(fromS, window)
}

/** Warns about an implausible median if the unit is not part of the format. */
function warnOfUnit(format: LogFormat, latencies: readonly number[]): string[] {
  const warnings = format.warning === undefined ? [] : [`warning: ${format.warning}`]
  const { unit, field } = format.latency
  if (format.known !== undefined || unit === undefined || latencies.length === 0) return warnings
  const medianMs = selectQuantile(Float64Array.from(latencies).sort(), 0.5)
  if (medianMs >= minMedianMs && medianMs <= maxMedianMs) return warnings
  return [
    ...warnings,
    `warning: half of the requests take ${Number(medianMs.toPrecision(3))} ms or less if ${field} is in ${unit}; if it has another unit, set --field latency=${field}:UNIT`,
  ]
}

function describeSkipped(path: string, uncounted: SkippedLines): string[] {
  const { lines, unparsed, otherPaths, withoutPath, withoutStatus, localTimes } = uncounted
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
  return [
    ...(unparsed > 0
      ? [
          `${unparsed} of ${lines} lines of ${path} are not requests of that format, e.g. ${uncounted.unparsedExample.slice(0, 120)}`,
        ]
      : []),
    ...(otherPaths > 0
      ? [
          `${otherPaths} of ${lines - unparsed} requests are to other paths, e.g. ${uncounted.otherPathExample.slice(0, 120)}`,
        ]
      : []),
    ...(withoutPath > 0 ? [`${withoutPath} of the requests have no path and are left out`] : []),
    ...(withoutStatus > 0
      ? [
          `${withoutStatus} of the requests have no status, so failures are unknown (set its field with --field status=NAME)`,
        ]
      : []),
    ...(localTimes > 0
      ? [`times without a zone are read in the zone of this machine (${zone})`]
      : []),
  ]
}

const createUnreadableError = (path: string, format: LogFormat, line: string): UserError =>
  new UserError(
    `${path} has no line of ${describeFormat(format)}: ${line.slice(0, 200)}`,
    'if its format changed, add --reset to recognise it again, or set its fields with --field latency=NAME:UNIT (docs/how-to/watch-production.md)',
    exitCodes.usage,
  )

const parsePosition = (value: unknown): LogPosition | undefined => {
  const { inode, offset, format } = (value ?? {}) as Partial<LogPosition>
  return typeof inode === 'number' && typeof offset === 'number'
    ? { inode, offset, ...(format && { format }) }
    : undefined
}

const statLog = (path: string): Stats | undefined => {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats !== undefined && !stats.isFile())
    throw new UserError(`${path} is not a file`, 'set the access log with --log', exitCodes.usage)
  return stats
}

/**
 * Files with new lines, oldest first: the last one read, even if it was rotated, later ones, and
 * the log itself.
 */
function listFilesSince(
  path: string,
  logStats: Stats,
  position: LogPosition | undefined,
): LogFile[] {
  const log = { file: path, inode: logStats.ino, offset: 0 }
  if (position === undefined) return [log]
  if (position.inode === logStats.ino && position.offset <= logStats.size)
    return [{ ...log, offset: position.offset }]
  const folder = dirname(path)
  const rotatedFiles = readdirSync(folder)
    .filter(
      (name) => name.startsWith(`${basename(path)}.`) && !/\.(?:gz|bz2|xz|zst|lz4)$/.test(name),
    )
    .map((name) => ({
      file: join(folder, name),
      stats: statSync(join(folder, name), { throwIfNoEntry: false }),
    }))
    .flatMap(({ file, stats }) =>
      !stats?.isFile()
        ? []
        : [{ file, inode: stats.ino, size: stats.size, mtimeMs: stats.mtimeMs }],
    )
    .sort((a, b) => a.mtimeMs - b.mtimeMs)
  const rotatedIndex = rotatedFiles.findIndex(
    ({ inode }) => inode === position.inode && position.inode !== logStats.ino,
  )
  if (rotatedIndex >= 0)
    return [
      ...rotatedFiles
        .slice(rotatedIndex)
        .map(({ file, inode }, i) => ({ file, inode, offset: i === 0 ? position.offset : 0 })),
      log,
    ]
  // copytruncate: the newest copy contains the unread lines.
  const copy = rotatedFiles.filter(({ size }) => size >= position.offset).at(-1)
  return position.inode === logStats.ino && copy
    ? [{ file: copy.file, inode: copy.inode, offset: position.offset }, log]
    : [log]
}

/**
 * Complete lines from an offset. An incomplete last line is left for later, and an overlong line is
 * truncated.
 */
async function* readLogLines(
  file: string,
  offset: number,
  signal: AbortSignal,
): AsyncGenerator<Line> {
  let rest: Buffer = Buffer.alloc(0)
  let end = offset
  let tooLong = false
  for await (const part of createReadStream(file, {
    start: offset,
    signal,
  }) as AsyncIterable<Buffer>) {
    let data = rest.length > 0 ? Buffer.concat([rest, part]) : part
    for (let at = data.indexOf(10); at >= 0; at = data.indexOf(10)) {
      end += at + 1
      if (!tooLong) yield { text: data.subarray(0, at).toString('utf8').trimEnd(), end }
      tooLong = false
      data = data.subarray(at + 1)
    }
    if (tooLong || data.length > maxLineBytes) {
      end += data.length
      if (!tooLong) yield { text: data.subarray(0, shownLineBytes).toString('utf8'), end }
      tooLong = true
      data = Buffer.alloc(0)
    }
    rest = data
  }
}
