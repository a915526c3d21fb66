/** Which consumer of the event stream a user gets. */
import type { Renderer, RenderIo } from './render-io.ts'

type RendererName = 'screen' | 'plain' | 'json' | 'events'

/**
 * The renderer a user gets: what was asked for, else a live screen on a terminal, else plain lines.
 */
export function chooseRenderer(
  flags: { json?: boolean; events?: boolean; plain?: boolean },
  stderr: { isTTY?: boolean },
  env: NodeJS.ProcessEnv,
): RendererName {
  if (flags.events) return 'events'
  if (flags.json) return 'json'
  const live =
    stderr.isTTY === true && !env.CI && !env.NO_COLOR && env.TERM !== 'dumb' && !flags.plain
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
