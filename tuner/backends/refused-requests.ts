/**
 * Detects a server that starts to reject every request, e.g. after a token expired or a model was
 * unloaded. More load would measure nothing.
 */

import type { LoadPoint } from '../../profiler/model/load-point.ts'
import { headerHint } from '../../profiler/protocols/refusals.ts'
import { type Finality, LaunchError, type Predictor } from '../../trials/types.ts'
import type { MeasureOptions } from './backend.ts'

/** Statuses of wrong requests, as opposed to overload, with a hint for each. */
const hints: Readonly<Record<string, string>> = {
  401: `${headerHint} that stays valid for the whole run; a short-lived token expires`,
  403: `${headerHint}, or check whether the load used up a quota`,
  404: 'check the log of the server: its model or path may have gone away under load',
  405: 'check whether another server took its place',
  410: 'check the log of the server: its model or path may have gone away under load',
}
/** Minimum number of rejected requests in a window that counts as rejected. Assumed. */
const minRequests = 20
/**
 * Minimum share of rejected requests in such a window: a server that serves some requests is not
 * gone. Assumed.
 */
const minRejectedShare = 0.9

/** Finds the status that nearly all requests of a window got; undefined if they were served. */
export function findRefusal({
  requests,
  errors,
  errorKinds,
}: Pick<LoadPoint, 'requests' | 'errors' | 'errorKinds'>):
  | { status: string; count: number; total: number }
  | undefined {
  const total = Math.max(requests, errors)
  for (const status of Object.keys(hints)) {
    const count = errorKinds[`status ${status}`] ?? 0
    if (count >= minRequests && count >= minRejectedShare * total) return { status, count, total }
  }
  return undefined
}

/**
 * Runs a measurement, and aborts it at a window of rejected requests.
 * @param finality what the rejection ends: the configuration or the experiment
 * @throws LaunchError with the status and a hint; what `work` throws
 */
export async function abortWhenRefused<T>(
  { logPath }: Pick<Predictor, 'logPath'>,
  finality: Finality,
  onStep: MeasureOptions['onStep'],
  signal: AbortSignal,
  work: (onStep: MeasureOptions['onStep'], signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const rejection = new AbortController()
  const checkStep: MeasureOptions['onStep'] = (point, phase) => {
    onStep(point, phase)
    const refusal = findRefusal(point)
    if (refusal === undefined) return
    const what = `the server first served correctly, then answered ${refusal.status} to ${refusal.count} of ${refusal.total} requests`
    rejection.abort(new LaunchError(what, hints[refusal.status], logPath, finality))
  }
  return work(checkStep, AbortSignal.any([signal, rejection.signal]))
}
