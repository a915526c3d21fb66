/**
 * A server's own metrics under load, at the rate that was measured: what a bound on them is held
 * against.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Arrivals } from '../../profiler/model/load.ts'
import type { LoadGenerator } from '../../profiler/model/load-generator.ts'
import type { LoadRun } from '../../profiler/model/load-run.ts'
import type { Measurement } from '../../profiler/model/measurement.ts'
import type { MetricReading, ServerMetric } from '../../profiler/model/server-metric.ts'
import type { Target } from '../../profiler/model/target.ts'
import {
  evaluateMetric,
  formatMetric,
  hasMetric,
  listMetricNames,
  portPattern,
  type Scrape,
  type Scrapes,
} from '../../profiler/prometheus.ts'
import { get } from '../../profiler/protocols/http.ts'
import { formatUrl, parseServerAddress } from '../../profiler/server-address.ts'
import { findClosestNames } from '../../trials/near-names.ts'
import { InfeasibleError, LaunchError } from '../../trials/types.ts'
import type { MeasureTask } from './backend.ts'

type HttpTarget = Extract<Target, { kind: 'http' }>

/**
 * Of the window at that rate, seconds: what comes before the first look that counts is the queue
 * filling.
 */
const settleS = 0.5
const windowS = 2.5
const everyMs = 500
/** What a reading adds to a measurement, seconds. */
export const metricsWindowS = settleS + windowS

/** What is asked of a server beside its answers. JSON-safe. */
export interface MetricsAsked {
  readonly asked: readonly ServerMetric[]
  readonly arrivals: Arrivals
  readonly seed: number
  /** The server's own address, where the load takes another way to it. */
  readonly directUrl?: string
}

/**
 * The measurement with the server's metrics at its rate, where any are asked for and there is a
 * rate: the load is played once more, and they are looked at meanwhile.
 * @throws LaunchError for metrics that are not to be had: no other configuration has them either
 */
export async function withMetrics(
  measured: Measurement,
  { asked, directUrl, ...load }: MetricsAsked,
  target: Target,
  generator: LoadGenerator,
  signal: AbortSignal,
): Promise<Measurement> {
  const { capacityRps: rateRps } = measured
  if (asked.length === 0 || target.kind !== 'http' || !(rateRps > 0)) return measured
  return {
    ...measured,
    metrics: await metricsUnderLoad(
      asked,
      target,
      { ...load, rateRps },
      generator,
      signal,
      directUrl,
    ),
  }
}

async function metricsUnderLoad(
  asked: readonly ServerMetric[],
  target: HttpTarget,
  load: Pick<MetricsAsked, 'arrivals' | 'seed'> & { readonly rateRps: number },
  generator: LoadGenerator,
  signal: AbortSignal,
  directUrl?: string,
): Promise<MetricReading[]> {
  const at = directUrl === undefined ? target : { ...target, url: directUrl }
  const places = new Map(asked.map(({ from }) => [from, serversAt(at, from)]))
  const look = (from: string) =>
    Promise.all(places.get(from)!.map((place) => scrape(place, signal)))
  // They are looked for first: a path that is wrong costs no window.
  for (const from of places.keys()) await look(from)
  let over = false
  const played = generator
    .play(target, { kind: 'open', ...load, durationS: metricsWindowS }, signal)
    .then((run) => ({ run, endS: performance.now() / 1000 }))
    .finally(() => {
      over = true
    })
  try {
    const seen = new Map<string, Scrape[][]>(
      [...places].map(([from, servers]) => [from, servers.map(() => [])]),
    )
    while (!over) {
      await Promise.race([sleep(everyMs, undefined, { signal }), played])
      for (const from of places.keys())
        for (const [i, one] of (await look(from)).entries()) seen.get(from)![i]!.push(one)
    }
    const { run, endS } = await played
    return asked.map(({ name, labels, max, from }) => {
      const underLoad = seen.get(from)!.map((all) => meanwhile(all, run, endS))
      const value = evaluateMetric({ name, labels }, underLoad)
      if (
        value === undefined &&
        !underLoad.every((looks) => hasMetric({ name, labels }, looks.at(-1)!.text))
      )
        throw absent({ name, labels }, places.get(from)!, underLoad)
      return {
        name,
        ...(labels && { labels }),
        ...(max !== undefined && { max }),
        value: value ?? Number.NaN,
      }
    })
  } finally {
    await played.catch(() => undefined)
  }
}

/**
 * Scrapes from when the load has settled to its last request, wherever in them it began: a generator
 * may have to start first. Of pages that take so long that there are not two, all.
 */
