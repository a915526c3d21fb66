/** Consumers of the event stream that people or programs read. Results go to stdout, progress to stderr. */
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
  /** Width of the terminal, characters. */
  readonly columns: number
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export type RendererName = 'screen' | 'plain' | 'json' | 'events'

/** Waits until everything written so far has left for the stream. A reader that went away (EPIPE) ends the waiting too. */
export const flushed = (stream: NodeJS.WritableStream): Promise<void> =>
  new Promise((resolve) => {
    if (!stream.writable) return resolve()
    stream.write('', () => resolve())
  })

/** The renderer a user gets: what was asked for, else a live screen on a terminal, else plain lines. */
export function chooseRenderer(
  flags: { json?: boolean; events?: boolean; plain?: boolean },
  stderr: { isTTY?: boolean },
  env: NodeJS.ProcessEnv,
): RendererName {
  if (flags.events) return 'events'
  if (flags.json) return 'json'
  const live = stderr.isTTY === true && !env.CI && !env.NO_COLOR && env.TERM !== 'dumb' && !flags.plain
  return live ? 'screen' : 'plain'
}

/** Loads the renderer; ink and react only when the screen is wanted. */
export async function createRenderer(name: RendererName, io: RenderIo): Promise<Renderer> {
  switch (name) {
    case 'screen':
      return (await import('./screen.tsx')).createScreenRenderer(io)
    case 'plain':
      return (await import('./plain-renderer.ts')).createPlainRenderer(io)
    case 'json':
      return (await import('./json-renderer.ts')).createJsonRenderer(io)
    case 'events':
      return (await import('./json-renderer.ts')).createEventsRenderer(io)
  }
}
