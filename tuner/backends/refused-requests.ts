/**
 * A server that served and then refuses everyone: a token that ran out, a model or a path that is
 * gone. Load says no more of it.
 */

import type { LoadPoint } from '../../profiler/model/load-point.ts'
import { headerHint } from '../../profiler/protocols/refusals.ts'
import { type Finality, LaunchError, type Predictor } from '../../trials/types.ts'
import type { MeasureOptions } from './backend.ts'

/**
 * Statuses by which a server says that it is not asked as it should be; those of an overload are
 * others.
 */
const hints: Readonly<Record<string, string>> = {
  401: `${headerHint} that stays valid for the whole run; a short-lived token expires`,
  403: `${headerHint}, or check whether the load used up a quota`,
  404: 'check the log of the server: its model or path may have gone away under load',
  405: 'check whether another server took its place',
  410: 'check the log of the server: its model or path may have gone away under load',
}
/** Requests of a window that are enough to tell, and the share of them that must be refused so. */
const fewestRequests = 20
const nearlyAll = 0.9

/** What a window says of it; undefined where it was served. */
export function refusalIn({
  requests,
  errors,
  errorKinds,
}: Pick<LoadPoint, 'requests' | 'errors' | 'errorKinds'>):
  | { status: string; count: number; of: number }
  | undefined {
  const of = Math.max(requests, errors)
  for (const status of Object.keys(hints)) {
    const count = errorKinds[`status ${status}`] ?? 0
    if (count >= fewestRequests && count >= nearlyAll * of) return { status, count, of }
  }
  return undefined
}

/**
 * Measures until a window is refused whole.
 * @param final of such an end
 * @throws LaunchError with the status and what to change; what `work` throws
 */
export async function unlessRefused<T>(
  { logPath }: Pick<Predictor, 'logPath'>,
  final: Finality,
  onStep: MeasureOptions['onStep'],
  signal: AbortSignal,
  work: (onStep: MeasureOptions['onStep'], signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const refused = new AbortController()
  const look: MeasureOptions['onStep'] = (point, phase) => {
    onStep(point, phase)
    const found = refusalIn(point)
    if (found === undefined) return
    const what = `the server first served correctly, then answered ${found.status} to ${found.count} of ${found.of} requests`
    refused.abort(new LaunchError(what, hints[found.status], logPath, final))
  }
  return work(look, AbortSignal.any([signal, refused.signal]))
}