function meanwhile(
  all: readonly Scrape[],
  { elapsedS, seconds }: LoadRun,
  endS: number,
): readonly Scrape[] {
  const beginS = endS - elapsedS
  const within = all.filter(({ atS }) => atS >= beginS + settleS && atS <= beginS + seconds)
  return within.length > 1 ? within : all
}

/**
 * A trial over a bound is infeasible; a confirmation says it in a caveat. A metric that is not known
 * is over no bound: a caveat says that the bound was not checked.
 * @throws InfeasibleError with the first bound that a trial is over
 */
export function heldToBounds(
  measured: Measurement,
  task: MeasureTask['kind'],
  logPath: string | undefined,
): Measurement {
  const bounded = measured.metrics?.filter(({ max }) => max !== undefined) ?? []
  const unknown = bounded.filter(({ value }) => typeof value !== 'number' || Number.isNaN(value))
  if (unknown.length > 0)
    measured = {
      ...measured,
      caveats: [
        ...measured.caveats,
        ...unknown.map(
          (one) =>
            `${formatMetric(one)} is unknown: the server did not report it under load, so its bound of ${one.max} was not checked`,
        ),
      ],
    }
  const over = bounded.find(({ value, max }) => value > max!)
  if (over === undefined) return measured
  const words = `${formatMetric(over)} is ${Number(over.value.toPrecision(4))} at ${Number(measured.capacityRps.toPrecision(3))} requests per second, over its bound of ${over.max}`
  if (task === 'trial') throw new InfeasibleError('over-bound', words, logPath)
  return { ...measured, caveats: [...measured.caveats, words] }
}

/** Where metrics stand, and how they are asked for. */
interface Place {
  readonly url: string
  /**
   * Keys, certificates and HTTP/2 are the server's own: another port or host is asked without them.
   */
  readonly access: Parameters<typeof get>[1]
}

/**
 * A path, or a port and a path, is asked of every server that shares the load; a URL is one place,
 * whoever of them it belongs to.
 */
function serversAt(target: HttpTarget, from: string): Place[] {
  const servers = (target.spread ?? [target]).map(({ url, headers }) => ({
    ...target,
    url,
    headers,
  }))
  if (/^https?:/i.test(from)) {
    const own = servers.find(
      ({ url }) => parseServerAddress(url)?.origin === parseServerAddress(from)?.origin,
    )
    return [{ url: from, access: own ?? { headers: {} } }]
  }
  const places = servers.map((access): Place => {
    const address = parseServerAddress(access.url)
    const [, port, path = '/metrics'] = portPattern.exec(from) ?? []
    const host =
      address === undefined || address.socketPath !== undefined
        ? 'localhost'
        : new URL(address.origin).hostname
    if (port !== undefined) return { url: `http://${host}:${port}${path}`, access: { headers: {} } }
    return {
      url:
        address === undefined ? from : formatUrl(address, from.startsWith('/') ? from : `/${from}`),
      access,
    }
  })
  // Several servers of a host have one such port between them, and what it counts is counted once.
  return portPattern.test(from)
    ? places.filter(({ url }, i) => places.findIndex((other) => other.url === url) === i)
    : places
}

async function scrape({ url, access }: Place, signal: AbortSignal): Promise<Scrape> {
  const hint =
    "set their place: metrics: {name: ..., from: /metrics}, or from: ':8002/metrics' for another port"
  try {
    const { status, text } = await get(url, access, signal)
    if (status !== 200)
      throw new LaunchError(`metrics: ${url} answers ${status}`, hint, undefined, 'experiment')
    return { atS: performance.now() / 1000, text }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof LaunchError) throw error
    throw new LaunchError(
      `metrics: ${url} cannot be read: ${(error as Error).message}`,
      hint,
      undefined,
      'experiment',
    )
  }
}

/** Of several servers, the first that has no such name is named. */
function absent(
  asked: Pick<ServerMetric, 'name' | 'labels'>,
  places: readonly Place[],
  seen: readonly Scrapes[],
): LaunchError {
  const pages = seen.map((looks) => listMetricNames(looks.at(-1)!.text))
  const has = (names: readonly string[]) =>
    names.includes(asked.name) || names.includes(`${asked.name}_count`)
  const at = Math.max(
    0,
    pages.findIndex((names) => !has(names)),
  )
  const names = pages[at]!
  const near = findClosestNames(asked.name, names)
  const hint = has(names)
    ? 'the server reported no values of it under load, or none with these labels'
    : near.length > 0
      ? `did you mean ${near.join(', ')}?`
      : `it has ${names.slice(0, 12).join(', ')}${names.length > 12 ? ', ...' : ''}`
  return new LaunchError(
    `metrics: no ${formatMetric(asked)} at ${places[at]!.url}`,
    hint,
    undefined,
    'experiment',
  )
}
