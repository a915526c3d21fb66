/** A predictor's output: the whole of it in a bounded file, the end of it in memory. */
import { closeSync, existsSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { StringDecoder } from 'node:string_decoder'

export interface PredictorLog {
  readonly path: string
  write(chunk: Buffer, stream: 'stdout' | 'stderr'): void
  /** The last lines, at most `lines` of them. */
  tail(lines?: number): string
  close(): void
}

const tailCharacters = 64 * 1024

/**
 * Opens the first free of predictor.log, predictor-2.log, ... in a folder, so that a retried trial keeps what its first try said.
 * When a file reaches `limitBytes` it becomes `.1` and a new one begins: at most twice the limit is kept, the newest of it.
 * @param onLine called for each whole line
 */
export const openLog = (folder: string, limitBytes: number, onLine?: (line: string) => void): PredictorLog => {
  const path = freeName(folder)
  let file: number | undefined = openSync(path, 'wx')
  let bytes = 0
  let recent = ''
  // Each stream has its own unfinished line: written together they would run into each other.
  const streams = { stdout: { decoder: new StringDecoder('utf8'), line: '' }, stderr: { decoder: new StringDecoder('utf8'), line: '' } }
  const close = () => {
    if (file !== undefined) closeSync(file)
    file = undefined
  }
  const keep = (chunk: Buffer) => {
    if (file === undefined) return
    try {
      if (bytes > 0 && bytes + chunk.length > limitBytes) {
        close()
        renameSync(path, `${path}.1`)
        file = openSync(path, 'w')
        bytes = 0
      }
      bytes += writeSync(file, chunk)
    } catch (error) {
      // A full disk must not end the trial: the end of the output is still in memory, and says what happened to the file.
      close()
      recent += `\n[${path}: not kept from here on: ${(error as Error).message}]\n`
    }
  }
  return {
    path,
    write: (chunk, name) => {
      keep(chunk)
      const stream = streams[name]
      const text = stream.decoder.write(chunk)
      recent = (recent + text).slice(-tailCharacters)
      if (onLine === undefined) return
      const lines = (stream.line + text).split('\n')
      stream.line = lines.pop()!.slice(-tailCharacters)
      for (const line of lines) onLine(line)
    },
    tail: (lines = 20) => recent.trimEnd().split('\n').slice(-lines).join('\n'),
    close,
  }
}

const freeName = (folder: string): string => {
  for (let n = 1; ; n++) {
    const path = join(folder, n === 1 ? 'predictor.log' : `predictor-${n}.log`)
    if (!existsSync(path)) return path
  }
}
