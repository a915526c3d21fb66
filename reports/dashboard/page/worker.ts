/**
 * Computes parameter effects in a worker that runs the same script; a saved page has no worker and
 * computes them itself.
 */

import type { Configuration, Parameter } from '../../../search/types.ts'
import { computeEffects, type Effects, type FeasiblePoint } from '../data/importance.ts'
import { computeNeighbourhood, type Neighbourhood } from '../data/neighbourhood.ts'

interface EffectsRequest {
  readonly parameters: readonly Parameter[]
  readonly feasiblePoints: readonly FeasiblePoint[]
  readonly seed: number
  /** Configuration through which slices and surface pass. */
  readonly centre: Configuration
  /** The two parameters of the surface; empty: the two most important ones. */
  readonly surfaceParameters: readonly string[]
}
export interface ParameterEffects {
  readonly effects: Effects
  readonly neighbourhood?: Neighbourhood
}

function computeParameterEffects({
  parameters,
  feasiblePoints,
  seed,
  centre,
  surfaceParameters,
}: EffectsRequest): ParameterEffects | undefined {
  const effects = computeEffects(parameters, feasiblePoints, seed)
  if (effects === undefined) return undefined
  const byImportance = effects.effects.map(({ parameter }) => parameter)
  return {
    effects,
    neighbourhood: computeNeighbourhood(
      parameters,
      feasiblePoints,
      centre,
      [...surfaceParameters, ...byImportance],
      seed,
    ),
  }
}

/** Handles requests for parameter effects, in the worker. */
export function serveEffectRequests(scope: {
  onmessage: ((event: MessageEvent<EffectsRequest>) => void) | null
  postMessage(message: unknown): void
}): void {
  scope.onmessage = ({ data }) => scope.postMessage(computeParameterEffects(data))
}

let worker: Worker | undefined
let timer: ReturnType<typeof setTimeout> | undefined

/**
 * Pause without another request before the computation starts, ms: a drag requests 60 times a
 * second.
 */
const requestPauseMs = 350

/**
 * Requests the effects. A later request replaces one that has no result yet.
 * @param isSynchronous computes them before it returns, for printing
 */
export function requestEffects(
  request: EffectsRequest,
  isSynchronous: boolean,
  done: (effects: ParameterEffects | undefined) => void,
): void {
  clearTimeout(timer)
  if (isSynchronous) {
    done(computeParameterEffects(request))
    return
  }
  timer = setTimeout(() => {
    if (location.protocol !== 'http:') {
      done(computeParameterEffects(request))
      return
    }
    worker?.terminate()
    worker = new Worker('/app.js')
    worker.onmessage = ({ data }: MessageEvent<ParameterEffects | undefined>) => done(data)
    worker.postMessage(request)
  }, requestPauseMs)
}
