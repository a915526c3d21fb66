/** Windows of production from an access log that grows and is rotated. */
import { createReadStream, readdirSync, type Stats, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { quantileOfSorted } from '../../../profiler/statistics/percentile.ts'
import type { ProductionWindow } from '../../../reports/watch/production-window.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import {
  formatOf,
  type JsonFields,
  type LogFormat,
  type LoggedRequest,
  requestOf,
} from './access-log.ts'
import type { Source } from './production-source.ts'

interface LogOptions {
  readonly path: string
  /** Absent: by its first lines. */
  readonly format?: LogFormat
  readonly fields: JsonFields
  /** Beginnings of paths that count; none: all. */
  readonly paths: readonly string[]
  readonly windowS: number
  readonly percentile: number
}

/**
 * Where reading goes on: which file, and behind which byte: the last one before the first request
 * of a window that is not over.
 */
interface Place {
  readonly inode: number
  readonly offset: number
}

/** A request is logged no later than this after its window. */
const lateS = 5
const [longestLine, shownOfLine] = [1 << 20, 200]

interface Line {
  readonly text: string
  /** Of the byte after it. */
  readonly end: number
}

interface Open {
  readonly latencies: number[]
  readonly versions: Set<string>
  requests: number
  failed: number
}

/**
 * Reads from where the last look stopped: the rest of a file that was moved aside, then the file.
 * The requests of a window that is not over are read again.
 */
export class LogSource implements Source {
  readonly #options: LogOptions

  constructor(options: LogOptions) {
    this.#options = options
  }

