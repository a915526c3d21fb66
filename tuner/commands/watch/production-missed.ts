/**
 * Whether production misses its SLO while a change of it is judged: window by window, as a watch
 * counts them.
 */
import type { ProductionWindow } from '../../../reports/watch/production-window.ts'
import { nothingSeen, type Watched, windowSeen } from '../../../reports/watch/watching.ts'
import type { Source } from './production-source.ts'

interface Beside {
  readonly whole: Source
  /**
   * What production sends to the pods that are judged, alone; undefined where the source cannot
   * tell. @param sinceS how far back it goes
   */
  readonly ownOf: (pods: string, sinceS: number) => Source | undefined
  readonly windowS: number
  readonly watched: Watched
  /** Where the watch stands. */
  readonly untilS: number | undefined
  readonly place: unknown
  readonly nowS: () => number
}

/**
 * Looks again whenever a window has ended; windows that begin before `sinceS`, and those of too few
 * requests, say nothing.
 * @param pods the name that those of the pods begin with
 */
export function missedSince({ whole, ownOf, windowS, watched, untilS, place, nowS }: Beside) {
  let looked = Math.floor(nowS() / windowS)
  const missedIn = (windows: readonly ProductionWindow[], sinceS: number) =>
    windows
      .filter(({ fromS }) => fromS >= sinceS)
      .find((window) => windowSeen(nothingSeen(0), window, watched).looks[0]?.missed)
  return async (sinceS: number, pods: string, signal: AbortSignal): Promise<string | undefined> => {
    if (Math.floor(nowS() / windowS) === looked) return undefined
    looked = Math.floor(nowS() / windowS)
    const all = missedIn((await whole.read(nowS(), untilS, place, signal)).windows, sinceS)
    if (all) return missedText('production', all)
    const own = await ownOf(pods, sinceS)?.read(nowS(), undefined, undefined, signal)
    const missed = own && missedIn(own.windows, sinceS)
    return missed && missedText(`what production sends to ${pods}`, missed)
  }
}

function missedText(whose: string, { seconds, sloMs, errorShare = 0 }: ProductionWindow): string {
  const latency =
    sloMs === undefined ? [] : [`${Number(sloMs.toPrecision(3))} ms at its percentile`]
  const errors =
    errorShare > 0 ? [`${Number((100 * errorShare).toPrecision(2))} % of requests fail`] : []
  return `${whose} misses the SLO in a window of ${seconds} s: ${[...latency, ...errors].join(', ')}`
}
