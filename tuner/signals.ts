/** Ctrl-C once drains, twice kills. */
import { exitCodes } from './exit-codes.ts'

/**
 * Aborts the returned signal at the first SIGINT, SIGTERM or SIGHUP; at the second the process ends
 * at once, and its `exit` handlers (launchers kill their process groups there) run. `dispose` gives
 * the signals back.
 */
export function interruptible(onFirst: (signal: NodeJS.Signals) => void): {
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
