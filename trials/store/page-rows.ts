/**
 * Rows of a damaged store, gathered page by page as the file format lays them down
 * (sqlite.org/fileformat2.html, sections 1.5, 1.6, 2.1 and 4): every leaf and index page is read by
 * itself, so that neither the header nor the schema nor the pages above need be whole.
 */
import { readFileSync, statSync } from 'node:fs'
import type { AnnotationRow } from './annotations.ts'
import type { SqlValue } from './connection.ts'
import { StoreError } from './store-error.ts'
import { type ExperimentRow, type PointRow, shown, type TrialRow } from './stored-rows.ts'
import { defaultPageBytes, logPages } from './write-ahead-log.ts'

interface PageRows {
  readonly experiments: readonly ExperimentRow[]
  /** Copies of one row may be among them, where pages were left behind. */
  readonly trials: readonly TrialRow[]
  readonly points: readonly PointRow[]
  readonly annotations: readonly AnnotationRow[]
  /** Rows that have a value of a type which their table has not: what they are of, in words. */
  readonly strange: readonly string[]
}

/**
 * What the file at `path` and the write-ahead log beside it hold, as far as it can be read. @throws
 * the file system's errors
 */
export function pageRows(path: string): PageRows {
  const { pages, usable } = pagesOf(path)
  const found: Found = { experiments: [], trials: [], points: [], annotations: [], strange: [] }
  for (const [number, page] of pages) {
    for (const payload of payloadsOf(page, number, pages, usable)) sort(recordOf(payload), found)
  }
  return found
}

interface Found {
  experiments: ExperimentRow[]
  trials: TrialRow[]
  points: PointRow[]
  annotations: AnnotationRow[]
  strange: string[]
}

/** What Node reads into one buffer. */
const mostBytes = 2 ** 31 - 1
const magic = 'SQLite format 3\0'

/** Pages by number, from 1; those of the log in place of the file's. */
function pagesOf(path: string): { pages: Map<number, Buffer>; usable: number } {
  if (statSync(path).size > mostBytes)
    throw new StoreError(
      'corrupt',
      `the trial store ${path} is damaged, and too large to be read page by page (2 GiB at most)`,
      'restore a copy of it, or use another file with --db',
    )
  const file = readFileSync(path)
  const whole = file.subarray(0, 16).toString('latin1') === magic
  const stated = file.length >= 18 ? file.readUInt16BE(16) : 0
  const claimed = stated === 1 ? 65_536 : stated
  const sane = whole && claimed >= 512 && (claimed & (claimed - 1)) === 0
  const pageBytes = sane ? claimed : defaultPageBytes
  const pages = new Map<number, Buffer>()
  for (let start = 0; start + pageBytes <= file.length; start += pageBytes) {
    pages.set(1 + start / pageBytes, file.subarray(start, start + pageBytes))
  }
  for (const [number, page] of logPages(path, pageBytes)) pages.set(number, page)
  return { pages, usable: pageBytes }
}

const leafTable = 13
const leafIndex = 10
const innerIndex = 2

/** Payloads of a page's cells; a cell that cannot be followed is left out. */
function payloadsOf(
  page: Buffer,
  number: number,
  pages: ReadonlyMap<number, Buffer>,
  usable: number,
): Buffer[] {
  const start = number === 1 ? 100 : 0
  const kind = page[start]
  if (kind !== leafTable && kind !== leafIndex && kind !== innerIndex) return []
  const cells = page.readUInt16BE(start + 3)
  const pointers = start + (kind === innerIndex ? 12 : 8)
  const payloads: Buffer[] = []
  for (let i = 0; i < cells && pointers + 2 * i + 2 <= page.length; i++) {
    const payload = payloadAt(page, page.readUInt16BE(pointers + 2 * i), kind, pages, usable)
    if (payload) payloads.push(payload)
  }
  return payloads
}

function payloadAt(
  page: Buffer,
  cell: number,
  kind: number,
  pages: ReadonlyMap<number, Buffer>,
  usable: number,
): Buffer | undefined {
  const size = varint(page, cell + (kind === innerIndex ? 4 : 0))
  if (!size) return undefined
  const rowid = kind === leafTable ? varint(page, size.end) : { end: size.end }
  if (!rowid) return undefined
  // Section 1.6: how much of a payload lies in the page, the rest in overflow pages.
  const most = kind === leafTable ? usable - 35 : Math.floor(((usable - 12) * 64) / 255) - 23
  const least = Math.floor(((usable - 12) * 32) / 255) - 23
  const asked = least + ((size.value - least) % (usable - 4))
  const local = size.value <= most ? size.value : asked <= most ? asked : least
  if (rowid.end + local > page.length) return undefined
  const parts = [page.subarray(rowid.end, rowid.end + local)]
  let missing = size.value - local
  if (missing === 0) return parts[0]
  if (missing > pages.size * usable || rowid.end + local + 4 > page.length) return undefined
  for (let next = page.readUInt32BE(rowid.end + local); missing > 0; ) {
    const overflow = pages.get(next)
    if (!overflow) return undefined
    const part = overflow.subarray(4, Math.min(usable, 4 + missing))
    parts.push(part)
    missing -= part.length
    next = overflow.readUInt32BE(0)
  }
  return Buffer.concat(parts)
}

