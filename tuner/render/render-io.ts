/**
 * Consumers of the event stream that people or programs read. Results go to stdout, progress to
 * stderr.
 */
import type { TuneEvent } from '../loop/events.ts'
import type { Style } from './glyphs.ts'

export interface Renderer {
  handle(event: TuneEvent): void
  /** Writes what is left; resolves when the last byte is with the stream. */
  close(): Promise<void>
}

/** Streams and style are given, so that tests need no terminal. */
export interface RenderIo {
  readonly stdout: NodeJS.WritableStream
  readonly stderr: NodeJS.WritableStream
  readonly outStyle: Style
  readonly errStyle: Style
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/**
 * Waits until everything written so far has left for the stream. A reader that went away (EPIPE)
 * ends the waiting too.
 */
export const flushed = (stream: NodeJS.WritableStream): Promise<void> =>
  new Promise((resolve) => {
    if (!stream.writable) return resolve()
    stream.write('', () => resolve())
  })
