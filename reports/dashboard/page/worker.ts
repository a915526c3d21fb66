/**
 * The model of what matters is fitted beside the page, in a worker made of the same script; where
 * there is none (a saved page), in the page itself.
 */

import type { Configuration, Parameter } from '../../../search/types.ts'
import { computeEffects, type Effects, type ServedPoint } from '../data/importance.ts'
import { computeNeighbourhood, type Neighbourhood } from '../data/neighbourhood.ts'

interface EffectsQuestion {
  readonly parameters: readonly Parameter[]
  readonly served: readonly ServedPoint[]
  readonly seed: number
  readonly centre: Configuration
  /** Parameters of the surface. */
  readonly pair: readonly string[]
}
export interface ParameterEffects {
  readonly effects: Effects
  readonly around?: Neighbourhood
}

function answer({
  parameters,
  served,
  seed,
  centre,
  pair,
}: EffectsQuestion): ParameterEffects | undefined {
  const effects = computeEffects(parameters, served, seed)
  if (effects === undefined) return undefined
  const byImportance = effects.effects.map(({ parameter }) => parameter)
  return {
    effects,
    around: computeNeighbourhood(parameters, served, centre, [...pair, ...byImportance], seed),
  }
}

/** In a worker: answers every question. */
export function serveEffects(scope: {
  onmessage: ((event: MessageEvent<EffectsQuestion>) => void) | null
  postMessage(message: unknown): void
}): void {
  scope.onmessage = ({ data }) => scope.postMessage(answer(data))
}

let worker: Worker | undefined
let timer: ReturnType<typeof setTimeout> | undefined

/**
 * Asks; a later question replaces one that is not answered yet. Waits for a pause first, for a drag
 * asks sixty times a second. @param atOnce paper waits for nothing
 */
export function askForEffects(
  question: EffectsQuestion,
  atOnce: boolean,
  done: (effects: ParameterEffects | undefined) => void,
): void {
  clearTimeout(timer)
  if (atOnce) {
    done(answer(question))
    return
  }
  timer = setTimeout(() => {
    if (location.protocol !== 'http:') {
      done(answer(question))
      return
    }
    worker?.terminate()
    worker = new Worker('/app.js')
    worker.onmessage = ({ data }: MessageEvent<ParameterEffects | undefined>) => done(data)
    worker.postMessage(question)
  }, 350)
}
