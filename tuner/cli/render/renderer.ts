/** Chooses and loads the renderer. */
import type { Renderer, RenderIo } from './render-io.ts'

type RendererName = 'screen' | 'plain' | 'json' | 'events'

/**
 * Chooses the requested renderer; by default a live screen on a terminal, otherwise plain lines.
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

/** Loads the renderer; ink and react only for the screen. */
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
