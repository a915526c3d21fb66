/**
 * A predictor's output: the whole of it in a bounded file, the end of it in memory. Secrets that
 * are known are hidden in both.
 */
import { closeSync, existsSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { privateFileMode } from '../private-files.ts'
import { SecretFilter } from '../secrets.ts'

export interface PredictorLog {
  readonly path: string
  write(chunk: Buffer, stream: 'stdout' | 'stderr'): void
  /** The last lines, at most `lines` of them. */
  tail(lines?: number): string
  close(): void
}

/** Recent output that stays in memory for error messages, and the longest line. */
const tailCharacters = 64 * 1024
/** Default size at which the log file is rotated. */
const defaultLimitBytes = 8 * 2 ** 20

/**
 * Opens the first unused of predictor.log, predictor-2.log, ... in a folder, so that a retry does
 * not overwrite the first log. A file of `limitBytes` is rotated to `.1`: at most twice the limit
 * remains.
 * @param onLine called for each whole line
 */
export const openLog = (
  folder: string,
  limitBytes = defaultLimitBytes,
  onLine?: (line: string) => void,
  name = 'predictor',
): PredictorLog => {
  const path = findFreePath(folder, name)
  let file: number | undefined = openSync(path, 'wx', privateFileMode)
  let bytes = 0
  let recent = ''
  // Each stream has its own unfinished line: written together they would run into each other.
  const newStream = () => ({
    decoder: new StringDecoder('utf8'),
    filter: new SecretFilter(),
    line: '',
  })
  const streams = { stdout: newStream(), stderr: newStream() }
  const closeFile = () => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  const keep = (chunk: Buffer) => {
    if (file === undefined) return
    try {
      if (bytes > 0 && bytes + chunk.length > limitBytes) {
        closeFile()
        renameSync(path, `${path}.1`)
        file = openSync(path, 'w', privateFileMode)
        bytes = 0
      }
      bytes += writeSync(file, chunk)
    } catch (error) {
      // A full disk must not end the trial: the end of the output remains in memory, and records
      // the failure.
      closeFile()
      recent += `\n[${path}: the log ends here: ${(error as Error).message}]\n`
    }
  }
  return {
    path,
    write: (said, name) => {
      const stream = streams[name]
      const chunk = stream.filter.write(said)
      keep(chunk)
      const text = stream.decoder.write(chunk)
      recent = (recent + text).slice(-tailCharacters)
      if (onLine === undefined) return
      const lines = (stream.line + text).split('\n')
      stream.line = lines.pop()!.slice(-tailCharacters)
      for (const line of lines) onLine(line)
    },
    tail: (lines = 20) => recent.trimEnd().split('\n').slice(-lines).join('\n'),
    close: () => {
      for (const { filter } of Object.values(streams)) keep(filter.end())
      closeFile()
    },
  }
}

const findFreePath = (folder: string, name: string): string => {
  for (let n = 1; ; n++) {
    const path = join(folder, n === 1 ? `${name}.log` : `${name}-${n}.log`)
    if (!existsSync(path)) return path
  }
}
