/** Interface of renderers. Results go to stdout, progress to stderr. */
import type { TuneEvent } from '../../loop/events.ts'
import type { Style } from './glyphs.ts'

export interface Renderer {
  handle(event: TuneEvent): void
  /** Writes pending output; resolves once the stream has taken it. */
  close(): Promise<void>
}

/** Streams and styles are passed in, so that tests need no terminal. */
export interface RenderIo {
  readonly stdout: NodeJS.WritableStream
  readonly stderr: NodeJS.WritableStream
  readonly outStyle: Style
  readonly errStyle: Style
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** Waits until the stream has taken all writes, or its reader is gone (EPIPE). */
export const flush = (stream: NodeJS.WritableStream): Promise<void> =>
  new Promise((resolve) => {
    if (!stream.writable) return resolve()
    stream.write('', () => resolve())
  })
