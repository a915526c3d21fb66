/** The first Ctrl-C stops gracefully, the second exits at once. */
import { exitCodes } from '../exit-codes.ts'

/**
 * Aborts the returned signal at the first SIGINT, SIGTERM or SIGHUP. The second one exits at once;
 * `exit` handlers still run, in which launchers kill their process groups. `dispose` removes the
 * handlers.
 */
export function listenForInterrupts(onFirst: (signal: NodeJS.Signals) => void): {
  readonly signal: AbortSignal
  dispose(): void
} {
  const controller = new AbortController()
  const names: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']
  const handler = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(exitCodes.interrupted)
    onFirst(name)
    controller.abort(new Error(`interrupted by ${name}`))
  }
  for (const name of names) process.on(name, handler)
  return {
    signal: controller.signal,
    dispose: () => {
      for (const name of names) process.off(name, handler)
    },
  }
}
