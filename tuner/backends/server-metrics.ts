/** A server's own metrics under load, at the rate that was measured: what a bound on them is held against. */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type AskedMetric,
  type Looks,
  type MetricReading,
  metricNames,
  metricText,
  readingOf,
  type Scrape,
} from '../../profiler/prometheus.ts'
import { get } from '../../profiler/protocols/http.ts'
import { hrefOf, serverAddress } from '../../profiler/server-address.ts'
import type { Load, LoadGenerator, Target } from '../../profiler/types.ts'
import { closest } from '../../trials/devices/device-model-error.ts'
import { LaunchError } from '../../trials/types.ts'

type HttpTarget = Extract<Target, { kind: 'http' }>

/** Of the window at that rate, seconds: what comes before the first look is the queue filling. */
const settleS = 0.5
const windowS = 2.5
const looks = 5

/**
 * Plays the load once more at a rate and looks at the metrics meanwhile.
 * @throws LaunchError for metrics that are not to be had: no other configuration has them either
 */
export async function metricsUnderLoad(
  asked: readonly AskedMetric[],
  target: HttpTarget,
  load: Extract<Load, { kind: 'open' }>,
  generator: LoadGenerator,
  signal: AbortSignal,
): Promise<MetricReading[]> {
  const places = new Map(asked.map(({ from }) => [from, serversAt(target, from)]))
  const look = (from: string) => Promise.all(places.get(from)!.map((place) => scrape(place, signal)))
  // They are looked for first: a path that is wrong costs no window.
  for (const from of places.keys()) await look(from)
  const played = generator.play(target, { ...load, durationS: settleS + windowS }, signal)
  try {
    await sleep(settleS * 1000, undefined, { signal })
    const seen = new Map<string, Scrape[][]>([...places].map(([from, servers]) => [from, servers.map(() => [])]))
    for (let number = 0; number < looks; number++) {
      if (number > 0) await sleep((windowS * 1000) / looks, undefined, { signal })
      for (const from of places.keys()) for (const [i, one] of (await look(from)).entries()) seen.get(from)![i]!.push(one)
    }
    return asked.map(({ name, labels, max, from }) => {
      const value = readingOf({ name, labels }, seen.get(from)!)
      if (value === undefined) throw absent({ name, labels }, places.get(from)!, seen.get(from)!)
      return { name, ...(labels && { labels }), ...(max !== undefined && { max }), value }
    })
  } finally {
    await played.catch(() => undefined)
  }
}

/** The first that is over its bound, in words; undefined where all keep theirs. */
export function overBound(readings: readonly MetricReading[], rateRps: number): string | undefined {
  const over = readings.find(({ value, max }) => max !== undefined && !(value <= max))
  return (
    over &&
    `${metricText(over)} is ${Number(over.value.toPrecision(4))} at ${Number(rateRps.toPrecision(3))} requests per second, over its bound of ${over.max}`
  )
}

/** Where metrics stand, and how they are asked for. */
interface Place {
  readonly url: string
  /** Keys, certificates and HTTP/2 are the server's own: another port or host is asked without them. */
  readonly access: Parameters<typeof get>[1]
}

/** A path is asked of every server that shares the load; a URL is one place, whoever of them it belongs to. */
function serversAt(target: HttpTarget, from: string): Place[] {
  const servers = (target.spread ?? [target]).map(({ url, headers }) => ({ ...target, url, headers }))
  if (/^https?:/i.test(from)) {
    const own = servers.find(({ url }) => serverAddress(url)?.origin === serverAddress(from)?.origin)
    return [{ url: from, access: own ?? { headers: {} } }]
  }
  return servers.map((access) => {
    const address = serverAddress(access.url)
    return { url: address === undefined ? from : hrefOf(address, from.startsWith('/') ? from : `/${from}`), access }
  })
}

async function scrape({ url, access }: Place, signal: AbortSignal): Promise<Scrape> {
  const hint = 'say where they are: metrics: {name: ..., from: /metrics}, or a URL of another port'
  try {
    const { status, text } = await get(url, access, signal)
    if (status !== 200) throw new LaunchError(`metrics: ${url} answers ${status}`, hint, undefined, 'experiment')
    return { atS: performance.now() / 1000, text }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof LaunchError) throw error
    throw new LaunchError(`metrics: ${url} cannot be read: ${(error as Error).message}`, hint, undefined, 'experiment')
  }
}

/** Of several servers, the first that has no such name is named. */
function absent(asked: Pick<AskedMetric, 'name' | 'labels'>, places: readonly Place[], seen: readonly Looks[]): LaunchError {
  const pages = seen.map((looks) => metricNames(looks.at(-1)!.text))
  const has = (names: readonly string[]) => names.includes(asked.name) || names.includes(`${asked.name}_count`)
  const at = Math.max(
    0,
    pages.findIndex((names) => !has(names)),
  )
  const names = pages[at]!
  const near = closest(asked.name, names)
  const hint = has(names)
    ? 'nothing was observed of it under load, or not with those labels'
    : near.length > 0
      ? `did you mean ${near.join(', ')}?`
      : `it has ${names.slice(0, 12).join(', ')}${names.length > 12 ? ', ...' : ''}`
  return new LaunchError(`metrics: no ${metricText(asked)} at ${places[at]!.url}`, hint, undefined, 'experiment')
}
