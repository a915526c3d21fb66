/** The next trial's predictor, started while another trial is measured. */
import { InfeasibleError, type Launcher, type Predictor } from '../../trials/types.ts'
import type { TrialRequest } from './trial-runner.ts'

/**
 * What came of starting it: what cannot serve stays so, anything else is tried again in its turn.
 */
type Came = Predictor | InfeasibleError | undefined

export class LaunchAhead {
  readonly request: TrialRequest
  readonly #launcher: Pick<Launcher, 'launch'>
  readonly #given = new AbortController()
  readonly #came: Promise<Came>

  /** @param signal of the run: where it aborts, nothing is left of the predictor */
  constructor(launcher: Pick<Launcher, 'launch'>, request: TrialRequest, signal: AbortSignal) {
    this.#launcher = launcher
    this.request = request
    const either = AbortSignal.any([signal, this.#given.signal])
    // A place that must be made first is not made for what may never be measured.
    const waits = () => this.#given.abort(new Error('it would wait'))
    this.#came = launcher
      .launch(request.configuration, request.number, either, waits)
      .catch((error: unknown) => (error instanceof InfeasibleError ? error : undefined))
  }

  /** For the trial whose turn it is: the predictor that was started for it, or one started now. */
  get launcher(): Pick<Launcher, 'launch'> {
    return {
      launch: async (...asked) => {
        const came = await this.#came
        if (came instanceof InfeasibleError) throw came
        return came ?? this.#launcher.launch(...asked)
      },
    }
  }

  /** It is not needed any more. Resolves once nothing is left of it. */
  async drop(): Promise<void> {
    this.#given.abort(new Error('not needed'))
    const came = await this.#came
    if (came !== undefined && !(came instanceof InfeasibleError)) await came.stop()
  }
}