/**
 * Section 1.6: seven bits a byte, high ones first, and eight of the ninth. Undefined beyond the end
 * or beyond what a file can hold.
 */
function varint(bytes: Buffer, at: number): { value: number; end: number } | undefined {
  let value = 0
  for (let i = 0; i < 8; i++) {
    const byte = bytes[at + i]
    if (byte === undefined) return undefined
    value = value * 128 + (byte & 127)
    if (byte < 128) return value <= Number.MAX_SAFE_INTEGER ? { value, end: at + i + 1 } : undefined
  }
  return undefined
}

/** What stands for a value that no row of ours has: bytes, or a fraction. */
const strange = Symbol('a value of another type')
type Value = SqlValue | typeof strange

/** Section 2.1: a header of serial types, then the values. Undefined for what is no record. */
function recordOf(payload: Buffer): Value[] | undefined {
  const header = varint(payload, 0)
  if (!header || header.value > payload.length) return undefined
  const values: Value[] = []
  let at = header.value
  for (let next = header.end; next < header.value; ) {
    const type = varint(payload, next)
    if (!type) return undefined
    next = type.end
    const value = valueAt(payload, at, type.value)
    if (!value) return undefined
    values.push(value.value)
    at += value.bytes
  }
  return values
}

const integerBytes = [0, 1, 2, 3, 4, 6, 8]
const fraction = 7

function valueAt(
  payload: Buffer,
  at: number,
  type: number,
): { value: Value; bytes: number } | undefined {
  if (type === 0) return { value: null, bytes: 0 }
  if (type === 8 || type === 9) return { value: type - 8, bytes: 0 }
  const bytes =
    type >= 12 ? (type - 12 - (type % 2)) / 2 : type === fraction ? 8 : integerBytes[type]
  if (bytes === undefined || at + bytes > payload.length) return undefined
  if (type === fraction || (type >= 12 && type % 2 === 0)) return { value: strange, bytes }
  if (type >= 13) return { value: payload.toString('utf8', at, at + bytes), bytes }
  return {
    value: bytes === 8 ? Number(payload.readBigInt64BE(at)) : payload.readIntBE(at, bytes),
    bytes,
  }
}

/**
 * Which table a record is of shows in the types of its values; the schema and other indexes have
 * none of these.
 */
function sort(record: Value[] | undefined, found: Found): void {
  if (!record) return
  const kinds = record
    .map((value) =>
      value === strange ? 's' : value === null ? '-' : typeof value === 'string' ? 't' : 'n',
    )
    .join('')
  if (/^tttt(n)tt[t-]{2,4}$/.test(kinds)) {
    const [
      id,
      name,
      created_at,
      provenance,
      seed,
      state,
      spec,
      result,
      owner,
      digest,
      result_digest,
    ] = record
    found.experiments.push({
      id,
      name,
      created_at,
      provenance,
      seed,
      state,
      spec,
      result,
      owner,
      digest,
      result_digest,
    } as ExperimentRow)
  } else if (/^tnt[t-]?$/.test(kinds)) {
    const [experiment_id, number, trial, digest] = record
    found.trials.push({ experiment_id, number, trial, digest } as TrialRow)
  } else if (/^tnttt$/.test(kinds)) {
    const [experiment_id, trial_number, updated_at, annotation, digest] = record
    found.annotations.push({
      experiment_id,
      trial_number,
      updated_at,
      annotation,
      digest,
    } as AnnotationRow)
  } else if (/^tnnt$/.test(kinds)) {
    const [experiment_id, trial_number, position, point] = record
    found.points.push({ experiment_id, trial_number, position, point } as PointRow)
  } else if (/^t[a-z-]{8,10}$/.test(kinds)) found.strange.push(`experiment ${shown(record[0])}`)
  // A point's own trial misses it, and is named then.
  else if (/^tn[s-][a-z-]?$|^tnts$/.test(kinds))
    found.strange.push(`trial ${String(record[1])} of experiment ${shown(record[0])}`)
}
