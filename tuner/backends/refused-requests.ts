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
  401: `${headerHint}, one that lasts; a token of a few minutes ends with them`,
  403: `${headerHint}; or is there a quota that the load used up?`,
  404: 'did its model or its path go away under load? Its own log may say',
  405: 'did another server take its place?',
  410: 'did its model or its path go away under load? Its own log may say',
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
    const what = `after good answers the server answered ${found.status} to ${found.count} of ${found.of} requests`
    refused.abort(new LaunchError(what, hints[found.status], logPath, final))
  }
  return work(look, AbortSignal.any([signal, refused.signal]))
}
