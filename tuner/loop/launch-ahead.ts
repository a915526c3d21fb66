/** A predictor that is launched while other trials are measured. */
import { InfeasibleError, type Launcher, type Predictor } from '../../trials/types.ts'
import type { TrialRequest } from './trial-runner.ts'

/** Undefined: the launch failed or would have had to wait, and is repeated by its trial. */
type LaunchResult = Predictor | InfeasibleError | undefined

export class LaunchAhead {
  readonly request: TrialRequest
  readonly #launcher: Pick<Launcher, 'launch'>
  readonly #cancelled = new AbortController()
  readonly #result: Promise<LaunchResult>

  /** @param signal of the run: when it aborts, the launch leaves nothing behind */
  constructor(launcher: Pick<Launcher, 'launch'>, request: TrialRequest, signal: AbortSignal) {
    this.#launcher = launcher
    this.request = request
    // No node is added for a predictor that may never be measured.
    const onWaiting = () => this.#cancelled.abort(new Error('the launch would have to wait'))
    this.#result = launcher
      .launch(
        request.configuration,
        request.number,
        AbortSignal.any([signal, this.#cancelled.signal]),
        onWaiting,
      )
      .catch((error: unknown) => (error instanceof InfeasibleError ? error : undefined))
  }

  /** Launcher for the trial: it returns this predictor, or launches one if there is none. */
  get launcher(): Pick<Launcher, 'launch'> {
    return {
      launch: async (...options) => {
        const result = await this.#result
        if (result instanceof InfeasibleError) throw result
        return result ?? this.#launcher.launch(...options)
      },
    }
  }

  /** Stops the launch or the predictor. Resolves once nothing of it remains. */
  async cancel(): Promise<void> {
    this.#cancelled.abort(new Error('not needed'))
    const result = await this.#result
    if (result !== undefined && !(result instanceof InfeasibleError)) await result.stop()
  }
}
