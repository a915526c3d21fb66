/**
 * The log beside a store, as its format says (sqlite.org/fileformat2.html, section 4). SQLite takes
 * a log to end where a checksum fails: after one damaged byte it drops every later commit without a
 * word. Here that is told, and what was dropped can still be read.
 */
import { readFileSync } from 'node:fs'
import { mustBeFile } from './store-files.ts'

interface Frame {
  readonly page: number
  /** The last frame of a transaction. */
  readonly commits: boolean
  readonly content: Buffer
}

interface Log {
  readonly frames: readonly Frame[]
  /** Frames up to this one have the right checksum. */
  readonly sound: number
  readonly header: Buffer
}

/**
 * Pages of the committed frames, by number, whether or not their checksums are right: rows are
 * judged one by one.
 */
export function logPages(storePath: string, pageBytes: number): Map<number, Buffer> {
  const pages = new Map<number, Buffer>()
  const { frames } = logOf(`${storePath}-wal`, pageBytes)
  const last = frames.findLastIndex((frame) => frame.commits)
  for (const { page, content } of frames.slice(0, last + 1)) pages.set(page, content)
  return pages
}

/**
 * Whether commits lie behind a damaged frame. The one transaction that was being written when a
 * machine stopped may be torn: that is no damage.
 */
export function logIsDamaged(storePath: string): boolean {
  const path = `${storePath}-wal`
  const { frames, sound, header } = logOf(path, defaultPageBytes)
  const commitsBehind = frames.slice(sound).filter((frame) => frame.commits).length
  // A writer beside may have begun the log anew while it was read: then its header is another one
  // by now.
  return commitsBehind >= 2 && readLog(path).subarray(0, headerBytes).equals(header)
}

export const defaultPageBytes = 4096
const headerBytes = 32
const frameHeaderBytes = 24

/**
 * The frames of the log's present run: later in the file may lie those of an earlier one, told
 * apart by their salts.
 */
function logOf(path: string, pageBytes: number): Log {
  const log = readLog(path)
  const frames: Frame[] = []
  const header = log.subarray(0, headerBytes)
  const frameBytes = frameHeaderBytes + pageBytes
  if (log.length < headerBytes + frameBytes) return { frames, sound: 0, header }
  const saltsAt = (start: number) => log.subarray(start + 8, start + 16)
  const starts: number[] = []
  for (let start = headerBytes; start + frameBytes <= log.length; start += frameBytes)
    starts.push(start)
  const stated = log.subarray(16, 24)
  const salts = starts.some((start) => saltsAt(start).equals(stated))
    ? stated
    : saltsAt(headerBytes)
  const bigEndian = (log.readUInt32BE(0) & 1) === 1
  let sums = checksum(log.subarray(0, 24), [0, 0], bigEndian)
  let whole = sums[0] === log.readUInt32BE(24) && sums[1] === log.readUInt32BE(28)
  let sound = 0
  for (const start of starts) {
    if (!saltsAt(start).equals(salts)) continue
    const content = log.subarray(start + frameHeaderBytes, start + frameBytes)
    frames.push({
      page: log.readUInt32BE(start),
      commits: log.readUInt32BE(start + 4) !== 0,
      content,
    })
    if (!whole) continue
    sums = checksum(content, checksum(log.subarray(start, start + 8), sums, bigEndian), bigEndian)
    whole = sums[0] === log.readUInt32BE(start + 16) && sums[1] === log.readUInt32BE(start + 20)
    if (whole) sound = frames.length
  }
  return { frames, sound, header }
}

/** Section 4.2, over pairs of 32-bit words. */
function checksum(
  bytes: Buffer,
  [first, second]: readonly [number, number],
  bigEndian: boolean,
): [number, number] {
  let [a, b] = [first, second]
  for (let at = 0; at + 8 <= bytes.length; at += 8) {
    a = (a + (bigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)) + b) >>> 0
    b = (b + (bigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)) + a) >>> 0
  }
  return [a, b]
}

function readLog(path: string): Buffer {
  mustBeFile(path)
  try {
    return readFileSync(path)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return Buffer.alloc(0)
    throw error
  }
}