  async read(nowS: number, sinceS: number | undefined, place: unknown, signal: AbortSignal) {
    const { path, windowS } = this.#options
    const now = fileAt(path)
    if (now === undefined)
      throw new UserError(
        `there is no log ${path}`,
        'check the path given with --log',
        exitCodes.usage,
      )
    const open = new Map<number, Open>()
    const until = Math.floor((nowS - lateS) / windowS) * windowS
    const before = placeOf(place)
    let next = before ?? { inode: now.ino, offset: 0 }
    /** A request of a window that is not over was read. */
    let ahead = false
    let [strange, seen] = [0, 0]
    let example = ''
    /**
     * Of the first request of all, where nothing was read before: the log begins there, and its
     * window with it.
     */
    let beginsS = before === undefined ? Number.POSITIVE_INFINITY : 0
    let format = this.#options.format
    for (const { file, inode, offset } of filesSince(path, now, before)) {
      for await (const { text, end } of linesOf(file, offset, signal)) {
        if (text === '') continue
        seen++
        format ??= formatOf([text], this.#options.fields)
        const request = format && requestOf(text, format, this.#options.fields)
        if (!request) {
          strange++
          example = text
          continue
        }
        const fromS = Math.floor(request.atS / windowS) * windowS
        if (before === undefined) beginsS = Math.min(beginsS, Math.floor(request.atS))
        ahead ||= fromS >= until
        if (!ahead) next = { inode, offset: end }
        if (fromS >= (sinceS ?? 0)) this.#count(open, fromS, request)
      }
    }
    if (seen > 0 && strange === seen) throw unreadable(path, example)
    const closed = [...open].filter(([fromS]) => fromS < until).sort(([a], [b]) => a - b)
    return {
      windows: closed.map(([fromS, window]) =>
        this.#window(Math.max(fromS, beginsS), fromS + windowS, window),
      ),
      place: next,
      notes:
        strange > 0
          ? [
              `${strange} of ${seen} lines of ${path} are no requests, e.g. ${example.slice(0, 120)}`,
            ]
          : [],
    }
  }

  #count(
    open: Map<number, Open>,
    fromS: number,
    { path, status, latencyMs, version }: LoggedRequest,
  ): void {
    const { paths } = this.#options
    if (paths.length > 0 && !paths.some((start) => path.startsWith(start))) return
    const window = open.get(fromS) ?? { latencies: [], versions: new Set(), requests: 0, failed: 0 }
    window.requests++
    // What the client broke off (499) or got wrong is not the server's.
    if (status >= 500) window.failed++
    else if (status < 400) window.latencies.push(latencyMs)
    if (version !== undefined) window.versions.add(version)
    open.set(fromS, window)
  }

  #window(
    fromS: number,
    untilS: number,
    { latencies, requests, failed, versions }: Open,
  ): ProductionWindow {
    const seconds = untilS - fromS
    return {
      fromS,
      seconds,
      rateRps: requests / seconds,
      ...(latencies.length > 0 && {
        sloMs: quantileOfSorted(Float64Array.from(latencies).sort(), this.#options.percentile),
      }),
      errorShare: failed / requests,
      ...(versions.size > 0 && { versions: [...versions] }),
    }
  }
}

const unreadable = (path: string, line: string): UserError =>
  new UserError(
    `${path} has no line that is known: ${line.slice(0, 200)}`,
    'it needs the time that each request took: combined with $request_time or %D behind, Envoy, or JSON lines (docs/watch.md); --field names fields of your own',
    exitCodes.usage,
  )

const placeOf = (value: unknown): Place | undefined => {
  const { inode, offset } = (value ?? {}) as Partial<Place>
  return typeof inode === 'number' && typeof offset === 'number' ? { inode, offset } : undefined
}

const fileAt = (path: string): Stats | undefined => {
  const about = statSync(path, { throwIfNoEntry: false })
  if (about !== undefined && !about.isFile())
    throw new UserError(`${path} is no file`, 'name the access log with --log', exitCodes.usage)
  return about
}

/**
 * Files with something new, oldest first: that of the last look, wherever it was moved to, those
 * made between, and the log itself.
 */
function filesSince(
  path: string,
  now: Stats,
  place: Place | undefined,
): { readonly file: string; readonly inode: number; readonly offset: number }[] {
  const log = { file: path, inode: now.ino, offset: 0 }
  if (place === undefined) return [log]
  if (place.inode === now.ino && place.offset <= now.size) return [{ ...log, offset: place.offset }]
  const folder = dirname(path)
  const aside = readdirSync(folder)
    .filter(
      (name) => name.startsWith(`${basename(path)}.`) && !/\.(?:gz|bz2|xz|zst|lz4)$/.test(name),
    )
    .map((name) => ({
      file: join(folder, name),
      about: statSync(join(folder, name), { throwIfNoEntry: false }),
    }))
    .flatMap(({ file, about }) =>
      !about?.isFile()
        ? []
        : [{ file, inode: about.ino, size: about.size, mtimeMs: about.mtimeMs }],
    )
    .sort((a, b) => a.mtimeMs - b.mtimeMs)
  const moved = aside.findIndex(({ inode }) => inode === place.inode && place.inode !== now.ino)
  if (moved >= 0)
    return [
      ...aside
        .slice(moved)
        .map(({ file, inode }, i) => ({ file, inode, offset: i === 0 ? place.offset : 0 })),
      log,
    ]
  // Copied and cut: the newest copy has what was not read.
  const copy = aside.filter(({ size }) => size >= place.offset).at(-1)
  return place.inode === now.ino && copy
    ? [{ file: copy.file, inode: copy.inode, offset: place.offset }, log]
    : [log]
}

/**
 * Whole lines from a byte on. What has no end yet is left for later, and of a line that is too long
 * for a request its beginning is all that is told.
 */
async function* linesOf(file: string, offset: number, signal: AbortSignal): AsyncGenerator<Line> {
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
    if (tooLong || data.length > longestLine) {
      end += data.length
      if (!tooLong) yield { text: data.subarray(0, shownOfLine).toString('utf8'), end }
      tooLong = true
      data = Buffer.alloc(0)
    }
    rest = data
  }
}
